"""Run folders from outside: progress, rate, disk space, and what can be removed."""

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ecgbench.core.files import DAMAGED, OUTDATED, locked
from ecgbench.core.folders import DONE
from ecgbench.errors import BadSetting
from ecgbench.study.store import STATES, Status, Store, cells_of

PARTS = ("cells", "fits", "features", "checkpoints")
"""Parts of a run whose sizes are listed."""
WINDOW = 6 * 3600.0
"""The rate is that of cells finished within so many seconds."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A run folder."""

    path: Path
    models: dict[str, Counter[Status]] = field(default_factory=dict)
    """Model -> cells of the plan by state; "ok" is finished."""
    recent: tuple[float, ...] = ()
    """Ages of the cells that were finished within WINDOW, in seconds, oldest first."""
    disk: dict[str, int] = field(default_factory=dict)
    """Bytes of each of PARTS and of "other"; {} where they were not measured."""
    note: str = ""
    """Why it cannot be read, or ""."""
    damaged: Sequence[Path] = ()
    """Quarantined files and folders."""

    @property
    def states(self) -> dict[str, int]:
        """Cells in each of STATES."""
        return {s: sum(own[s] for own in self.models.values()) for s in STATES}

    @property
    def rate(self) -> float:
        """Cells per second since the first recent one; 0 where there are too few."""
        return len(self.recent) / self.recent[0] if self.recent and self.recent[0] else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the missing cells take at this rate; None where it is not known."""
        missing = self.states["missing"]
        return missing / self.rate if self.rate else None if missing else 0.0


def runs(folder: Path, sizes: bool = False, damages: bool = False) -> list[Listed]:
    """The runs in a folder, or the folder itself if it is one, by name; see `look`."""
    own = (folder / "plan.toml").is_file()
    found = []
    for plan in sorted(folder.glob("plan.toml" if own else "*/plan.toml")):
        try:
            found.append(summary(plan.parent, sizes, damages))
        except BadSetting as error:
            found.append(Listed(path=plan.parent, note=str(error)))
    return found


def summary(path: Path, sizes: bool = False, damages: bool = False) -> Listed:
    """Count the cells of a run and, with `sizes`, the bytes of its files. MissingData where there
    is no run, BadSetting where its plan cannot be read.

    damages: look for what was found damaged.
    """
    store, now = Store(path), time.time()
    models: dict[str, Counter[Status]] = {}
    ended = []
    for cell in store.existing_plan().cells:
        status, folder = store.state(cell)[0], store.cell_folder(cell)
        models.setdefault(cell.fit.model, Counter())[status] += 1
        if status == "ok":
            ended.append(os.stat(f"{folder}/{DONE}").st_mtime)
    # a node's clock may be ahead of ours
    ages = (max(0.0, now - at) for at in ended)
    disk = Counter[str]()
    for child in path.iterdir() if sizes else ():
        disk[child.name if child.name in PARTS else "other"] += size(child)
    return Listed(
        path=path,
        models=models,
        recent=tuple(sorted((age for age in ages if age <= WINDOW), reverse=True)),
        disk={part: disk[part] for part in (*PARTS, "other")} if sizes else {},
        damaged=sorted(path.rglob(f"*{DAMAGED}")) if sizes or damages else (),
    )


def size(path: Path) -> int:
    """Bytes of a file or of all files below a folder."""
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())


def spare(path: Path) -> Iterator[Path]:
    """What can be removed from a run without losing a number.

    Features, checkpoints, what was found damaged or is of an old key, and cells
    that its plan does not name.
    """
    store = Store(path)
    planned = {*map(store.cell_folder, store.existing_plan().cells)}
    whole = [path / name for name in ("features", "checkpoints")]
    yield from filter(size, whole)
    for place in sorted([*path.rglob(f"*{DAMAGED}"), *path.rglob(f"*{OUTDATED}")]):
        if not any(place.is_relative_to(folder) for folder in whole):
            yield place
    yield from (folder for folder in sorted(cells_of(path)) if folder not in planned)


def prune(path: Path) -> int:
    """Remove what `spare` lists; returns the bytes. BadSetting while a run is working there."""
    for lock in sorted(p for p in (path / "locks").glob("*") if p.suffix != ".owner"):
        working = f"a run is working in {path}; prune it when it has ended"
        with locked(lock.parent, lock.name, otherwise=working):
            pass
    freed = 0
    for place in list(spare(path)):
        freed += size(place)
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    return freed
