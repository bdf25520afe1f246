"""Joins two run folders: complete folders and files are copied, nothing is overwritten, nothing is
lost.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ecgbench.core.cells import Cell, key
from ecgbench.core.files import making, move, put, put_into, sha256_of
from ecgbench.core.folders import demand_intact, document, finished
from ecgbench.errors import BadSetting, Damaged
from ecgbench.results import people
from ecgbench.results.whole import CELL, cell_document, fit_document
from ecgbench.study import frozen
from ecgbench.study.store import Store, claimed

_VERSION = {"model": ("source", "weights"), "dataset": ("data",), "policy": ("policy_source",)}
"""Facts of a cell's key that tell two versions of a model, dataset or policy apart."""
_FILES = (
    "models",
    "datasets",
    "policies",
    "invocations",
    "reasons",
    "checkpoints",
    "logs",
    "features",
    "people",
)
"""Folders whose files have names of their own, so that a file that is there is the same; but for
windows of features.
"""


def merge(run: Path, other: Path, to: Path) -> dict[str, int]:
    """Join two runs in the folder `to`, which may be the first of them.

    Returns counts: cells, fits, files that were copied; damaged (cells, fits and facts that were
    left out). BadSetting where their settings differ, where one row would hold cells of two
    versions of a plug-in, or where `to` holds another run; MissingData where there is no run.
    """
    first, second, target = Store(run), Store(other), Store(to)
    first.existing_plan()
    plan, in_place = second.existing_plan(), to.resolve() == run.resolve()
    if other.resolve() in (run.resolve(), to.resolve()):
        raise BadSetting(
            f"{other} would be merged with itself; name two folders: ecgbench merge A B [--to C]"
        )
    if not in_place and to.exists() and any(to.iterdir()):
        raise BadSetting(f"--to {to} is not empty; choose a new folder")
    _refuse_two_versions(first.join(plan).cells, first, second)  # before anything is written
    counts = {"cells": 0, "fits": 0, "files": 0, "damaged": 0}
    _one_plan(first.path, second.path)
    for store in [second] if in_place else [first, second]:
        for asked in store.requested():
            target.add_request(asked.request(), asked.plugins)
        newer = _newer(store, target)  # compared before the cells are copied
        for kind in ("fits", "cells"):
            for folder in _finished(store.path / kind):
                good = _believed(folder)
                counts[kind if good else "damaged"] += _copy(folder, store, target) if good else 1
        for file in _files(store.path):
            good = _named_rightly(file)
            counts["files" if good else "damaged"] += _copy_file(file, store, target) if good else 1
        target.add_keys(newer)
        frozen.copied(store.path, to)
    return counts


def _one_plan(run: Path, other: Path) -> None:
    """BadSetting where one of two runs was scored under a frozen plan and the other not."""
    if frozen.hash_of(run) != frozen.hash_of(other):
        raise BadSetting(
            f"{run} and {other} have not the same frozen plan ({frozen.FILE}), so that a merged "
            f"run would hold results of both kinds as one; report them apart"
        )


def _believed(folder: Path) -> bool:
    """Whether a finished cell or fit is what was written, in its own place."""
    read = cell_document if (folder / CELL).exists() else fit_document
    with suppress(Damaged):
        demand_intact(folder)
        read(folder)
        return True
    return False


def _named_rightly(file: Path) -> bool:
    """Whether a file that is named by its hash, or has it beside it, holds what was hashed; True of
    any other.
    """
    if file.parent.name == "people" and file.suffix == ".parquet":
        return not people.is_damaged(file)
    if file.parent.name == "policies":
        return sha256_of(file) == file.stem
    if file.parent.name not in ("models", "datasets"):
        return True
    with suppress(Damaged):
        return key(document(file)) == file.stem
    return False


def _finished(root: Path) -> Iterator[Path]:
    for done in sorted(root.rglob("DONE")):
        if not any(part.startswith(".") for part in done.relative_to(root).parts):
            yield done.parent


def _copy(folder: Path, source: Store, target: Store) -> int:
    place = target.path / folder.relative_to(source.path)
    if finished(place):
        return 0
    with making(place) as unfinished:
        for file in folder.iterdir():
            put_into(unfinished, file.name, file.read_bytes())
        return int(move(unfinished, place))


def _files(root: Path) -> Iterator[Path]:
    for part in _FILES:
        yield from filter(Path.is_file, sorted((root / part).rglob("[!.]*")))


def _copy_file(file: Path, source: Store, target: Store) -> int:
    place = target.path / file.relative_to(source.path)
    if file.parent.parent.name == "windows":  # shards are counted, and read together
        present = [
            p for p in place.parent.glob("*.safetensors") if p.stat().st_size == file.stat().st_size
        ]
        if any(p.read_bytes() == file.read_bytes() for p in present):
            return 0
        last = max((int(p.stem) for p in place.parent.glob("*.safetensors")), default=-1)
        place = place.with_name(f"{last + 1:06d}.safetensors")
    if place.exists() or (file.suffix == people.HASH and not people.belongs(file, place)):
        return 0
    put(place, file.read_bytes())
    return 1


def _newer(source: Store, target: Store) -> dict[str, str]:
    """Keys of the cells of `source` that `target` has not, or finished earlier."""
    return {
        cell.identity: folder.name
        for cell in source.existing_plan().cells
        if (folder := _chosen(cell, target, source)) and folder == source.folder(cell)
    }


def _chosen(cell: Cell, first: Store, second: Store) -> Path | None:
    """The undamaged folder of a cell in one of two runs, the newer of two; the first's where they
    are of one age.
    """
    folders = [f for store in (first, second) if (f := store.folder(cell)) and _believed(f)]
    return max(folders, key=lambda folder: claimed(folder)[2], default=None)


def _refuse_two_versions(cells: Sequence[Cell], first: Store, second: Store) -> None:
    """What a merged run would show of one model, dataset or policy has one version."""
    versions: dict[tuple[str, str], tuple[Any, Path]] = {}
    for cell in cells:
        if (folder := _chosen(cell, first, second)) is None:
            continue
        facts = cell_document(folder)["key_facts"]
        for kind, names in _VERSION.items():
            version = [facts.get(name) for name in names]
            seen, where = versions.setdefault((kind, facts.get(kind, "")), (version, folder))
            if seen != version:
                raise BadSetting(
                    f"{where} and {folder} hold cells of two versions of the {kind} "
                    f"{facts.get(kind)}; "
                    "run the command of one run again with the version of the other, then merge"
                )
