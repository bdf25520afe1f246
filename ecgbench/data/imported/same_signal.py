"""The same signal under two names: one patient; refused where labels or splits differ."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from ecgbench.data.copy import Copy
from ecgbench.data.duplicates import copies_among
from ecgbench.data.imported.corrections import some
from ecgbench.datasets.indexing.tables import person
from ecgbench.ecg.fingerprint import NOTHING, fingerprint
from ecgbench.ecg.leads import LeadSubset
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN

COMPARED = 60
"""Seconds of a recording, from its start, that are compared with other recordings."""
KEPT = 8
"""Recordings that stay in memory while they are compared."""
Pair = tuple[int, int, bool]
"""Rows of two recordings that are one, and whether they are so as a whole (`copies_among`)."""


def pairs(copy: Copy, table: pd.DataFrame) -> list[Pair]:
    """Recordings of a table, indexed from 0, that are one, by their prepared copies."""
    names, leads = [*table["record"]], [*table["leads"]]

    @lru_cache(KEPT)
    def signal(row: int) -> tuple[np.ndarray, float]:
        """(12, time) samples of the leads of the file in the first minute, and their rate, Hz."""
        recording = copy.recording(names[row])
        rows = recording.rows[:, : math.ceil(COMPARED * recording.fs)]
        rows[~LeadSubset.parse(leads[row]).mask] = np.nan
        return rows, recording.fs

    lost = enumerate(table["left_out"])
    prints = [NOTHING if why else fingerprint(*signal(row)) for row, why in lost]
    return [*copies_among(prints, signal)]


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
