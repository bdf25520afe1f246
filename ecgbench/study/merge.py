"""Merges two run folders: missing cells are copied, nothing is overwritten."""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ecgbench.cards.cell import Cell
from ecgbench.core.files import DAMAGED, OUTDATED, making, move, put
from ecgbench.core.folders import DONE, demand_intact, finished
from ecgbench.errors import BadSetting, Damaged
from ecgbench.study import frozen, lent
from ecgbench.study.plan_file import FILE
from ecgbench.study.store import Store, noted, outdate
from ecgbench.study.stored import CELL, FIT, document_of

_VERSION = {
    "model": ("source", "weights"),
    "dataset": ("data",),
    "policy": ("policy_source",),
    "task": ("labels", "records"),
}
"""Facts of a cell's key that identify the version of a model, dataset, policy or task."""
_FILES = (
    *("models", "datasets", "policies", "invocations", "reasons", "checkpoints", "logs"),
    *("features", "people", "networks"),
)
"""Folders whose file names identify the content, so that an existing file is the same. Readers
compare it with its hash.
"""


def merge(run: Path, other: Path, to: Path) -> Counter[str]:
    """Merge two runs into the folder `to`, which may be the first of them.

    Returns counts of what was copied from `other`: cells, fits, files; and damaged (cells and fits
    that were not copied). BadSetting where their settings differ, where one row would hold cells of
    two versions of a plug-in, or where `to` holds another run; MissingData where there is no run.
    """
    first, second = Store(run), Store(other)
    first.existing_plan()
    plan, in_place = second.existing_plan(), to.resolve() == run.resolve()
    if other.resolve() in (run.resolve(), to.resolve()):
        raise BadSetting(
            f"{other} would be merged with itself; name two folders: ecgbench runs merge A B"
        )
    if found := [one for one in (run, other) if lent.read(one)]:
        raise BadSetting(
            f"{found[0]} was measured by others; their rows stand beside a run: ecgbench report "
            f"RUN --with {found[0]}"
        )
    if not in_place and to.exists() and any(to.iterdir()):
        raise BadSetting(f"--to {to} is not empty; choose a new folder")
    if any(one.resolve() in to.resolve().parents for one in (run, other)):
        raise BadSetting(f"--to {to} lies in one of the two runs; choose a folder beside them")
    chosen = {cell: _newest(cell, first, second) for cell in first.join(plan).cells}
    _refuse_two_versions({cell: folder for cell, folder in chosen.items() if folder})
    if _frozen_hash(run) != _frozen_hash(other):
        raise BadSetting(
            f"{run} and {other} do not have the same frozen plan ({frozen.FILE}), so that a merged "
            f"run would mix results of both kinds; report them separately"
        )
    if not in_place:
        shutil.copytree(run, to, dirs_exist_ok=True)
    target = Store(to)
    for wanted in second.requested():
        target.add_request(wanted.request(), wanted.plugins)
    counts = Counter(dict.fromkeys(("cells", "fits", "files", "damaged"), 0))
    taken = set(chosen.values())
    for folder in _finished(other):
        if _is_whole(folder):
            name = folder.relative_to(other)
            if folder in taken and finished(to / name):  # this one is newer
                outdate(to / name)
            counts[name.parts[0]] += _copy(folder, to / name)
        else:
            counts["damaged"] += 1
    for plan_file in sorted(other.glob(f"*/*/{FILE}")):  # of controls, perturbations, other heads
        derived = plan_file.parent.relative_to(other)
        if not (to / derived).exists():
            put(to / derived / FILE, plan_file.read_bytes())
        counts.update(merge(to / derived, other / derived, to / derived))
    for file in _files(other):
        if not (target_file := to / file.relative_to(other)).exists():
            put(target_file, file.read_bytes())
            counts["files"] += 1
    return counts


def _frozen_hash(run: Path) -> str:
    kept = frozen.read(run)
    return kept.stated if kept else ""


def _finished(run: Path) -> Iterator[Path]:
    """Folders of finished fits and cells."""
    for part in ("fits", "cells"):
        for done in sorted((run / part).rglob(DONE)):
            names = done.relative_to(run).parts
            if not any(
                name.startswith(".") or name.endswith((DAMAGED, OUTDATED)) for name in names
            ):
                yield done.parent


def _files(run: Path) -> Iterator[Path]:
    for part in _FILES:
        for file in sorted((run / part).rglob("[!.]*")):
            unused = file.parent.parent.name == "windows" or file.suffix == DAMAGED
            if file.is_file() and not unused:
                yield file


def _is_whole(folder: Path) -> bool:
    """Whether a finished cell or fit is what was written, under its own key."""
    with suppress(Damaged):
        demand_intact(folder)
        document_of(folder, CELL if (folder / CELL).exists() else FIT)
        return True
    return False


def _copy(folder: Path, to: Path) -> int:
    """1 where a finished folder was copied, 0 where one is there."""
    if finished(to):
        return 0
    with making(to) as unfinished:
        shutil.copytree(folder, unfinished, dirs_exist_ok=True)
        return int(move(unfinished, to))


def _newest(cell: Cell, first: Store, second: Store) -> Path | None:
    """The undamaged folder of a cell in one of two runs, the newer of two; the first's where they
    are of one age or of one key.
    """
    folders = [f for store in (first, second) if (f := store.folder(cell)) and _is_whole(f)]
    if len({noted(folder)["key"] for folder in folders}) == 1:
        return folders[0]
    return max(folders, key=lambda folder: float(noted(folder)["finished"]), default=None)


def _refuse_two_versions(folders: Mapping[Cell, Path]) -> None:
    """What a merged run would show of one model, dataset, policy or task has one version."""
    versions: dict[tuple[str, str], tuple[Any, Path]] = {}
    for cell, folder in folders.items():
        # the records of a task have other splits in each fold
        facts = {**noted(folder)["key_facts"], "task": f"{cell.task}, fold {cell.fit.fold}"}
        for kind, names in _VERSION.items():
            version = [facts.get(name) for name in names]
            seen, where = versions.setdefault((kind, facts.get(kind, "")), (version, folder))
            if seen != version:
                raise BadSetting(
                    f"{where} and {folder} hold cells of two versions of the {kind} "
                    f"{facts.get(kind)}; run the command of one run again with the version of the "
                    f"other, then merge"
                )
