"""Bootstrap over patients: weights of the records, replicates of the AUROC, percentile intervals.

Patients are drawn with replacement (Efron 1979, doi:10.1214/aos/1176344552), as the LAEF paper
does: a rare class can be lost.

Speed. One label's replicates need, for each draw, the weight of the larger class that lies below
each score of the smaller class. Which record lies where is the same in all draws, so the records
are sorted once per label into a sparse matrix of 1 and 0.5 (a tie) that sums many draws at a time:
O(n) per label and draw, without the matrix of pairwise comparisons.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from ecgbench.stats.auroc import checked
from ecgbench.stats.known import parts, two_valued

Floats = NDArray[np.float64]

DRAWS_AT_A_TIME = 128
"""Draws summed together: their weights of 2,198 records (1-2 MB) stay in the processor's second
cache; 20 MB at 20,000 records.
"""

EXACT_FLOAT32 = 2**23
"""Below this, sums of integers and of halves are exact in float32, in any order."""


def patient_weights(patients: ArrayLike, draws: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Weights (draws, n) of n records: how often the patient of each is drawn.

    Integers show `label_replicates` that its sums can be exact. Patients are taken in sorted order
    and draws filled one after the other: neither the order of the records nor a larger `draws`
    changes a draw.
    """
    names, patient_of_record = np.unique(np.asarray(patients), return_inverse=True)
    if not len(names):
        raise ValueError("no record to draw patients from")
    weights = np.empty((draws, len(patient_of_record)), np.int32)
    for block in _blocks(draws):
        weights[block] = _counts(rng, block.stop - block.start, len(names))[:, patient_of_record]
    return weights


def label_replicates(target: ArrayLike, score: ArrayLike, weights: ArrayLike) -> Floats:
    """AUROC (draws, k) per label, `target` and `score` (n, k), under each row of `weights` (draws,
    n).

    NaN where a draw lost a class, and in the columns of labels that are undefined on the full data.
    A record of which a label is not known (-1) has no part in that label.
    """
    target, score = np.asarray(target), np.asarray(score)
    if target.ndim != 2 or target.shape != score.shape or not target.shape[1]:
        raise ValueError(
            f"target {target.shape} and score {score.shape} must both be (record, label), with a "
            f"label"
        )
    weights = _checked_weights(weights, len(target))
    labels = np.full((len(weights), target.shape[1]), np.nan)
    for part in parts(target):
        known, own = part.of(target), part.of(score)
        positive = np.stack([checked(t, s)[0] for t, s in zip(known.T, own.T)], axis=1)
        defined = two_valued(known)
        found = np.full((len(weights), known.shape[1]), np.nan)
        found[:, defined] = _replicates(
            positive[:, defined], own[:, defined], weights[:, part.records]
        )
        labels[:, part.labels] = found
    return labels


def macro_replicates(
    labels: Floats, defined: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.int64]]:
    """From replicates (draw, label) to (draw,) their mean over labels, and (draw,) how many labels
    the draw lost.

    `defined` (label,): which labels have a value on the full data; the others are left out
    everywhere. A label that a draw loses (NaN) is left out of that draw's mean and counted; a mean
    of nothing is NaN.
    """
    counted = np.isfinite(labels) & defined
    n_counted = counted.sum(axis=1)
    macro = np.full(len(labels), np.nan)
    np.divide(np.where(counted, labels, 0.0).sum(axis=1), n_counted, out=macro, where=n_counted > 0)
    return macro, defined.sum() - n_counted


def resampled(
    value: Callable[[Any, Any], ArrayLike],
    target: NDArray[Any],
    score: NDArray[Any],
    counts: NDArray[Any],
) -> Floats:
    """Values (draw, label) of a statistic of the records of each draw; `counts` (draw, n): how
    often each record is among them.
    """
    rows = [np.repeat(np.arange(len(target)), times) for times in counts]
    return np.stack([np.asarray(value(target[drawn], score[drawn]), np.float64) for drawn in rows])


