"""How far a run is: its cells by model and state, and how fast they come. The index says it; of
cells that it does not name, names of files are looked at.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ecgbench.core.cells import Cell
from ecgbench.core.folders import below
from ecgbench.core.registry import folder_name
from ecgbench.study.store import Status, Store

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
        return len(self.recent) / self.recent[0] if self.recent and self.recent[0] else 0.0

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
    for cell, status in states(store, plan.cells):
        models.setdefault(cell.fit.model, Counter())[status] += 1
    # a node's clock may be ahead of ours
    ages = (max(0.0, now - at) for at in store.index.finished.values())
    recent = sorted((age for age in ages if age <= WINDOW), reverse=True)
    return Counts(models=models, recent=tuple(recent))


def states(
    store: Store, cells: Iterable[Cell], looking: bool = False
) -> Iterator[tuple[Cell, Status]]:
    """The state of each cell. A folder that was removed by hand is noticed where nothing is left
    of its lead setting, and everywhere with `looking`, which looks for each of them.
    """
    if looking:
        yield from ((cell, store.state(cell)[0]) for cell in cells)
        return
    store.index.read()
    keys, finished = store.index.keys, store.index.finished
    computed, reasons = (set(below(store.path, part, 3)) for part in ("cells", "reasons"))
    named = lru_cache(None)(folder_name)
    for cell in cells:
        place = f"{named(cell.task)}/{named(cell.fit.model)}/{named(str(cell.setting))}"
        begun, reasoned = f"cells/{place}" in computed, f"reasons/{place}" in reasons
        if not begun and not reasoned:
            yield cell, "missing"
        elif begun and keys.get(cell.identity) in finished:
            yield cell, "ok"
        else:
            yield cell, store.state(cell)[0]
