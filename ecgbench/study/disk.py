"""What run folders hold and what of it can be freed."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ecgbench.core.files import locked
from ecgbench.errors import BadSetting
from ecgbench.results import aside, counts
from ecgbench.study.index import Index
from ecgbench.study.store import Status, Store, cells_of, claimed

PARTS = ("cells", "fits", "features", "checkpoints", aside.FOLDER)
"""Parts of a run whose sizes are shown one by one."""
OF_A_CELL = 4
"""Files of a finished cell."""
MOST = 20_000
"""Files of a run that are looked at for its sizes, unless more are asked for."""
STATES: tuple[Status, ...] = ("ok", "failed", "skipped", "missing", "damaged")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder."""

    path: Path
    states: dict[str, int]
    """Cells of the plan that are ok, failed, skipped, missing, damaged, as the index says; see
    `counts.states`.
    """
    disk: dict[str, int | None]
    """Bytes of each of PARTS and of "other"; None where the run holds more files than were to be
    looked at.
    """
    note: str = ""
    """Why it cannot be read, or ""."""
    set_aside: Sequence[aside.Aside] = ()
    """What was found damaged by runs."""


def runs(folder: Path, most: float = MOST, looking: bool = False) -> list[Run]:
    """The runs in a folder, or the folder's own, by name; see `look`."""
    own = (folder / "plan.toml").is_file()
    found = sorted(folder.glob("plan.toml" if own else "*/plan.toml"))
    return [look(plan.parent, most, looking) for plan in found]


def look(path: Path, most: float = MOST, looking: bool = False) -> Run:
    """Count the cells of a run, and the bytes of its files, unless they are more than `most`.
    looking: as `counts.states` says.
    """
    store, note, states = Store(path), "", Counter[Status]()
    try:
        plan = store.plan()
        cells = plan.cells if plan else ()
        states.update(status for _, status in counts.states(store, cells, looking))
    except BadSetting as error:
        note = str(error)
    return Run(
        path=path,
        states={s: states[s] for s in STATES},
        disk=_disk(path, most, len(store.index.finished) * OF_A_CELL),
        note=note,
        set_aside=aside.listed(path),
    )


def size(path: Path) -> int:
    """Bytes of a file or of all files below a folder."""
    return sum(_sizes(path))


def _disk(run: Path, most: float, least: int) -> dict[str, int | None]:
    """Bytes by part, None where there are more than `most` files; it has at least `least`."""
    if least > most:
        return dict.fromkeys((*PARTS, "other"))
    disk, files = dict.fromkeys((*PARTS, "other"), 0), 0
    for child in run.iterdir():
        for bytes_of_one in _sizes(child):
            disk[child.name if child.name in PARTS else "other"] += bytes_of_one
            files += 1
            if files > most:
                return dict.fromkeys(disk)
    return dict(disk)


def _sizes(path: Path | str) -> Iterator[int]:
    """Bytes of a file, or of each file below a folder."""
    if os.path.isfile(path):
        yield os.stat(path).st_size
        return
    with suppress(FileNotFoundError), os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(entry.path)
            elif entry.is_file():
                yield entry.stat().st_size


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