def percentile_interval(replicates: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Low and high quantile that hold `level` of the replicates between them; NaN draws are left
    out, (NaN, NaN) if none is left.

    >>> percentile_interval(range(1001), level=0.5)
    (250.0, 750.0)
    """
    values = np.asarray(replicates, dtype=np.float64)
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


class _Sorted(NamedTuple):
    """One label's records, sorted once: `sums @ weights` (2 levels + 1, draws) holds all that a
    draw needs.

    The levels are the u distinct scores of the smaller class. Rows 0..u sum the larger class, so
    that the cumulated row l is the weight that a record at level l wins against (a tie is half in
    row l and half in l + 1) and the cumulated row u is the whole class; the last u rows sum the
    smaller class at each level.
    """

    sums: sp.csr_array
    levels: int


def _sort(positive: NDArray[np.bool_], score: NDArray[Any], dtype: type) -> _Sorted:
    rank = np.unique(score, return_inverse=True)[1]
    few_are_positive = 2 * positive.sum() <= len(positive)
    # Seen from the negatives, a comparison is won by the lower score.
    rank, few = (rank, positive) if few_are_positive else (-rank, ~positive)
    levels, level_of_few = np.unique(rank[few], return_inverse=True)
    many = np.flatnonzero(~few)
    first = np.searchsorted(levels, rank[many], side="left")
    second = np.searchsorted(levels, rank[many], side="right")
    u = len(levels)
    row = np.concatenate([first, second, u + 1 + level_of_few])
    record = np.concatenate([many, many, np.flatnonzero(few)])
    share = np.concatenate([np.full(2 * len(many), 0.5), np.ones(few.sum())])
    # Without a tie both halves fall into one cell, where the conversion adds them.
    return _Sorted(
        sp.csr_array((share.astype(dtype), (row, record)), shape=(2 * u + 1, len(rank))), u
    )


def _replicates(positive: NDArray[np.bool_], score: NDArray[Any], weights: NDArray[Any]) -> Floats:
    """AUROC (draws, k) of columns that may be undefined; the sums are exact for counts, else in
    float64.
    """
    exact = (
        weights.dtype.kind in "iub"
        and weights.sum(axis=1, dtype=np.int64).max(initial=0) < EXACT_FLOAT32
    )
    dtype = np.float32 if exact else np.float64
    labels = [_sort(positive[:, k], score[:, k], dtype) for k in range(positive.shape[1])]
    values = np.empty((len(weights), len(labels)))
    for block in _blocks(len(weights)):
        columns = np.ascontiguousarray(weights[block].T, dtype=dtype)
        for k, label in enumerate(labels):
            values[block, k] = _auroc_of(label, columns)
    return values


def _auroc_of(label: _Sorted, columns: NDArray[Any]) -> Floats:
    """AUROC (draws,) from the weights (n, draws) of some draws."""
    sums = label.sums @ columns
    # The products of two classes may exceed what float32 holds, whatever their sums.
    below = np.cumsum(sums[: label.levels + 1], axis=0, dtype=np.float64)
    few = sums[label.levels + 1 :].astype(np.float64, copy=False)
    won = np.einsum("ld,ld->d", few, below[:-1])
    total = few.sum(axis=0) * below[-1]
    values: np.ndarray = np.full(len(won), np.nan)
    np.divide(won, total, out=values, where=total > 0)
    return values


def _blocks(draws: int) -> Iterator[slice]:
    for start in range(0, draws, DRAWS_AT_A_TIME):
        yield slice(start, min(start + DRAWS_AT_A_TIME, draws))


def _counts(rng: np.random.Generator, draws: int, patients: int) -> NDArray[np.int64]:
    """How often each of the patients is among as many drawn with replacement: (draws, patients)."""
    drawn = rng.integers(0, patients, (draws, patients)) + patients * np.arange(draws)[:, None]
    return np.bincount(drawn.ravel(), minlength=draws * patients).reshape(draws, patients)


def _checked_weights(weights: ArrayLike, n: int) -> NDArray[Any]:
    weights = np.asarray(weights)
    if weights.ndim != 2 or weights.shape[1] != n:
        raise ValueError(f"weights {weights.shape} must be (draws, {n}), one column per record")
    # min and max carry NaN, and unlike a comparison make no second table.
    if weights.size and not (weights.min() >= 0 and np.isfinite(weights.max())):
        raise ValueError("weights must be finite and not negative")
    return weights
