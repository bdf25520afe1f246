"""The recordings below a folder, and the file of each name in a table."""

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
        by_stem[_bare(file)].append(file)
    return [_one(own, readable, "") for own in by_stem.values()]


def _bare(file: str) -> str:
    return str(PurePosixPath(file).with_suffix(""))


def _one(files: Sequence[str], readable: Callable[[str], bool], line: str) -> str:
    """The recording among files of one name. A text beside a file of a hospital never stands for
    it: another person's table of values may lie there.
    """
    firm = [f for f in files if PurePosixPath(f).suffix.lower() in FIRM]
    sound = [f for f in files if len(files) == 1 or readable(f)]
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
    ways: list[Callable[[str], str]] = [str, _folded, _unzeroed]
    spelled: list[dict[str, set[str]]] = [defaultdict(set) for _ in ways]
    for file in files:
        path = PurePosixPath(file)
        for spelling in (file, _bare(file), path.name, path.stem):
            for way, known in zip(ways, spelled):
                known[way(spelling)].add(file)
    chosen, first, lost, whole = list[str](), dict[str, str](), list[str](), {*files}
    for name, line in zip(names, lines):
        plain = name.replace("\\", "/").removeprefix("./")
        meant = [known.get(way(plain), set()) for way, known in zip(ways, spelled)]
        met = [{plain} & whole, *meant]
        found = sorted(next(filter(None, met if match_zeros else met[:-1]), ()))
        if len({*map(_bare, found)}) == 1:
            found = [_one(found, readable, f"{line}: ")]
        if len(found) > 1:
            raise BadSetting(
                f"{line}: the record {name!r} may be {enumerated(found[:LISTED])}; write its path "
                f"with the suffix"
            )
        if found and found[0] in first:
            raise BadSetting(
                f"{line}: {found[0]} is named already ({first[found[0]]}); remove one of them"
            )
        if not found and met[-1]:
            raise BadSetting(
                f"{line}: the record {name!r} has no file; there is {min(met[-1])!r}: correct the "
                f"table, or match numbers without the zeros before them: --match-zeros"
            )
        if found:
            first[found[0]] = line
        else:
            lost.append(f"{name!r} ({line})")
        chosen.append(found[0] if found else "")
    if lost and not (partial and first):
        raise BadSetting(
            f"{len(lost):,} of {len(names):,} records of the table have no file in the folder: "
            f"{', '.join(lost[:LISTED])}; correct the table, or leave them out: --partial"
        )
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


def identities(files: Collection[str]) -> list[str]:
    """A name for the record of each file, which no other has: its own without the suffix, else its
    path, else its path with the suffix.
    """
    ways: list[Callable[[str], str]] = [lambda file: PurePosixPath(file).stem, _bare, str]
    counts, every = [Counter(map(way, files)) for way in ways], {*files}

    def free(name: str, count: Counter[str], file: str) -> bool:
        return count[name] == 1 and (name == file or name not in every)

    return [next(n for w, c in zip(ways, counts) if free(n := w(file), c, file)) for file in files]
