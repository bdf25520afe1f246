"""Other splits than those of the index, computed from the index: no signal is read, and one
prepared copy serves them all.

`resplit` makes a dataset's own split again with another number of folds; `cross_validation` deals
the used records of a run to the folds of a cross-validation.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ecgbench.cards.dataset import DatasetCard, Task
from ecgbench.core.division import DEVICE, LEAST, Division, fold_number
from ecgbench.data.copy import Copy
from ecgbench.data.people import people
from ecgbench.data.source import cached
from ecgbench.datasets.indexing.folds import (
    STRATA,
    TURN,
    batched,
    dealt_again,
    splits,
    turns_of,
    unlabelled,
)
from ecgbench.datasets.indexing.tables import alike
from ecgbench.datasets.own import IMPORTED
from ecgbench.errors import BadSetting

OURS = "ours"
"""First word of a card's `splits` where we deal the folds."""
AT_RANDOM = ("ptb",)
"""Datasets that the reference benchmark divides without regard to labels: patients without one are
dealt like all others.
"""
DEALING = 1
"""Raised by hand when the same patients and labels get other folds."""
SIZE = 10_000
"""Patients that are dealt at a time to the folds of a cross-validation."""


def split_digest(index: pd.DataFrame) -> str:
    """sha256 over record, patient and split of all records, in the order of their names."""
    ordered = index.sort_values("record")[["record", "patient", "split"]]
    lines = ["\t".join(map(str, row)) for row in ordered.itertuples(index=False)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def ours(card: DatasetCard) -> bool:
    """Whether we deal the folds of a dataset; else they are published."""
    return card.splits.startswith(OURS)


def resplit(copy: Copy, wanted: Division) -> Copy:
    """The copy with the requested split; itself where none is requested for this dataset.

    BadSetting where its index has no column of strata, or a split would be empty.
    """
    count = dict(wanted.own).get(copy.name)
    moving = wanted.reference and ours(copy.card) and copy.name not in AT_RANDOM
    if count is None and not moving:
        return copy
    published, notes = copy.published, []
    if STRATA not in published:
        raise BadSetting(
            f"--folds {wanted}: the index of {copy.name} has no column {STRATA!r}, which says what "
            f"its folds are stratified on; cross-validate (--folds 5), leave it out, or make its "
            f"split with ecgbench.datasets.indexing.folds.dealt"
        )
    fold = _dealt(copy, count or copy.card.folds)
    split = splits(fold)
    if count is not None:
        notes.append(
            f"its split has {count} folds instead of {copy.card.folds} (--folds "
            f"{copy.name}={count}): the last is tested, the one before it validates"
        )
    if moving:
        without = unlabelled(published)
        split[without], fold[without] = "train", 0
        patients = published.loc[without, "patient"].nunique()
        notes.append(
            f"{patients:,} patients without a label are in training, as in the reference benchmark "
            f"(--folds reference)"
        )
    if missing := {"train", "val", "test"} - set(split):
        raise BadSetting(
            f"--folds {wanted}: {copy.name} has {published['patient'].nunique():,} patients, which "
            f"leaves no record for {' and '.join(sorted(missing))}; give fewer folds"
        )
    published = published.assign(split=split, fold=fold)
    rows = published["record"].searchsorted(copy.index["record"])
    index = copy.index.assign(**{c: published[c].to_numpy()[rows] for c in ("split", "fold")})
    return copy.divided(published, index, "; ".join(notes))


def _dealt(copy: Copy, count: int) -> np.ndarray:
    """The folds of all published records, kept beside the copies where dealing takes long."""
    published = copy.published
    by = [c for c in ("record", "patient", STRATA, TURN) if c in published]
    total = hashlib.sha256(f"{copy.card.folder} {count} {DEALING}".encode())
    total.update(pd.util.hash_pandas_object(published[by], index=False).to_numpy().tobytes())
    file = copy.folder.parent / f"folds-{total.hexdigest()[:32]}.sealed"
    return cached(
        file,
        make=lambda: dealt_again(copy.card.folder, published, count),
        write=lambda fold: fold.astype("<i8").tobytes(),
        read=lambda content: np.frombuffer(content, "<i8").astype(np.int64),
    )


def as_imported(index: pd.DataFrame, count: int) -> np.ndarray | None:
    """(record,) the folds of an import, pairs of ten joined, where they serve a cross-validation
    with `count` folds, so that a corrected table moves nobody. None where they do not.
    """
    if IMPORTED not in index or (folds := int(index[IMPORTED].max())) % count:
        return None
    return (index[IMPORTED].to_numpy(np.int64) * count + folds - 1) // folds


def divided(copy: Copy, index: pd.DataFrame, fold: str) -> np.ndarray:
    """(record,) the fold that each of these records of a copy is tested in, numbered from 1; fold:
    one of them, which says how they are made. BadSetting.
    """
    _, count = fold_number(fold)
    if fold.startswith(DEVICE):
        return by_recorder(copy.name, people(copy, index), count)[0]
    return cross_validation(copy.name, copy.tasks, index, count)


def by_recorder(name: str, known: pd.DataFrame, count: int) -> tuple[np.ndarray, list[str]]:
    """(record,) folds, and the recorder of each but the last. The first are the patients whom the
    commonest recorder recorded alone, then those of the next, and so on; in the last are all
    others, also those whom several recorded. So a patient is in one fold, and each fold but the
    last is a recorder that training has not met alone.

    known: device and patient of each record, of `data.people`. BadSetting for too few recorders.
    """
    device, patients = known["device"], known["patient"].map(alike)
    alone = (device != "") & (device.groupby(patients).transform("nunique") == 1)
    common = list(patients[alone].groupby(device[alone]).nunique().nlargest(count - 1).index)
    number = device.where(alone).map({one: k + 1 for k, one in enumerate(common)})
    if len(common) < count - 1 or number.notna().all():
        there = device[device != ""].nunique()
        raise BadSetting(
            f"--folds {DEVICE}={count}: the records of {name} in this run name {there} recorders, "
            f"and {count - 1} are wanted, and others besides; give "
            f"{f'{DEVICE}={there}, or ' if LEAST <= there < count else ''}--folds {count}"
        )
    return number.fillna(count).to_numpy(np.int64), common


def cross_validation(
    name: str, tasks: Sequence[Task], index: pd.DataFrame, count: int
) -> np.ndarray:
    """(record,) the fold from 1 to `count` that each record of an index is tested in: whole
    patients, stratified on the labels of the dataset's `tasks`. BadSetting for too few patients.
    """
    if (dealt := as_imported(index, count)) is not None:
        return dealt
    patients = index["patient"].map(alike).tolist()
    if (there := len(set(patients))) < count:
        fewer = f"--folds {there} or less, or " if there >= LEAST else ""
        raise BadSetting(
            f"--folds {count}: {name} has {there} patients in this run, and each fold needs one; "
            f"give {fewer}more records (--limit)"
        )
    columns = list(dict.fromkeys(c for task in tasks for c in task.columns))
    hot = index[columns].to_numpy() == 1
    present = [[columns[k] for k in np.flatnonzero(own)] for own in hot]
    return batched(f"{name} {count}", patients, present, count, turns_of(patients, SIZE))


def splits_of(dealt: np.ndarray, fold: str) -> np.ndarray:
    """(record,) splits of one fold of a cross-validation: its own number is tested, the next one
    (behind the last the first) validates, the others train.

    >>> splits_of(np.array([1, 2, 3, 4]), "4/4").tolist()
    ['val', 'train', 'train', 'test']
    """
    number, count = fold_number(fold)
    after = number % count + 1
    return np.where(dealt == number, "test", np.where(dealt == after, "val", "train")).astype(
        object
    )


def demand_enough(copy: Copy, wanted: Sequence[Task], index: pd.DataFrame, asked: Division) -> None:
    """BadSetting where a `wanted` task of a dataset has no label that can be trained, validated and
    tested in some fold of a cross-validation of these records.
    """
    dealt, count = divided(copy, index, asked.fits[0]), len(asked.fits)
    for task in wanted:
        if not trainable(index, task, dealt, count):
            raise BadSetting(
                f"--folds {asked}: no label of {task.name} has a positive and a negative in "
                f"training, validation and test of any fold, for which at least 3 patients with it "
                f"and 3 without it are needed; give fewer folds, or more records (--limit)"
            )


def trainable(index: pd.DataFrame, task: Task, dealt: np.ndarray, count: int) -> list[str]:
    """Labels that have both values in each of training, validation and test of some fold."""
    found: set[str] = set()
    hot = index[task.columns].to_numpy()
    for k in range(count):
        split = splits_of(dealt, f"{k + 1}/{count}")
        parts = [hot[split == name] for name in ("train", "val", "test")]
        both = [(part == 1).any(axis=0) & (part == 0).any(axis=0) for part in parts]
        found |= {task.labels[i] for i in np.flatnonzero(np.logical_and.reduce(both))}
    return [label for label in task.labels if label in found]
