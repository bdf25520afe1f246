"""The recordings below a folder, and the file of each name in a table."""

import difflib
import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath

from ecgbench.core.text import enumerated
from ecgbench.datasets.own import CARD, COPIES, TABLE
from ecgbench.ecg.readers.by_suffix import READERS
from ecgbench.errors import BadSetting

LISTED = 3
"""Names that a message lists."""
RUN = "plan.toml"
"""File of a folder of a run, whose tables are no recordings."""
FIRM, TEXTS = (".xml", ".dcm", ".dicom"), (".csv", ".tsv", ".txt")
"""Suffixes of files of hospitals, and of texts, which may be a report of such a file."""


def walk(folder: Path, without: Collection[Path]) -> Iterator[Path]:
    """All files below a folder but hidden ones, those of runs, tables of an import, and those at or
    below one of `without`; linked folders are followed, each once.
    """
    apart = {os.path.realpath(path) for path in without}
    met = {os.path.realpath(folder), *apart}
    for line, folders, names in os.walk(folder, followlinks=True):
        here = Path(line)
        if RUN in names and here != folder:
            folders.clear()
            continue
        # an import may lie in the folder of its recordings
        began = os.path.realpath(line) in apart
        ours = (CARD, TABLE, COPIES) if began or {CARD, TABLE} <= {*names} else ()
        real = {n: os.path.realpath(here / n) for n in sorted(folders) if n not in ours}
        folders[:] = [n for n in real if not n.startswith(".") and real[n] not in met]
        met |= {real[name] for name in folders}
        files = (here / name for name in names if not name.startswith(".") and name not in ours)
        yield from (file for file in files if os.path.realpath(file) not in met)


def files(folder: Path, without: Collection[Path]) -> list[str]:
    """Paths from `folder` of all files with the suffix of a known format, sorted."""
    every = (f for f in walk(folder, without) if f.suffix.lower() in READERS)
    return sorted(f.relative_to(folder).as_posix() for f in every)


def recordings(files: Sequence[str], readable: Callable[[str], bool]) -> list[str]:
    """The files that are recordings: where several have one name but for their suffix, that which
    is `readable`. BadSetting where two are.
    """
    by_stem: dict[str, list[str]] = defaultdict(list)
    for file in files:
        by_stem[str(PurePosixPath(file).with_suffix(""))].append(file)
    return [_one(own, readable, "") for own in by_stem.values()]


def _one(files: Sequence[str], readable: Callable[[str], bool], line: str) -> str:
    """The recording among files of one name. A text beside a file of a hospital never stands for
    it: another person's table of values may lie there.
    """
    firm = [f for f in files if PurePosixPath(f).suffix.lower() in FIRM]
    if len(files) == 1:
        return files[0]
    sound = [f for f in files if readable(f)]
    if len(sound) > 1:
        raise BadSetting(
            f"{line}{enumerated(sound[:LISTED])} can both be read; take one of them out of the "
            f"folder" + (", or write the name with the suffix in the table" if line else "")
        )
    if sound and not (firm and PurePosixPath(sound[0]).suffix.lower() in TEXTS):
        return sound[0]
    return (firm or sound or [*files])[0]


def matched(
    names: Sequence[str],
    lines: Sequence[str],
    files: Sequence[str],
    partial: bool,
    match_zeros: bool = False,
    readable: Callable[[str], bool] = lambda file: True,
) -> list[str]:
    """The file of each name: its path from the folder, or its own name, with or without the suffix,
    else with other capitals; "" where there is none and the table may be larger (`partial`).

    lines: of the names in the table, for messages. match_zeros: whether 1 may match 00001.csv.
    readable: whether a file is a recording, asked of files that differ in their suffix alone.
    BadSetting in one line for names without a file, with several files, and for two names of one
    file.
    """
    spelled: dict[str, set[str]] = defaultdict(set)
    unzeroed: dict[str, set[str]] = defaultdict(set)
    for file in files:
        path = PurePosixPath(file)
        for spelling in (file, str(path.with_suffix("")), path.name, path.stem):
            spelled[spelling].add(file)
            spelled[_folded(spelling)].add(file)
            unzeroed[_unzeroed(spelling)].add(file)
    whole = {*files}
    chosen: list[str] = []
    first: dict[str, str] = {}
    lost: dict[int, list[str]] = {}
    for number, (name, line) in enumerate(zip(names, lines)):
        plain = name.replace("\\", "/").removeprefix("./")
        named = {plain} & whole or spelled.get(plain) or spelled.get(_folded(plain))
        zeros = unzeroed.get(_unzeroed(plain), set())
        found = sorted(named or (zeros if match_zeros else ()))
        if len({str(PurePosixPath(file).with_suffix("")) for file in found}) == 1:
            found = [_one(found, readable, f"{line}: ")]
        if len(found) > 1:
            raise BadSetting(
                f"{line}: the record {name!r} may be {enumerated(found[:LISTED])}; write its path "
                f"with the suffix"
            )
        if not found:
            lost[number] = sorted(zeros)
        elif found[0] in first:
            raise BadSetting(
                f"{line}: {found[0]} is named already ({first[found[0]]}); remove one of them"
            )
        else:
            first[found[0]] = line
        chosen.append(found[0] if found else "")
    zeros_lost = {number: zeros for number, zeros in lost.items() if zeros}
    if zeros_lost or (lost and not (partial and first)):
        _refuse(names, lines, zeros_lost or lost, list(spelled))
    return chosen


def _refuse(
    names: Sequence[str], lines: Sequence[str], lost: dict[int, list[str]], known: list[str]
) -> None:
    """BadSetting for names that mean no file. lost: number of a name -> files that it may mean."""
    listed = ", ".join(f"{names[i]!r} ({lines[i]})" for i in [*lost][:LISTED])
    more = f" and {len(lost) - LISTED:,} more" if len(lost) > LISTED else ""
    number, zeros = next(iter(lost.items()))
    near = zeros or difflib.get_close_matches(names[number], known, n=1, cutoff=0.6)
    there = f" (there is {near[0]!r})" if near else ""
    way = "match them without the zeros before a number: --match-zeros"
    raise BadSetting(
        f"{len(lost):,} of {len(names):,} records of the table have no file in the folder: "
        f"{listed}{more}{there}; correct the table, or "
        f"{way if zeros else 'leave them out: --partial'}"
    )


def _folded(name: str) -> str:
    """A name as file systems spell it that know neither capitals nor how letters are composed."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _unzeroed(name: str) -> str:
    """A name without the zeros before its numbers, which spreadsheets drop, and the .0 they add.

    >>> _unzeroed("00012.csv"), _unzeroed("a/rec_007"), _unzeroed("12.0"), _unzeroed("1.05")
    ('12.csv', 'a/rec_7', '12', '1.05')
    """
    return re.sub(r"(?<![\d.])0+(?=\d)", "", re.sub(r"(?<=\d)\.0+$", "", _folded(name)))


def identities(files: Sequence[str], used: Collection[str]) -> list[str]:
    """A name for the record of each file, which no other has and which is not `used`: its own
    without the suffix, else its path, else its path with the suffix.
    """
    stems = Counter(PurePosixPath(file).stem for file in files)
    paths = Counter(str(PurePosixPath(file).with_suffix("")) for file in files)
    used = {*used}
    names: list[str] = []
    for file in files:
        path = PurePosixPath(file)
        ways = (path.stem, stems), (str(path.with_suffix("")), paths)
        names.append(next((n for n, all_ in ways if all_[n] == 1 and n not in used), file))
        used.add(names[-1])
    return names
