"""What run folders hold and what of it can be freed."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ecgbench.core.files import locked
from ecgbench.errors import BadSetting
from ecgbench.study import counts, quarantine
from ecgbench.study.index import Index
from ecgbench.study.store import Status, Store, cells_of, claimed

PARTS = ("cells", "fits", "features", "checkpoints", quarantine.FOLDER)
"""Parts of a run whose sizes are shown one by one."""
STATES: tuple[Status, ...] = ("ok", "failed", "skipped", "missing", "damaged")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder."""

    path: Path
    states: dict[str, int]
    """Cells of the plan in each of STATES, as `counts.states` says."""
    disk: dict[str, int] = field(default_factory=dict)
    """Bytes of each of PARTS and of "other"; {} where they were not looked at."""
    note: str = ""
    """Why it cannot be read, or ""."""
    set_aside: Sequence[quarantine.Moved] = ()
    """What was found damaged by runs."""


def runs(folder: Path, sizes: bool = False, looking: bool = False) -> list[Run]:
    """The runs in a folder, or the folder's own, by name; see `look`."""
    own = (folder / "plan.toml").is_file()
    found = sorted(folder.glob("plan.toml" if own else "*/plan.toml"))
    return [look(plan.parent, sizes, looking) for plan in found]


def look(path: Path, sizes: bool = False, looking: bool = False) -> Run:
    """Count the cells of a run and, with `sizes`, the bytes of its files. looking: as
    `counts.states` says.
    """
    store, note, states, disk = Store(path), "", Counter[Status](), Counter[str]()
    try:
        plan = store.plan()
        cells = plan.cells if plan else ()
        states.update(status for _, status in counts.states(store, cells, looking))
    except BadSetting as error:
        note = str(error)
    for child in path.iterdir() if sizes else ():
        disk[child.name if child.name in PARTS else "other"] += size(child)
    return Run(
        path=path,
        states={s: states[s] for s in STATES},
        disk={part: disk[part] for part in (*PARTS, "other")} if sizes else {},
        note=note,
        set_aside=quarantine.listed(path),
    )


def size(path: Path) -> int:
    """Bytes of a file or of all files below a folder."""
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())


def spare(path: Path) -> Iterator[Path]:
    """What can be removed from a run without losing a number.

    Features, checkpoints, intervals (which reading computes again), what was damaged and set aside,
    cells that its plan does not name, and cells under an old key where the key of today is
    finished. A damaged cell in its place stays.
    """
    store = Store(path)
    planned = {cell.identity: store.folder(cell) for cell in store.existing_plan().cells}
    yield from filter(
        size, (path / name for name in ("features", "checkpoints", "derived", quarantine.FOLDER))
    )
    for folder in sorted(cells_of(path)):
        identity = claimed(folder)[0]
        if identity and planned.get(identity, path) not in (None, folder):
            yield folder


def prune(path: Path) -> int:
    """Remove what is spare; returns the bytes. BadSetting while a run is working there."""
    for lock in sorted(p for p in (path / "locks").glob("*") if p.suffix != ".owner"):
        working = f"a run is working in {path}; prune it when it has ended"
        with locked(lock.parent, lock.name, otherwise=working):
            pass
    freed = 0
    index = Index(path)
    index.read()
    for folder in list(spare(path)):
        freed += size(folder)
        if folder.name in index.finished:
            index.add_gone([folder.name])
        shutil.rmtree(folder)
    return freed
