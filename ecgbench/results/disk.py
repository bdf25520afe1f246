"""What run folders hold and what of it can be freed."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ecgbench.claims import NOTE
from ecgbench.errors import BadSetting
from ecgbench.files import locked
from ecgbench.results import aside
from ecgbench.results.store import Status, Store, cells_of, claimed

PARTS = ("cells", "fits", "features", "checkpoints", aside.FOLDER)
"""Parts of a run whose sizes are shown one by one."""
STATES: tuple[Status, ...] = ("ok", "failed", "skipped", "missing", "damaged")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder."""

    path: Path
    states: dict[str, int]
    """Cells of the plan that are ok, failed, skipped, missing, damaged, as the files say that are
    there; their content is not read.
    """
    disk: dict[str, int]
    """Bytes of each of PARTS and of "other"."""
    note: str = ""
    """Why it cannot be read, or ""."""
    set_aside: Sequence[aside.Aside] = ()
    """What was found damaged by runs."""


def runs(folder: Path) -> list[Run]:
    """The runs in a folder, or the folder's own, by name."""
    own = (folder / "plan.json").is_file()
    return [look(p.parent) for p in sorted(folder.glob("plan.json" if own else "*/plan.json"))]


def look(path: Path) -> Run:
    """Count the cells and bytes of a run."""
    store, note, states = Store(path), "", Counter[Status]()
    try:
        plan = store.plan()
        states.update(store.state(cell)[0] for cell in (plan.cells if plan else ()))
    except BadSetting as error:
        note = str(error)
    disk = dict.fromkeys((*PARTS, "other"), 0)
    for child in path.iterdir():
        disk[child.name if child.name in PARTS else "other"] += size(child)
    return Run(
        path=path,
        states={s: states[s] for s in STATES},
        disk=disk,
        note=note,
        set_aside=aside.listed(path),
    )


def size(path: Path) -> int:
    """Bytes of a file or of all files below a folder."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum(p.stat().st_size for p in files)


def spare(path: Path) -> Iterator[Path]:
    """What can be removed from a run without losing a number.

    Features, checkpoints, intervals (which reading computes again), what was damaged and set aside,
    cells that its plan does not name, and cells under an old key where the key of today is
    finished. A damaged cell in its place stays.
    """
    store = Store(path)
    planned = {cell.identity: store.folder(cell) for cell in store.existing_plan().cells}
    yield from filter(
        size, (path / name for name in ("features", "checkpoints", "derived", aside.FOLDER))
    )
    for folder in sorted(cells_of(path)):
        identity = claimed(folder)[0]
        if identity and planned.get(identity, path) not in (None, folder):
            yield folder


def prune(path: Path) -> int:
    """Remove what is spare; returns the bytes. BadSetting while a run is working there."""
    for lock in sorted(p for p in (path / "locks").glob("*") if p.suffix != NOTE):
        working = f"a run is working in {path}; prune it when it has ended"
        with locked(lock.parent, lock.name, otherwise=working):
            pass
    freed = 0
    for folder in list(spare(path)):
        freed += size(folder)
        shutil.rmtree(folder)
    return freed
