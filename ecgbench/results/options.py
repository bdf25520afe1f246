"""What the reader of a run asks of its reports, beside which of them."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pandas as pd

from ecgbench.core.registry import plain
from ecgbench.errors import BadSetting

T = TypeVar("T", bound=Hashable)
MARGINS = (0.01, 0.02, 0.05)
"""Of macro AUROC. No clinical basis: a margin is the reader's."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Of `ecgbench report`."""

    baseline: str = ""
    """Model that the others are compared with; "": the first trained one of the run."""
    against: tuple[str, ...] = ()
    """Names of published sources whose scores stand beside ours; all where it names none."""
    margins: tuple[float, ...] = MARGINS
    """Of non-inferiority, as fractions, the smallest first."""
    paired: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(dataset, patient) -> a name that all records of one patient share, over datasets."""


def chosen(names: str, known: list[str], option: str) -> tuple[str, ...]:
    """Comma-separated names, as they are known; BadSetting where one is not."""
    found = []
    for name in (n.strip() for n in names.split(",") if n.strip()):
        same = next((k for k in known if plain(k) == plain(name)), None)
        if same is None:
            raise BadSetting(f"{option} {name}: not in this run; it has {', '.join(known)}")
        found.append(same)
    return tuple(found)


def margins(text: str) -> tuple[float, ...]:
    """`0.01,0.02` as fractions; BadSetting where one is none between 0 and 0.5.

    >>> margins("0.05,0.01")
    (0.01, 0.05)
    """
    try:
        values = sorted({float(part) for part in text.split(",")})
    except ValueError:
        values = [0.0]
    if not values or not all(0 < value < 0.5 for value in values):
        raise BadSetting(
            f"--set report.margins={text}: fractions of an AUROC between 0 and 0.5; for example: "
            f"--set report.margins={','.join(map(str, MARGINS))}"
        )
    return tuple(values)


def pairs(file: Path) -> dict[tuple[str, str], str]:
    """Patients that are one, of what `ecgbench data duplicates --csv FILE` wrote; BadSetting where
    the file is none.
    """
    columns = ["dataset", "patient", "other dataset", "other patient"]
    again = "write it with: ecgbench data duplicates DATASET DATASET --csv FILE"
    try:
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise BadSetting(f"--set report.duplicates={file}: {error}; {again}") from None
    if absent := [name for name in columns if name not in table]:
        raise BadSetting(f"--set report.duplicates={file}: no column {absent[0]!r}; {again}")
    rows = table[columns].itertuples(index=False)
    same = [((dataset, patient), (other, also)) for dataset, patient, other, also in rows]
    everyone = sorted({patient for both in same for patient in both})
    groups = linked(everyone, same)
    return {patient: "\x1f".join(group[0]) for group in groups for patient in group}


def linked(names: Sequence[T], links: Iterable[tuple[T, T]]) -> list[tuple[T, ...]]:
    """Names in groups, the two of a link in one, all in their order.

    >>> linked("abcde", [("a", "c"), ("d", "c")])
    [('a', 'c', 'd'), ('b',), ('e',)]
    """
    group = {name: {name} for name in names}
    for a, b in links:
        if group[a] is not group[b]:
            group[a] |= group[b]
            group |= dict.fromkeys(group[b], group[a])
    place = {name: n for n, name in enumerate(names)}
    found = {id(group[name]): group[name] for name in names}.values()
    return [tuple(sorted(own, key=place.__getitem__)) for own in found]
