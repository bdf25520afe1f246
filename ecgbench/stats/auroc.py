"""Area under the ROC curve of records with weights, per label and as the macro mean.

The AUROC is the probability that a random positive scores above a random negative, ties counting
half (Mann-Whitney; Hanley and McNeil 1982, doi:10.1148/radiology.143.1.7063747). A label without
both values is *undefined*, NaN: a 0.5 would be a number that was not measured. A record whose label
is unknown (-1) is ignored for that label and used for the others.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecgbench.stats.known import UNKNOWN, two_valued

Floats = NDArray[np.float64]


def auroc(target: ArrayLike, score: ArrayLike, weight: ArrayLike | None = None) -> float:
    """AUROC of one label in O(n log n); NaN if a class is absent or weighs nothing.

    `target` (n,) holds 0 and 1, -1 where it is not known; `score` (n,) is larger for likelier
    positives, `weight` (n,) is not negative (default: all 1). Raises ValueError on other shapes, on
    other targets, on NaN scores and on weights that are negative or not finite.

    >>> auroc([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8])
    0.875
    """
    target, score = np.asarray(target), np.asarray(score)
    weights = _checked_weight(weight, len(target))
    known = target != UNKNOWN
    if not known.all() and target.shape == score.shape:
        target, score, weights = target[known], score[known], weights[known]
    positive, score = checked(target, score)
    rank = np.unique(score, return_inverse=True)[1]
    of_positives = np.bincount(rank, weights * positive)
    of_negatives = np.bincount(rank, weights * ~positive)
    total = of_positives.sum() * of_negatives.sum()
    if not total > 0:
        return float("nan")
    below = np.cumsum(of_negatives) - 0.5 * of_negatives
    return float(of_positives @ below / total)


def per_label(target: ArrayLike, score: ArrayLike, weight: ArrayLike | None = None) -> Floats:
    """AUROC (k,) of each column of `target` and `score`, both (n, k); `weight` (n,) is shared by
    the labels.
    """
    target, score = np.asarray(target), np.asarray(score)
    if target.ndim != 2 or target.shape != score.shape:
        raise ValueError(
            f"target {target.shape} and score {score.shape} must both be (record, label)"
        )
    return np.array([auroc(t, s, weight) for t, s in zip(target.T, score.T)], dtype=np.float64)


def macro_auroc(
    target: ArrayLike,
    score: ArrayLike,
    weight: ArrayLike | None = None,
    absent: Literal["undefined", "half"] = "undefined",
) -> float:
    """Mean AUROC over the labels of (n, k) arrays; NaN if no label is defined.

    `absent="undefined"` leaves undefined labels out of the mean; "half" counts them as 0.5, which
    only serves to reproduce the reference benchmark.
    """
    if absent not in ("undefined", "half"):
        raise ValueError(f"absent={absent!r}; known: undefined, half")
    values = per_label(target, score, weight)
    defined = values[np.isfinite(values)]
    if absent == "half" and len(values):
        return float((defined.sum() + 0.5 * (len(values) - len(defined))) / len(values))
    return float(defined.mean()) if len(defined) else float("nan")


def wins(target: ArrayLike, score: ArrayLike) -> NDArray[np.uint32]:
    """How many comparisons each record wins, twice: (n, k), `target` and `score` both (n, k).

    For a positive 2 x negatives below it + ties, for a negative 2 x positives above it + ties:
    whole numbers, from which AUROCs and placements follow exactly. 0 where a label is undefined, or
    not known of the record.
    """
    target, score = np.asarray(target), np.asarray(score)
    if target.ndim != 2 or target.shape != score.shape:
        raise ValueError(
            f"target {target.shape} and score {score.shape} must both be (record, label)"
        )
    is_positive, is_negative, known = target == 1, target == 0, target != UNKNOWN
    if (known & ~(is_positive | is_negative)).any() or np.isnan(score[known]).any():
        for k in range(target.shape[1]):  # says what is wrong
            checked(target[known[:, k], k], score[known[:, k], k])
    won = np.zeros(target.shape, np.uint32)
    for k in range(target.shape[1]):
        column, positive, negative = score[:, k], is_positive[:, k], is_negative[:, k]
        high, low = column[positive], column[negative]
        won[positive, k] = _twice_below(np.sort(low), high)
        won[negative, k] = 2 * len(high) - _twice_below(np.sort(high), low)
    return won


def _twice_below(ordered: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """2 x how many of `ordered` lie below each value + ties."""
    return np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")


def placements(target: ArrayLike, won: ArrayLike) -> Floats:
    """Share (n, k) of the other class on the right side of each record, ties counting half, from
    its `wins`; NaN where a label is undefined, or not known of the record. The mean over a label's
    positives is its AUROC.
    """
    target = np.asarray(target)
    positive, negative = target == 1, target == 0
    others = np.where(positive, negative.sum(axis=0), positive.sum(axis=0))
    counted = two_valued(target) & (positive | negative)
    placed = np.full(positive.shape, np.nan)
    np.divide(np.asarray(won), 2 * others, out=placed, where=counted)
    return placed


def influence(target: ArrayLike, score: ArrayLike) -> Floats:
    """Influence (n, k) of each record on the AUROC of each label, `target` and `score` both (n, k);
    NaN where a label is undefined, 0 where it is not known of the record.

    Weights w of mean 1 move the AUROC by about mean(w * influence): for a positive n/positives (its
    placement - AUROC), and for a negative the same over the negatives (DeLong et al. 1988,
    doi:10.2307/2531595). Each column sums to 0.
    """
    target = np.asarray(target)
    placed, positive, negative = placements(target, wins(target, score)), target == 1, target == 0
    n, n1 = len(positive), np.maximum(positive.sum(axis=0), 1)
    value = np.where(positive, placed, 0.0).sum(axis=0) / n1
    own = np.where(positive, n1, np.maximum(negative.sum(axis=0), 1))
    unknown = two_valued(target) & ~(positive | negative)
    return np.where(unknown, 0.0, n / own * (placed - value))


def checked(target: ArrayLike, score: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Target (n,) as bool beside its score (n,); ValueError where one of them cannot be ranked."""
    target, score = np.asarray(target), np.asarray(score)
    if target.ndim != 1 or target.shape != score.shape:
        raise ValueError(f"target {target.shape} and score {score.shape} must both be (record,)")
    positive = target == 1
    if not np.all(positive | (target == 0)):
        raise ValueError("a target holds values other than 0 and 1")
    if np.isnan(score).any():
        raise ValueError(
            f"{int(np.isnan(score).sum())} of {len(score)} scores are NaN; a rank needs a number"
        )
    return positive, score


def _checked_weight(weight: ArrayLike | None, n: int) -> Floats:
    weights = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"weight {weights.shape} must be ({n},), one per record")
    if not np.all((weights >= 0) & np.isfinite(weights)):
        raise ValueError("weights must be finite and not negative")
    return weights
