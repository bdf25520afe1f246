"""The recordings below a folder, and which of them a name in a table means."""

import difflib
import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath

from ecgbench.core.text import enumerated
from ecgbench.ecg.readers.own import READERS
from ecgbench.errors import BadSetting

SHOWN = 3
"""Names that a message lists."""


def walk(folder: Path, without: Collection[Path]) -> Iterator[Path]:
    """All files below a folder, without hidden ones, and those that are, or lie in, one of
    `without`; folders that are links are followed.
    """
    real = os.path.realpath  # Path.resolve raises where a link leads to itself
    left_out = {real(path) for path in without}
    for place, folders, names in os.walk(folder, followlinks=True):
        here = Path(place)
        # a link to a folder above would never end
        shut = left_out | {real(above) for above in (here, *here.parents)}
        folders[:] = [n for n in folders if not n.startswith(".") and real(here / n) not in shut]
        files = (here / name for name in names if not name.startswith("."))
        yield from (file for file in files if real(file) not in left_out)


def files(folder: Path, without: Collection[Path]) -> list[str]:
    """Paths from `folder` of all files with the suffix of a format that is read, sorted."""
    every = (f for f in walk(folder, without) if f.suffix.lower() in READERS)
    return sorted(f.relative_to(folder).as_posix() for f in every)


def matched(
    names: Sequence[str],
    places: Sequence[str],
    files: Sequence[str],
    partial: bool,
    match_zeros: bool = False,
) -> list[str]:
    """The file that each name means: its path from the folder, or its own name, with or without the
    suffix, else in other capitals; "" where there is none and the table may be larger (`partial`).

    places: of the names in the table, for messages. match_zeros: whether 1 may mean 00001.csv.
    BadSetting in one line for names without a file, for one that may be several files, and for two
    of one file.
    """
    meant: dict[str, list[str]] = defaultdict(list)
    folded: dict[str, set[str]] = defaultdict(set)
    unzeroed: dict[str, set[str]] = defaultdict(set)
    for file in files:
        path = PurePosixPath(file)
        for spelling in {file, str(path.with_suffix("")), path.name, path.stem}:
            meant[spelling].append(file)
            folded[_folded(spelling)].add(file)
            unzeroed[_unzeroed(spelling)].add(file)
    whole = {file: [file] for file in files}
    chosen, lost = [], list[tuple[str, str, str]]()
    for name, place in zip(names, places):
        plain = name.replace("\\", "/").removeprefix("./")
        near = folded.get(_folded(plain), ())
        zeros = sorted(unzeroed.get(_unzeroed(plain), ()))
        of = whole.get(plain) or meant.get(plain) or sorted(near)
        if not of and len(zeros) == 1 and not match_zeros:
            lost.append((name, place, zeros[0]))
            zeros = []
        of = of or zeros
        if len(of) > 1:
            raise BadSetting(
                f"{place}: the record {name!r} may be {enumerated(of[:SHOWN])}; write its path "
                f"with the suffix"
            )
        chosen.append(of[0] if of else "")
    if lost:
        name, place, file = lost[0]
        raise BadSetting(
            f"{place}: the record {name!r} may be {file!r}: zeros were lost or added, as in a "
            f"spreadsheet ({len(lost):,} of {len(names):,} records); correct the table, or match "
            f"them where one name means one file: --match-zeros"
        )
    _demand_files(names, places, chosen, [*meant], partial)
    first: dict[str, str] = {}
    for file, place in zip(chosen, places):
        if file and file in first:
            raise BadSetting(f"{place}: {file} is there already ({first[file]}); leave one out")
        first[file] = place
    return chosen


def _folded(name: str) -> str:
    """A name as file systems spell it that know neither capitals nor how letters are composed."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _unzeroed(name: str) -> str:
    """A name without the zeros before its numbers, which spreadsheets drop, and the .0 they add.

    >>> _unzeroed("00012.csv"), _unzeroed("a/rec_007"), _unzeroed("12.0"), _unzeroed("1.05")
    ('12.csv', 'a/rec_7', '12', '1.05')
    """
    return re.sub(r"(?<![\d.])0+(?=\d)", "", re.sub(r"(?<=\d)\.0+$", "", _folded(name)))


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
    more = f" and {len(lost) - SHOWN:,} more" if len(lost) > SHOWN else ""
    write = repr if near and (lost[0][0] + near[0]).isascii() else ascii
    guess = f" (there is {write(near[0])})" if near else ""
    listed = ", ".join(f"{write(name)} ({place})" for name, place in lost[:SHOWN])
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
