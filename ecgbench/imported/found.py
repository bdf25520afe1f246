"""The recordings below a folder, and which of them a name in a table means."""

import difflib
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

from ecgbench.ecg.readers.own import READERS
from ecgbench.errors import BadSetting
from ecgbench.text import enumerated

SHOWN = 3
"""Names that a message lists."""


def files(folder: Path, without: Collection[Path]) -> list[str]:
    """Paths from `folder` of all files with the suffix of a format that is read, sorted; without
    hidden ones, and those that are, or lie in, one of `without`.
    """
    real = os.path.realpath  # Path.resolve raises where a link leads to itself
    left_out = {real(path) for path in without}
    found = []
    for place, folders, names in os.walk(folder, followlinks=True):
        here = Path(place)
        # a link to a folder above would never end
        shut = left_out | {real(above) for above in (here, *here.parents)}
        folders[:] = [n for n in folders if not n.startswith(".") and real(here / n) not in shut]
        found += [
            (here / name).relative_to(folder).as_posix()
            for name in names
            if not name.startswith(".")
            and Path(name).suffix.lower() in READERS
            and real(here / name) not in left_out
        ]
    return sorted(found)


def matched(
    names: Sequence[str],
    places: Sequence[str],
    files: Sequence[str],
    partial: bool,
    match_zeros: bool = False,
) -> list[str]:
    """The file that each name means: its path from the folder, or its own name, with or without the
    suffix; "" where there is none and the table may be larger (`partial`).

    places: of the names in the table, for messages. BadSetting in one line for names without a
    file, for one that may be several files, and for two of one file.
    """
    meant: dict[str, list[str]] = defaultdict(list)
    for file in files:
        path = PurePosixPath(file)
        for spelling in {file, str(path.with_suffix("")), path.name, path.stem}:
            meant[spelling].append(file)
    whole = {file: [file] for file in files}
    chosen = []
    for name, place in zip(names, places):
        plain = name.replace("\\", "/").removeprefix("./")
        of = whole.get(plain) or meant.get(plain, [])
        if len(of) > 1:
            raise BadSetting(
                f"{place}: the record {name!r} may be {enumerated(of[:SHOWN])}; write its path "
                f"with the suffix"
            )
        chosen.append(of[0] if of else "")
    _demand_files(names, places, chosen, [*meant], partial)
    first: dict[str, str] = {}
    for file, place in zip(chosen, places):
        if file and file in first:
            raise BadSetting(f"{place}: {file} is there already ({first[file]}); leave one out")
        first[file] = place
    return chosen


def _demand_files(
    names: Sequence[str],
    places: Sequence[str],
    chosen: Sequence[str],
    known: list[str],
    partial: bool,
) -> None:
    lost = [(name, place) for name, place, file in zip(names, places, chosen) if not file]
    if not lost or (partial and len(lost) < len(names)):
        return
    near = difflib.get_close_matches(lost[0][0], known, n=1, cutoff=0.6)
    listed = ", ".join(f"{name!r} ({place})" for name, place in lost[:SHOWN])
    more = f" and {len(lost) - SHOWN:,} more" if len(lost) > SHOWN else ""
    guess = f" (there is {near[0]!r})" if near else ""
    raise BadSetting(
        f"{len(lost):,} of {len(names):,} records of the table have no file in the folder: "
        f"{listed}{more}{guess}; correct the table, or leave them out: --partial"
    )


def identities(files: Sequence[str], taken: Collection[str]) -> list[str]:
    """A name for the record of each file, which no other has, nor is `taken`: its own without the
    suffix, else its path, else its path with the suffix.
    """
    stems = Counter(PurePosixPath(file).stem for file in files)
    paths = Counter(str(PurePosixPath(file).with_suffix("")) for file in files)
    given: list[str] = []
    for file in files:
        path = PurePosixPath(file)
        stem, whole = path.stem, str(path.with_suffix(""))
        used = {*taken, *given}
        if stems[stem] == 1 and stem not in used:
            given.append(stem)
        else:
            given.append(whole if paths[whole] == 1 and whole not in used else file)
    return given
