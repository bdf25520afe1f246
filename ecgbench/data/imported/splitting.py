"""Splits of imported records: those of the table, or folds by patient, stratified on the labels."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd

from ecgbench.core.text import counted
from ecgbench.data.select import SPLITS
from ecgbench.datasets.indexing.folds import stratified
from ecgbench.datasets.indexing.tables import person
from ecgbench.datasets.own import split_of
from ecgbench.errors import BadSetting

MANY, FEW = 10, 5
"""Folds, and folds where patients are few; PARTS where they are fewer than two a fold."""
CHANCE = "imported"
"""Word that seeds the draw, so that folds do not depend on the name of an import."""
MOST_TRIED = 50
"""Patients of a part that are tried for an exchange."""
LARGE = 50
"""Least number of patients with a label, and without it, for MANY folds."""
PARTS = len(SPLITS)


def count(table: pd.DataFrame, labels: Sequence[str], whose: str = "patient") -> int:
    """Number of folds for the patients of a table; BadSetting, with the missing values by label,
    where no split has a label with both values in training, validation and test. whose: the word
    for what `patient` names.

    A patient who has records with the label and records without it counts for both, so a split
    exists exactly where PARTS patients have the label and PARTS lack it.
    """
    who = table["patient"].map(person)
    patients = {
        label: [who[table[label] == value].nunique() for value in (1, 0)] for label in labels
    }
    most = max(min(both) for both in patients.values())
    if most >= LARGE:
        return MANY
    if most >= PARTS:
        many = most >= FEW and who.nunique() >= 2 * FEW
        return FEW if many else PARTS
    missing = "; ".join(
        f"{label!r} has {counted(having, whose)} with it and {without} without"
        for label, (having, without) in [*patients.items()][:5]
    )
    raise BadSetting(
        f"too few {whose}s for training, validation and test: {missing}; {PARTS} of each are "
        f"needed for at least one label (0 where it is absent; a blank cell is unknown), or a "
        f"column split with {', '.join(SPLITS)}"
    )


def dealt(
    table: pd.DataFrame, labels: Sequence[str], folds: int, known: Mapping[str, int]
) -> np.ndarray:
    """(record,) fold of each record, stratified on the labels; patients in `known` stay in their
    folds. Where a label then lacks one of its values in a part, patients are exchanged until as
    many labels as possible have both everywhere.
    """
    present = [[label for label in labels if row[label] == 1] for row in table.to_dict("records")]
    patients = [person(p) for p in table["patient"]]
    fold = stratified(CHANCE, patients, present, folds, known)
    names, rows = np.unique(patients, return_inverse=True)
    home = np.zeros(len(names), np.int64)
    home[rows] = fold
    values = table[list(labels)].to_numpy(int)
    has = np.zeros((len(names), 2, len(labels)), bool)
    for value in (0, 1):
        np.logical_or.at(has[:, value], rows, values == value)
    free = np.array([name not in known for name in names])
    if folds <= FEW:  # for a cross-validation, in which each fold is tested
        _exchange(home, has, free, folds, folds)
    _exchange(home, has, free, folds, PARTS)
    return home[rows]


def _met(home: np.ndarray, has: np.ndarray, folds: int, parts: int = PARTS) -> np.ndarray:
    """(part, value, label) bool: whether a part has a patient with each value of each label. The
    last parts are a fold each, the first the others.
    """
    part = _part(home, folds, parts)
    return np.stack([has[part == i].any(axis=0) for i in range(parts)])


def _part(home: np.ndarray, folds: int, parts: int) -> np.ndarray:
    return np.clip(home - (folds - parts + 1), 0, parts - 1)


def _exchange(home: np.ndarray, has: np.ndarray, free: np.ndarray, folds: int, parts: int) -> None:
    """Exchange two patients of different parts as long as that gives a label both values in every
    part, or comes nearer to it, and takes no such label away.
    """

    def score() -> tuple[int, int]:
        met = _met(home, has, folds, parts)
        return int(met.all(axis=(0, 1)).sum()), int(met[:, :, possible].sum())

    possible = has.sum(axis=0).min(axis=0) >= parts

    def is_better() -> bool:
        """Whether an exchange was found, and made."""
        before, part = score(), _part(home, folds, parts)
        for where, value, label in np.argwhere(~_met(home, has, folds, parts) & possible):
            givers = np.flatnonzero(free & has[:, value, label] & (part != where))[:MOST_TRIED]
            takers = np.flatnonzero(free & (part == where))[:MOST_TRIED]
            for pair in product(givers, takers):
                home[[*pair]] = home[[*pair[::-1]]]
                if score() > before:
                    return True
                home[[*pair]] = home[[*pair[::-1]]]
        return False

    while score()[1] < 2 * parts * int(possible.sum()) and is_better():
        pass


def demand(table: pd.DataFrame, labels: Sequence[str]) -> None:
    """BadSetting where a patient is in two splits, a split is empty, or no label has both values in
    every split.
    """
    split = pd.Series(split_of(table), index=table.index)
    spread = split.groupby(table["patient"].map(person)).nunique()
    if (table["patient"] != table["record"]).any() and (spread > 1).any():
        raise BadSetting(
            f"patient {spread.index[spread > 1][0]!r} is in more than one split; a model would be "
            f"tested on patients whom it was trained on"
        )
    both = [{0, 1} <= {*table.loc[split == name, label]} for label in labels for name in SPLITS]
    if not np.reshape(both, (-1, len(SPLITS))).all(axis=1).any():
        raise BadSetting(
            f"no label has records with it and without it in each of {', '.join(SPLITS)}, so "
            f"nothing could be scored; add records, or give other splits"
        )
