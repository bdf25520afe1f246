"""How far a run is: its cells by model and state, and how fast they come. Only names and times of
files are looked at.
"""

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ecgbench.results.folders import DONE
from ecgbench.results.store import Status, Store, cells_of

WINDOW = 6 * 3600.0
"""Seconds back from now in which cells that were finished tell the rate."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Of all cells of a plan."""

    models: dict[str, Counter[Status]]
    """Model -> cells by state; "ok" is finished."""
    recent: tuple[float, ...] = field(default=())
    """Ages of the cells that were finished within WINDOW, in seconds, oldest first."""

    @property
    def all(self) -> Counter[Status]:
        """Cells by state."""
        return sum(self.models.values(), Counter[Status]())

    @property
    def rate(self) -> float:
        """Cells a second, from the first recent one to now; 0 where there are too few."""
        return len(self.recent) / self.recent[0] if len(self.recent) > 1 else 0.0

    @property
    def left(self) -> float | None:
        """Seconds that the missing cells take at this rate; None where it is not known."""
        missing = self.all["missing"]
        return missing / self.rate if self.rate else None if missing else 0.0


def count(run: Path) -> Counts:
    """Of a run folder; MissingData where there is no run."""
    store = Store(run)
    plan, now = store.existing_plan(), time.time()
    models: dict[str, Counter[Status]] = {}
    for cell in plan.cells:
        models.setdefault(cell.fit.model, Counter())[store.state(cell)[0]] += 1
    times = (now - os.stat(folder / DONE).st_mtime for folder in cells_of(run))
    return Counts(
        models=models, recent=tuple(sorted((t for t in times if t <= WINDOW), reverse=True))
    )
