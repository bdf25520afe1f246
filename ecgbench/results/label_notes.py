"""What must be said of the labels of a task: how many are unknown, which count records twice, and
which have a score in some folds only.
"""

from collections.abc import Iterator, Sequence

import pandas as pd

from ecgbench.core.text import counted
from ecgbench.results.compare import Row
from ecgbench.results.doubled import FEW
from ecgbench.results.score import Scored, firsts, over_folds

NAMED = 3
"""Pairs of labels that a note names."""


def unknown(title: str, table: pd.DataFrame, records: int) -> Iterator[str]:
    """How many labels of the test records are not known."""
    known = dict(zip(table["label"], map(int, table["n"])))
    every = records * len(known)
    if lost := every - sum(known.values()):
        least = min(known, key=known.__getitem__)
        yield (
            f"{title}: of {counted(len(known), 'label')} of {records:,} test records "
            f"{lost / every:.1%} are unknown; a record counts only for the labels known of it. "
            f"{least} is known of {known[least]:,} records, no label of fewer."
        )


def doubled(title: str, cell: Scored) -> Iterator[str]:
    """Labels that count the same records twice in the mean."""
    labels = cell.columns["label"][1:].tolist()
    alike = [f"{same} and {label}" for label, same in zip(labels, cell.same_as) if same]
    if alike:
        yield (
            f"{title}: labels that hold the same test records: {_first(alike)}. The mean counts "
            f"each of them; the column value_distinct counts them once, as "
            f"{counted(cell.n_distinct, 'label')} in all."
        )
    if cell.nested:
        yield (
            f"{title}: labels whose every test record has another label too: "
            f"{_first([f'{inner} in {outer}' for inner, outer in cell.nested])} (of labels with "
            f"at least {FEW} test positives)."
        )


def some_folds(title: str, row: Row) -> Iterator[str]:
    """Folds without a score, and labels that have one in some folds only."""
    folds, table = firsts(row.cells), over_folds(row.cells)
    if empty := [c.cell.fit.fold for c in folds if c.empty]:
        yield (
            f"{title}: no label has both values in fold {', '.join(empty)}, which is left out of "
            f"the mean."
        )
    some = table[(table["valued"] > 0) & (table["valued"] < len(folds))]
    if len(some):
        named = ", ".join(
            f"{n} ({k} of {len(folds)})" for n, k in zip(some["label"], some["valued"])
        )
        yield f"{title}: labels that have both values in some folds only, and count there: {named}."


def _first(pairs: Sequence[str]) -> str:
    more = f" and {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
    return f"{', '.join(pairs[:NAMED])}{more}"
