"""Folds for datasets that publish none: iterative stratification over whole patients (after
Sechidis et al., ECML PKDD 2011, in the form of the reference benchmark).

The rarest label comes first; its patients go, those with most of it first, to the fold that still
wants most of it. Ties go to the fold that wants most records, then to chance. In the reference
patients without a label fall into training; here they are dealt at random to all folds. The order
of files moves nothing: patients are sorted by name.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from ecgbench.seeds import rng


def stratified(
    name: str, patients: Sequence[str], labels: Sequence[Sequence[str]], folds: int
) -> np.ndarray:
    """(record,) fold from 1 to `folds` of each record, equally large folds in expectation.

    name: of the dataset, which names the chance. patients, labels: of each record; a label may be
    there twice.
    """
    records = Counter(patients)
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for patient, own in zip(patients, labels, strict=True):
        held[patient].update(own)
    draw = rng("folds", name)
    wants = np.full(folds, len(patients) / folds)
    remaining = Counter(label for own in held.values() for label in own.elements())
    desire = {label: np.full(folds, n / folds) for label, n in sorted(remaining.items())}
    left = {label: {p for p in sorted(held) if held[p][label]} for label in desire}
    fold: dict[str, int] = {}

    def assign(patient: str, chosen: int) -> None:
        fold[patient] = chosen
        wants[chosen] -= records[patient]
        for label, times in held[patient].items():
            desire[label][chosen] -= times
            left[label].discard(patient)
            remaining[label] -= times

    while any(left.values()):
        rarest = min((n, label) for label, n in remaining.items() if left[label])[1]
        members = sorted(left[rarest], reverse=True)
        for patient in sorted(members, key=lambda p: -held[p][rarest]):
            assign(patient, _wanting(desire[rarest], wants, draw))
    rest = sorted(set(records) - set(fold))
    for place in draw.permutation(len(rest)):
        assign(rest[place], _wanting(wants, wants, draw))
    return np.array([1 + fold[p] for p in patients])


def batched(
    name: str, patients: Sequence[str], labels: Sequence[Sequence[str]], folds: int, size: int
) -> np.ndarray:
    """As `stratified`, in turns of `size` patients in the order of their names: for datasets whose
    number of patients would take minutes.
    """
    result = np.zeros(len(patients), np.int64)
    order = {p: i // size for i, p in enumerate(sorted(set(patients)))}
    turns = np.array([order[p] for p in patients])
    for turn in range(int(turns.max()) + 1):
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
