"""Folds for datasets that publish none: iterative stratification over whole patients (after
Sechidis et al., ECML PKDD 2011, in the form of the reference benchmark).

The rarest label comes first; its patients go, those with most of it first, to the fold that still
wants most of it. Ties go to the fold that wants most records, then to chance. In the reference
patients without a label fall into training; here they are dealt at random to all folds. The order
of files moves nothing: patients are sorted by name.

An index keeps what its folds were stratified on, so that they can be dealt again with another
number (`--folds NAME=N`) without reading a file.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cards.dataset import DatasetCard
from ecgbench.core.seeds import rng

STRATA = "strata"
"""Column of an index whose folds are ours: a JSON list of what the folds were stratified on."""
TURN = "turn"
"""Column of an index whose patients are dealt in turns: the turn of each record's patient."""

Texts = Sequence[str] | pd.Series
AGES = (20, 40, 60, 80)
"""Bounds of the groups of age, in years."""


def dealt(
    name: str,
    patients: Sequence[str],
    labels: Sequence[Sequence[str]],
    folds: int,
    size: int | None = None,
) -> dict[str, Any]:
    """Columns of an index: split, fold (1 to `folds`) and what they were dealt by.

    name: of the dataset, which names the chance. patients, labels: of each record. size: patients
    that are dealt at a time, for datasets whose number of patients would take minutes.
    """
    by = {STRATA: [json.dumps(list(own)) for own in labels]}
    turns = {} if size is None else {TURN: turns_of(patients, size)}
    fold = dealt_again(name, pd.DataFrame({"patient": patients, **by, **turns}), folds)
    return {"split": splits(fold), "fold": fold, **by, **turns}


def framed(
    card: DatasetCard,
    records: Texts,
    patients: Texts,
    strata: Sequence[Sequence[str]],
    paths: Texts,
    size: int | None = None,
    **more: object,
) -> pd.DataFrame:
    """The columns of an index that hold no labels: record, patient, those of `dealt` by the folds
    of the card, path, and `more`. strata: of each record. size: as in `dealt`.
    """
    by = dealt(card.folder, list(patients), strata, card.folds, size)
    return pd.DataFrame({"record": records, "patient": patients, **by, "path": paths, **more})


def of_age(years: pd.Series) -> list[str]:
    """The group of each age that folds are to hold alike; an unknown age is among the highest."""
    ages = pd.to_numeric(years, errors="coerce")
    return [f"age {group}" for group in np.searchsorted(AGES, ages, side="right")]


def dealt_again(name: str, index: pd.DataFrame, folds: int) -> np.ndarray:
    """(record,) fold from 1 to `folds` of each record of an index with the columns of `dealt`."""
    patients, labels = index["patient"].tolist(), [json.loads(own) for own in index[STRATA]]
    if TURN in index:
        return batched(name, patients, labels, folds, index[TURN].to_numpy())
    return stratified(name, patients, labels, folds)


def unlabelled(index: pd.DataFrame) -> np.ndarray:
    """(record,) bool: whether its patient has nothing that folds were stratified on."""
    none = index[STRATA] == "[]"
    return none.groupby(index["patient"]).transform("all").to_numpy(bool)


def stratified(
    name: str,
    patients: Sequence[str],
    labels: Sequence[Sequence[str]],
    folds: int,
    known: Mapping[str, int] = MappingProxyType({}),
) -> np.ndarray:
    """(record,) fold from 1 to `folds` of each record, equally large folds in expectation.

    name: of the dataset, which names the chance. patients, labels: of each record; a label may be
    there twice. known: folds of patients that stay where they are; the others are dealt around
    them.
    """
    records = Counter(patients)
    labels_of: dict[str, Counter[str]] = defaultdict(Counter)
    for patient, own in zip(patients, labels, strict=True):
        labels_of[patient].update(own)
    draw = rng("folds", name)
    wants = np.full(folds, len(patients) / folds)
    remaining = Counter(label for own in labels_of.values() for label in own.elements())
    desire = {label: np.full(folds, n / folds) for label, n in sorted(remaining.items())}
    unassigned = {label: {p for p in sorted(labels_of) if labels_of[p][label]} for label in desire}
    fold: dict[str, int] = {}

    def assign(patient: str, chosen: int) -> None:
        fold[patient] = chosen
        wants[chosen] -= records[patient]
        for label, times in labels_of[patient].items():
            desire[label][chosen] -= times
            unassigned[label].discard(patient)
            remaining[label] -= times

    for patient in sorted(set(known) & set(records)):
        assign(patient, known[patient] - 1)
    while any(unassigned.values()):
        rarest = min((n, label) for label, n in remaining.items() if unassigned[label])[1]
        members = sorted(unassigned[rarest], reverse=True)
        for patient in sorted(members, key=lambda p: -labels_of[p][rarest]):
            assign(patient, _wanting(desire[rarest], wants, draw))
    rest = sorted(set(records) - set(fold))
    for i in draw.permutation(len(rest)):
        assign(rest[i], _wanting(wants, wants, draw))
    return np.array([1 + fold[p] for p in patients])


def turns_of(patients: Sequence[str], size: int) -> np.ndarray:
    """(record,) the turn of each record's patient: `size` patients a turn, in the order of their
    names.
    """
    order = {p: i // size for i, p in enumerate(sorted(set(patients)))}
    return np.array([order[p] for p in patients])


def batched(
    name: str,
    patients: Sequence[str],
    labels: Sequence[Sequence[str]],
    folds: int,
    turns: np.ndarray,
) -> np.ndarray:
    """As `stratified`, turn by turn; turns (record,): see `turns_of`."""
    result = np.zeros(len(patients), np.int64)
    for turn in np.unique(turns).tolist():
        rows = np.flatnonzero(turns == turn).tolist()
        own, words = [patients[i] for i in rows], [labels[i] for i in rows]
        result[rows] = stratified(f"{name} {turn}", own, words, folds)
    return result


def splits(fold: np.ndarray) -> np.ndarray:
    """(record,) "test" in the last fold, "val" in the one before it, "train" in all others.

    >>> splits(np.array([1, 2, 3, 4])).tolist()
    ['train', 'train', 'val', 'test']
    """
    last = int(fold.max())
    return np.where(fold == last, "test", np.where(fold == last - 1, "val", "train")).astype(object)


def _wanting(first: np.ndarray, second: np.ndarray, draw: np.random.Generator) -> int:
    """The fold with the most of `first`, of equal ones that with the most of `second`, else by
    chance.
    """
    best = np.flatnonzero(first >= first.max() - 1e-9)
    best = best[second[best] >= second[best].max() - 1e-9]
    return int(best[0] if len(best) == 1 else draw.choice(best))
