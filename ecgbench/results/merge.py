"""Two run folders made one: complete folders and files are copied, nothing is overwritten, nothing is lost."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ecgbench.errors import BadSetting, MissingData
from ecgbench.files import making, move, put
from ecgbench.results.folders import finished, intact, read_json
from ecgbench.results.store import Store

_FILES = ("models", "datasets", "policies", "invocations", "reasons", "checkpoints", "logs")
"""Folders whose files have names of their own, so that a file that is there is the same."""


def merge(one: Path, other: Path, to: Path) -> dict[str, int]:
    """Join two runs in the folder `to`, which may be the first of them. Returns counts: cells, fits, files.

    BadSetting where their settings differ or `to` holds another run; MissingData where there is no run.
    """
    first, second, target = Store(one), Store(other), Store(to)
    for store in (first, second):
        if store.plan() is None:
            raise MissingData(f"no run in {store.path} (no plan.json there); see `ecgbench runs ls`")
    if one.resolve() == other.resolve() or other.resolve() == to.resolve():
        raise BadSetting(f"{other} would be merged with itself; name two folders: ecgbench merge A B [--to C]")
    if to.resolve() != one.resolve() and to.exists() and any(to.iterdir()):
        raise BadSetting(f"--to {to} is not empty; choose a new folder")
    plan = second.plan()
    assert plan is not None
    first.join(plan)  # before anything is written
    counts = {"cells": 0, "fits": 0, "files": 0}
    for store in [second] if to.resolve() == one.resolve() else [first, second]:
        plan = store.plan()
        assert plan is not None
        target.write_plan(plan)
        for kind, folder in (("fits", f) for f in _complete(store.path / "fits")):
            counts[kind] += _copy(folder, store, target)
        newer = _newer(store, target)  # by what is there before the cells of the other arrive
        for folder in _complete(store.path / "cells"):
            counts["cells"] += _copy(folder, store, target)
        counts["files"] += sum(_copy_file(file, store, target) for file in _files(store.path))
        target.add_keys(newer)
    return counts


def _complete(root: Path) -> Iterator[Path]:
    for done in sorted(root.rglob("DONE")):
        if not any(part.startswith(".") for part in done.relative_to(root).parts) and intact(done.parent):
            yield done.parent


def _copy(folder: Path, source: Store, target: Store) -> int:
    place = target.path / folder.relative_to(source.path)
    if finished(place):
        return 0
    with making(place) as made:
        for file in folder.iterdir():
            put(made / file.name, file.read_bytes())
        return int(move(made, place))


def _files(root: Path) -> Iterator[Path]:
    for part in (*_FILES, "features"):
        yield from (p for p in sorted((root / part).rglob("*")) if p.is_file() and not p.name.startswith("."))


def _copy_file(file: Path, source: Store, target: Store) -> int:
    place = target.path / file.relative_to(source.path)
    if file.parent.parent.name == "windows":  # shards are counted, and read together
        present = [p for p in place.parent.glob("*.safetensors") if p.stat().st_size == file.stat().st_size]
        if any(p.read_bytes() == file.read_bytes() for p in present):
            return 0
        last = max((int(p.stem) for p in place.parent.glob("*.safetensors")), default=-1)
        place = place.with_name(f"{last + 1:06d}.safetensors")
    if place.exists():
        return 0

    def content(out: BinaryIO) -> None:
        with file.open("rb") as opened:
            shutil.copyfileobj(opened, out)

    put(place, content)
    return 1


def _newer(source: Store, target: Store) -> dict[str, str]:
    """Keys of the cells of `source` that `target` has not, or finished earlier."""
    plan = source.plan()
    chosen = {}
    for cell in plan.cells if plan else ():
        ours, theirs = target.folder(cell), source.folder(cell)
        if theirs is not None and (ours is None or _moment(ours) < _moment(theirs)):
            chosen[cell.identity] = theirs.name
    return chosen


def _moment(folder: Path) -> float:
    return float(read_json(folder, "cell.json")["finished"])
