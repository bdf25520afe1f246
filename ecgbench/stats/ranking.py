"""What the order of scores gives besides the AUROC, under weights of the records: average
precision, and the positives among the highest scores.

Both are computed for many rows of weights at once, as a bootstrap over patients needs them; a
weight of 2 is a record that is there twice. Records with the same score are taken together, so that
the order in which they come does not count.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecgbench.stats.auroc import checked

Floats = NDArray[np.float64]


def average_precision(target: ArrayLike, score: ArrayLike, weights: ArrayLike) -> Floats:
    """(draw,) average precision of one label, `target` (n,) of 0 and 1 and `score` (n,), under each
    row of `weights` (draw, n): the precision at each score, averaged over the positives (Davis and
    Goadrich 2006, doi:10.1145/1143844.1143874). NaN where a class has no weight. ValueError as
    `auroc`.
    """
    positives, everyone = _from_the_top(target, score, weights)
    gained = np.diff(positives, prepend=0.0, axis=1)
    precision = np.zeros_like(positives)
    np.divide(positives, everyone, out=precision, where=everyone > 0)
    return _where_both(positives, everyone, (gained * precision).sum(axis=1))


def caught(target: ArrayLike, score: ArrayLike, weights: ArrayLike, share: float) -> Floats:
    """(draw,) which part of the positives of one label is among the `share` of all records with the
    highest scores; shapes as `average_precision`.

    Where only some of the records with the same score fit in, each counts in part, as a random
    choice among them would on average. Random scores therefore give `share`. NaN where a class has
    no weight.
    """
    positives, everyone = _from_the_top(target, score, weights)
    room = share * everyone[:, -1:]
    before = np.concatenate([np.zeros_like(room), everyone[:, :-1]], axis=1)
    size = everyone - before
    part = np.zeros_like(size)
    np.divide(room - before, size, out=part, where=size > 0)
    gained = np.diff(positives, prepend=0.0, axis=1)
    return _where_both(positives, everyone, (gained * np.clip(part, 0.0, 1.0)).sum(axis=1))


def _from_the_top(target: ArrayLike, score: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats]:
    """(draw, distinct score) weight of the positives, and of all records, that score as high or
    higher.
    """
    positive, score = checked(target, score)
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[1] != len(positive):
        raise ValueError(f"weights {weights.shape} must be (draw, {len(positive)})")
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    ordered = weights[:, order]
    everyone = np.cumsum(ordered, axis=1)[:, last]
    return np.cumsum(ordered * positive[order], axis=1)[:, last], everyone


def _where_both(positives: Floats, everyone: Floats, sums: Floats) -> Floats:
    """The sums as shares of the positives, where both classes have weight."""
    total = positives[:, -1]
    values: Floats = np.full(len(sums), np.nan)
    np.divide(sums, total, out=values, where=(total > 0) & (everyone[:, -1] > total))
    return values
