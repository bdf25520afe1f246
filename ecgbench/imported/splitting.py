"""Splits of imported records: those that the table gives, or folds by patient, stratified on the
labels.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ecgbench.errors import BadSetting
from ecgbench.indexing.folds import splits, stratified
from ecgbench.indexing.tables import alike
from ecgbench.prepared.subset import SPLITS

MANY, FEW = 10, 5
"""Folds, and folds where patients are few."""
TESTED = 5
"""Patients with and without a label in one fold, from which there are MANY folds."""


def count(table: pd.DataFrame, labels: Sequence[str]) -> int:
    """How many folds the patients of a table are enough for; BadSetting, with the number that would
    do, where they are too few.
    """
    least = {label: min(_patients(table, label)) for label in labels}
    most = max(least.values())
    if most >= MANY * TESTED:
        return MANY
    if most >= FEW:
        return FEW
    label = max(least, key=lambda name: least[name])
    having, lacking = _patients(table, label)
    raise BadSetting(
        f"too few patients for training, validation and test: {label!r} has {having} patients with "
        f"it and {lacking} without; {FEW} of each would do for at least one label (or give the "
        f"splits: a column split with {', '.join(SPLITS)})"
    )


def _patients(table: pd.DataFrame, label: str) -> tuple[int, int]:
    """Patients who have a record with a label, and one without."""
    return tuple(table.loc[table[label] == value, "patient"].nunique() for value in (1, 0))  # type: ignore[return-value]


def dealt(
    name: str, table: pd.DataFrame, labels: Sequence[str], folds: int, known: Mapping[str, int]
) -> np.ndarray:
    """(record,) fold of each record; patients in `known` stay where they are."""
    present = [[label for label in labels if row[label] == 1] for row in table.to_dict("records")]
    return stratified(name, [alike(p) for p in table["patient"]], present, folds, known)


def split_of(table: pd.DataFrame) -> np.ndarray:
    """(record,) the split of each record, from its fold where there are folds."""
    if "fold" in table:
        return splits(table["fold"].astype(int).to_numpy())
    return table["split"].to_numpy(object)


def demand(table: pd.DataFrame, labels: Sequence[str], source: str) -> None:
    """BadSetting where a patient is in two splits, a split is empty, or no label has both values in
    every split. source: of the splits, in words.
    """
    split = pd.Series(split_of(table), index=table.index)
    spread = split.groupby(table["patient"].map(alike)).nunique()
    if (spread > 1).any():
        raise BadSetting(
            f"{source}: patient {spread.index[spread > 1][0]!r} is in more than one split; a "
            f"model would be tested on patients whom it was trained on"
        )
    if empty := [name for name in SPLITS if not (split == name).any()]:
        raise BadSetting(f"{source}: no record is in the split {empty[0]}; it must have some")
    both = [label for label in labels if _everywhere(table[label], split)]
    if not both:
        raise BadSetting(
            f"{source}: no label has records with it and without it in each of "
            f"{', '.join(SPLITS)}, so nothing could be scored; add records, or give other splits"
        )


def _everywhere(values: pd.Series, split: pd.Series) -> bool:
    return all({0, 1} <= {*values[split == name]} for name in SPLITS)
