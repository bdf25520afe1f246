"""Every kind of file of a finished run, damaged in every way; then a report, or the same run again
and its report.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from ecgbench.core.seeds import rng
from tests.soak.damage import ALONE, EMPTY, PAIRED, harm
from tests.soak.place import Place
from tests.soak.row import Row

AFTER = ("report", "run")
TELLS = {"invocations": "none is noted"}
"""What tells of itself in the part of the page that is not compared -> a word of what it says."""


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """Of a finished run by linear probing."""
    yield from damaged("results", "study", bases["study"], bases["study"].out)


def damaged(
    family: str,
    base: str,
    place: Place,
    below: Path,
    after: tuple[str, ...] = AFTER,
    within: str = "",
) -> Iterator[Row]:
    """Rows of every kind of file below a folder of a base and every damage. Which file of a kind is
    damaged is drawn, so that each has its turn.
    """
    for kind, files in kinds(below).items():
        if not re.search(within, kind):
            continue
        empty = not all(file.stat().st_size for file in files)
        for how in (*ALONE, *PAIRED):
            if (empty and how not in EMPTY) or (how in PAIRED and len(files) < 2):
                continue
            for then in after:
                name = f"{base}: {kind}: {how}, then {then}"
                drawn = rng("soak", name).permutation(len(files))
                chosen = [files[i].relative_to(place.folder) for i in drawn[:2]]
                of = next((word for part, word in TELLS.items() if part in chosen[0].parts), "")
                yield Row(family, name, base, partial(_harmed, how, chosen, then), of=of)


def _harmed(how: str, chosen: list[Path], then: str, place: Place) -> None:
    harm(how, place, *(place.folder / path for path in chosen))
    follow(then, place)


def follow(then: str, place: Place) -> None:
    """What a person does next: a report, or the same run again and, where that is done, a
    report.
    """
    place.mark()
    if then == "run" and place.run().code in (2, 130):
        return
    place.report()


def kinds(below: Path) -> dict[str, list[Path]]:
    """Kind -> its files, in order of their names. A kind is a path whose variable parts are
    stars.
    """
    found: dict[str, list[Path]] = {}
    for path in sorted(p for p in below.rglob("*") if p.is_file() and not p.is_symlink()):
        parts = path.relative_to(below).as_posix()
        if parts.startswith(("report/", "locks/")):
            continue
        found.setdefault(kind_of(parts), []).append(path)
    return found


def kind_of(path: str) -> str:
    """
    >>> kind_of("cells/demo/tiny/12/1446c162c879779c/cell.json")
    'cells/*/*/*/*/cell.json'
    """
    *folders, name = path.split("/")
    first = "*" if folders and len(folders[0]) > 12 else "".join(folders[:1])
    plain = re.sub(r"\d{8}T\d{6}Z-[0-9a-f]+|[0-9a-f]{12,}(-\d+)?|\d\d+", "*", name)
    return "/".join([*([first] if folders else []), *["*"] * (len(folders) - 1), plain])
