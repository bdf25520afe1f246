"""Labels permuted among patients: what every score must be without, whatever a model reads."""

import numpy as np
import pandas as pd

from ecgbench.core.seeds import rng

LEAST = 10
"""Patients that permute among themselves, at least, where there are as many."""


def permuted(index: pd.DataFrame, *words: str | int) -> pd.DataFrame:
    """The index with the label columns (`task:label`) dealt anew among the patients of each split.

    Patients with equally many records exchange the labels of all of them together. Where fewer than
    LEAST have a number of records, they exchange with those who have fewer records: their rows of
    labels are laid end to end, so that some patient's rows fall to two others. Every split keeps
    its rows of labels, and so the number of positives of each label.
    """
    columns = [c for c in index.columns if ":" in c]
    labels = index[columns].to_numpy()
    dealt = labels.copy()
    for split in dict.fromkeys(index["split"]):
        there = np.flatnonzero((index["split"] == split).to_numpy())
        patients = pd.Series(index["patient"].astype(str).to_numpy()[there])
        rows = {str(p): there[at] for p, at in patients.groupby(patients).indices.items()}
        for group in _groups({p: len(own) for p, own in rows.items()}):
            order = rng("permuted labels", *words, split, len(rows[group[0]])).permutation(group)
            takes = np.concatenate([rows[p] for p in group])
            gives = np.concatenate([rows[p] for p in order])
            dealt[takes] = labels[gives]
    return index.assign(**{c: dealt[:, i] for i, c in enumerate(columns)})


def _groups(counts: dict[str, int]) -> list[list[str]]:
    """Patients in groups, those with most records first; each group of one number of records, or
    of several where one has too few patients.

    >>> _groups({"a": 1, "b": 1, "c": 2})
    [['c', 'a', 'b']]
    """
    groups: list[list[str]] = []
    open_: list[str] = []
    for number in sorted(set(counts.values()), reverse=True):
        open_ += sorted(p for p, n in counts.items() if n == number)
        if len(open_) >= LEAST:
            groups.append(open_)
            open_ = []
    if open_ and groups:
        groups[-1] += open_
    elif open_:
        groups.append(open_)
    return groups
