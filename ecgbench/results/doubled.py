"""Labels of a task that count the same records twice: those with one column in the test set."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecgbench.core.cells import Absent
from ecgbench.stats.known import two_valued


def first_alike(target: ArrayLike) -> NDArray[np.intp]:
    """(label,) the first label with the very column of each in `target` (record, label), itself
    where there is none before it. Columns that are known of different records (-1) are not alike.

    >>> first_alike([[1, 0, 1], [0, 0, 0], [1, 1, 1]]).tolist()
    [0, 1, 0]
    """
    first: dict[bytes, int] = {}
    columns = np.asarray(target, np.int8).T
    return np.array([first.setdefault(c.tobytes(), k) for k, c in enumerate(columns)], np.intp)


def same_as(target: ArrayLike, labels: Sequence[str]) -> list[str]:
    """(label,) the label before it with the very same records; "" where there is none, and where a
    label has not both values.
    """
    first, defined = first_alike(target), two_valued(target)
    return [labels[f] if f != k and defined[k] else "" for k, f in enumerate(first)]


def distinct_mean(values: ArrayLike, target: ArrayLike, absent: Absent) -> tuple[float, int]:
    """The mean over labels in which those with the very same records count once, by the mean of
    their `values` (label,); and how many labels that leaves. NaN and 0 where none has a value.
    """
    known = np.asarray(values, np.float64)
    if absent == "half":
        known = np.where(np.isfinite(known), known, 0.5)
    first, defined = first_alike(target), np.isfinite(known)
    groups = np.unique(first[defined])
    if not len(groups):
        return float("nan"), 0
    return float(np.mean([known[defined & (first == g)].mean() for g in groups])), len(groups)
