"""The recordings of an import: each is read once, into the prepared copy, from which all that an
import must know of them comes. An unusable one does not stop the others. The same signal under two
names is of one patient, and refused where labels or splits differ.
"""

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.core.text import counted
from ecgbench.data.copy import Copy, Progress
from ecgbench.data.duplicates import copies_among
from ecgbench.data.imported.corrections import some
from ecgbench.data.prepare import read_all
from ecgbench.data.source import Source, fingerprint
from ecgbench.datasets import demo, own
from ecgbench.datasets.indexing.tables import person
from ecgbench.ecg.fingerprint import NOTHING
from ecgbench.ecg.fingerprint import fingerprint as print_of
from ecgbench.ecg.leads import LeadSubset
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN

Notes = dict[str, list[tuple[str, str]]]
"""Of a recording: (kind, what), with its "leads" and its largest "swing"; of a file that asks for a
setting, "asked".
"""
COMPARED = 60
"""Seconds of a recording, from its start, that are compared with other recordings."""


class _Pending(own.Recordings):
    """Recordings of which nothing is known yet: any number may be lost."""

    CARD = replace(demo.CARD, any_leads=True, losses=1.0)


def source(folder: Path, said: own.Card, to: Path, table: pd.DataFrame) -> Source:
    """The recordings of a table with record and file, before they are read."""
    module = _Pending(to / own.CARD, said, table)
    index = pd.DataFrame({"record": table["record"], "patient": table["record"], "split": "train"})
    index["path"] = [own.named(file) for file in table["file"]]
    index = index.sort_values("record", ignore_index=True)
    known = fingerprint(said.name, module, folder)
    return Source(said.name, module, folder, known, False, index)


def read(
    folder: Path, said: own.Card, to: Path, table: pd.DataFrame, progress: Progress | None
) -> tuple[Copy, pd.DataFrame, Notes]:
    """The prepared copy of the recordings of a table with record and file; the table with what was
    found in the files (`own.FOUND`) and `left_out`, why one cannot be used; and notes by record.
    Only new and changed files are read. BadSetting for a question about half of the files or more,
    and where no recording can be used.
    """
    copy = read_all(source(folder, said, to, table), to / own.COPIES, progress)
    known = copy.known.loc[table["record"]]
    notes = {record: json.loads(text) for record, text in zip(table["record"], known["notes"])}
    asked = [what for each in notes.values() for kind, what in each if kind == "asked"]
    if 2 * len(asked) >= max(1, len(notes)):
        raise BadSetting(asked[0])
    table = table.assign(
        leads=[dict(each).get("leads", "") for each in notes.values()],
        fs=[f"{fs:.10g}" if fs else "" for fs in known["fs"]],
        seconds=[f"{n / fs:.10g}" if fs else "" for n, fs in zip(known["samples"], known["fs"])],
        sha256=[*map(held, known["state"])],
        left_out=[*known["reason"]],
    )
    if table["left_out"].all():
        raise BadSetting(
            f"none of the {counted(len(table), 'recording')} can be used: {some(left_out(table))}"
        )
    return copy, table, notes


def held(state: str) -> str:
    """A hash of what the files of a record hold, by their state: of one file its own."""
    found = re.findall(r"\b[0-9a-f]{64}\b", state)
    return found[0] if len(found) == 1 else hashlib.sha256(" ".join(found).encode()).hexdigest()


def left_out(table: pd.DataFrame) -> list[str]:
    """Unusable records with their reasons."""
    lost = table[table["left_out"] != ""]
    return [f"{r}: {why}" for r, why in lost[["record", "left_out"]].to_numpy()]


def joined(
    copy: Copy, table: pd.DataFrame, labels: Sequence[str], file: str
) -> tuple[pd.Series, str]:
    """The patient of each record of a table, indexed from 0: one for all of whom a signal is the
    same in the prepared copy; and the recordings that are one, in a line. BadSetting where one
    signal has two values of a label in the table `file`, or two splits.
    """
    names, leads = [*table["record"]], [*table["leads"]]

    @lru_cache(8)
    def signal(row: int) -> tuple[np.ndarray, float]:
        """(12, time) samples of the leads of the file in the first minute, and their rate, Hz."""
        recording = copy.recording(names[row])
        rows = recording.rows[:, : math.ceil(COMPARED * recording.fs)]
        rows[~LeadSubset.parse(leads[row]).mask] = np.nan
        return rows, recording.fs

    prints = [NOTHING if why else print_of(*signal(i)) for i, why in enumerate(table["left_out"])]
    found = [*copies_among(prints, signal)]
    every = _groups([(one, two) for one, two, _ in found], len(table))
    whole = _groups([(one, two) for one, two, is_whole in found if is_whole], len(table))
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
    pairs = some([f"{names[one]} = {names[two]}" for one, two, _ in found])
    people, whose = np.unique(table["patient"].map(person), return_inverse=True)
    home = _groups([(whose[one], whose[two]) for one, two, _ in found], len(people))[whose]
    return table["patient"].groupby(home).transform("first"), pairs


def _groups(pairs: Sequence[tuple[int, int]], count: int) -> np.ndarray:
    """(count,) number of the group of each; what a pair joins is one."""
    from scipy.sparse import coo_array  # slow to import; names are checked without it
    from scipy.sparse.csgraph import connected_components

    one, two = np.reshape(pairs, (-1, 2)).astype(int).T
    graph = coo_array((np.ones(len(one)), (one, two)), shape=(count, count))
    groups: np.ndarray = connected_components(graph, directed=False)[1]
    return groups
