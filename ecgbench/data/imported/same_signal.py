"""The same signal under two names: one patient; refused where labels or splits differ."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.data.duplicates import copies_among
from ecgbench.data.imported.corrections import some
from ecgbench.data.imported.people import person
from ecgbench.data.imported.reading import Seen, start
from ecgbench.ecg.readers import by_suffix
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN

KEPT = 8
"""Recordings that stay in memory while they are compared."""
Pair = tuple[int, int, bool]
"""Rows of two recordings that are one, and whether they are so as a whole (`copies_among`)."""


def pairs(
    folder: Path, table: pd.DataFrame, seen: dict[str, Seen], options: ReadOptions
) -> list[Pair]:
    """Recordings of a table, indexed from 0, that are one. Only those that may be so are read
    again.
    """
    paths = [*table["path"]]

    @lru_cache(KEPT)
    def signal(row: int) -> tuple[np.ndarray, float]:
        path, record = paths[row], table["record"][row]
        return start(by_suffix.read(folder / path, record, "", options))

    return [*copies_among([seen[path].prints for path in paths], signal)]


def demand_agreement(
    table: pd.DataFrame, found: Sequence[Pair], labels: Sequence[str], file: str
) -> None:
    """BadSetting where a signal has two values of a label in the table `file`, or two splits."""
    every = _groups([(one, two) for one, two, _ in found], len(table))
    whole = _groups([(one, two) for one, two, whole in found if whole], len(table))
    for column in [c for c in ("split", "fold", *labels) if c in table]:
        values = table.loc[table[column] != UNKNOWN, column]
        groups = values.groupby((whole if column in labels else every)[values.index])
        odd = values[groups.transform("nunique") > 1]
        if len(odd):
            said_of = table["record"] + " (" + odd.astype(str) + ")"
            each = (own.drop_duplicates().index[:2] for _, own in odd.groupby(every[odd.index]))
            named = [" and ".join(said_of[rows]) for rows in each]
            raise BadSetting(
                f"the same signal with two values of {column}: {some(named)}; correct {file}, or "
                f"remove the row of one of the two"
            )


def patients(table: pd.DataFrame, found: Sequence[Pair]) -> pd.Series:
    """The patient of each record: one for all of whom a signal is the same."""
    names, whose = np.unique(table["patient"].map(person), return_inverse=True)
    home = _groups([(whose[one], whose[two]) for one, two, _ in found], len(names))[whose]
    return table["patient"].groupby(home).transform("first")


def said(table: pd.DataFrame, found: Sequence[Pair]) -> str:
    """The pairs in a line, with the patients that the table gave."""
    named = table["record"].where(
        table["record"] == table["patient"], table["record"] + " of " + table["patient"]
    )
    each = [f"{named[one]} = {named[two]}" for one, two, _ in found]
    return f"the same signal, so one patient: {some(each)}"


def _groups(joined: Sequence[tuple[int, int]], count: int) -> np.ndarray:
    """(count,) number of the group of each; what a pair joins is one."""
    from scipy.sparse import coo_array  # slow to import; names are checked without it
    from scipy.sparse.csgraph import connected_components

    one, two = np.reshape(joined, (-1, 2)).astype(int).T
    graph = coo_array((np.ones(len(one)), (one, two)), shape=(count, count))
    groups: np.ndarray = connected_components(graph, directed=False)[1]
    return groups
