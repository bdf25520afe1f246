"""What run folders hold and what of it can be freed."""

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ecgbench.errors import BadSetting
from ecgbench.files import locked
from ecgbench.results.folders import DAMAGED
from ecgbench.results.store import Status, Store, cells_of

PARTS = ("cells", "fits", "features", "checkpoints")
"""Parts of a run whose sizes are shown one by one."""
STATES: tuple[Status, ...] = ("ok", "failed", "skipped", "missing")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder."""

    path: Path
    states: dict[str, int]
    """Cells of the plan that are ok, failed, skipped, missing."""
    disk: dict[str, int]
    """Bytes of each of PARTS and of "other"."""
    note: str = ""
    """Why it cannot be read, or ""."""


def runs(folder: Path) -> list[Run]:
    """The runs in a folder, or the folder's own, by name."""
    paths = [folder] if (folder / "plan.json").is_file() else sorted(p.parent for p in folder.glob("*/plan.json"))
    return [look(path) for path in paths]


def look(path: Path) -> Run:
    """Count the cells and bytes of a run."""
    store, note = Store(path), ""
    try:
        plan = store.plan()
    except BadSetting as error:
        plan, note = None, str(error)
    states = Counter(store.state(cell)[0] for cell in plan.cells) if plan else Counter[Status]()
    disk = dict.fromkeys((*PARTS, "other"), 0)
    for child in path.iterdir():
        disk[child.name if child.name in PARTS else "other"] += size(child)
    return Run(path=path, states={s: states[s] for s in STATES}, disk=disk, note=note)


def size(path: Path) -> int:
    """Bytes of a file or of all files below a folder."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum(p.stat().st_size for p in files)


def spare(path: Path) -> Iterator[Path]:
    """What can be removed from a run without losing a number.

    Features, checkpoints, intervals (which reading computes again), and cells that its plan does not name.
    """
    store = Store(path)
    planned = {store.folder(cell) for cell in store.existing_plan().cells}
    yield from (folder for name in ("features", "checkpoints", "derived") if size(folder := path / name))
    yield from sorted(folder for folder in cells_of(path) if folder not in planned)
    yield from sorted(p for part in ("cells", "fits") for p in (path / part).rglob(f"{DAMAGED}-*"))


def prune(path: Path) -> int:
    """Remove what is spare; returns the bytes. BadSetting while a run is working there."""
    for lock in sorted((path / "locks").glob("*")):
        with locked(lock.parent, lock.name, otherwise=f"a run is working in {path}; prune it when it has ended"):
            pass
    freed = 0
    for folder in list(spare(path)):
        freed += size(folder)
        shutil.rmtree(folder)
    return freed
