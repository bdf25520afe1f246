"""Joins two run folders: complete folders and files are copied, nothing is overwritten, nothing is lost."""

from collections.abc import Iterator
from pathlib import Path

from ecgbench.errors import BadSetting
from ecgbench.files import making, move, put
from ecgbench.results.folders import finished, intact, read_json
from ecgbench.results.store import Store

_FILES = ("models", "datasets", "policies", "invocations", "reasons", "checkpoints", "logs")
"""Folders whose files have names of their own, so that a file that is there is the same."""


def merge(run: Path, other: Path, to: Path) -> dict[str, int]:
    """Join two runs in the folder `to`, which may be the first of them. Returns counts: cells, fits, files.

    BadSetting where their settings differ or `to` holds another run; MissingData where there is no run.
    """
    first, second, target = Store(run), Store(other), Store(to)
    first.existing_plan()
    plan, in_place = second.existing_plan(), to.resolve() == run.resolve()
    if other.resolve() in (run.resolve(), to.resolve()):
        raise BadSetting(f"{other} would be merged with itself; name two folders: ecgbench merge A B [--to C]")
    if not in_place and to.exists() and any(to.iterdir()):
        raise BadSetting(f"--to {to} is not empty; choose a new folder")
    first.join(plan)  # refuses other settings before anything is written
    counts = {"cells": 0, "fits": 0, "files": 0}
    for store in [second] if in_place else [first, second]:
        target.write_plan(store.existing_plan())
        newer = _newer(store, target)  # compared before the cells are copied
        for kind in ("fits", "cells"):
            counts[kind] += sum(_copy(folder, store, target) for folder in _complete(store.path / kind))
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
    with making(place) as unfinished:
        for file in folder.iterdir():
            put(unfinished / file.name, file.read_bytes())
        return int(move(unfinished, place))


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
    put(place, file.read_bytes())
    return 1


def _newer(source: Store, target: Store) -> dict[str, str]:
    """Keys of the cells of `source` that `target` has not, or finished earlier."""
    newer = {}
    for cell in source.existing_plan().cells:
        ours, theirs = target.folder(cell), source.folder(cell)
        if theirs is not None and (ours is None or _moment(ours) < _moment(theirs)):
            newer[cell.identity] = theirs.name
    return newer


def _moment(folder: Path) -> float:
    return float(read_json(folder, "cell.json")["finished"])
