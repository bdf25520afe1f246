"""Whole folders in the wrong place: finished cells, fits and features that were swapped, copied
over one another, renamed or copied from another run.
"""

import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import combinations, permutations
from pathlib import Path

from ecgbench.core.folders import DONE
from tests.soak.families.results import AFTER, follow
from tests.soak.place import Place
from tests.soak.row import Row


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """All pairs of finished folders of one part."""
    place = bases["study"]
    for part in ("cells", "fits", "features"):
        found = sorted(_finished(place.out / part, part))
        folders = [f.relative_to(place.folder) for f in found]
        label = {f: _label(f, folders) for f in folders}
        for then in AFTER:
            for pair in combinations(folders, 2):
                name = f"{part}: {label[pair[0]]} and {label[pair[1]]} swapped, then {then}"
                yield Row("swaps", name, "study", partial(_swap, pair, then))
            for pair in list(permutations(folders, 2))[:: 1 if len(folders) < 4 else 3]:
                name = f"{part}: {label[pair[0]]} copied over {label[pair[1]]}, then {then}"
                yield Row("swaps", name, "study", partial(_copy, pair, then))


def _label(folder: Path, folders: list[Path]) -> str:
    """Of what it is, and a number in place of its key."""
    beside = [f for f in folders if f.parent == folder.parent]
    name = f" {beside.index(folder) + 1}" if len(folder.name) > 12 else f"/{folder.name}"
    return "/".join(folder.parts[2:-1]) + name


def _finished(below: Path, part: str) -> Iterator[Path]:
    if part == "features":
        yield from (p for p in below.glob("*/*/*") if p.is_dir())
    else:
        yield from (p.parent for p in below.rglob(DONE))


def _swap(pair: tuple[Path, Path], then: str, place: Place) -> None:
    one, two = (place.folder / path for path in pair)
    aside = one.with_name("aside")
    one.rename(aside)
    two.rename(one)
    aside.rename(two)
    place.harmed += [one, two]
    follow(then, place)


def _copy(pair: tuple[Path, Path], then: str, place: Place) -> None:
    source, target = (place.folder / path for path in pair)
    shutil.rmtree(target)
    shutil.copytree(source, target)
    place.harmed.append(target)
    follow(then, place)
