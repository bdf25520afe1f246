"""Whether the macro AUROC of one group of patients differs from that of the rest.

Within each group the AUROC compares patients of that group alone. Two groups have different
patients, so the variances add; each is that of `components`, and degrees of freedom are Welch's. A
patient with records in both (at different ages, from different devices) counts in both: their
covariance is ignored, which makes the interval somewhat too wide.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecgbench.stats.components import Components, Estimate


def gap(group: Components, rest: Components, weights: ArrayLike) -> Estimate:
    """A contrast of rows (rows,) in the group less the same contrast in the rest. Of one row: the
    difference between group and rest; of row a less row b: how much larger it is for a than for b.
    """
    a, b = group.contrast(weights), rest.contrast(weights)
    if np.isnan(a.variance) or np.isnan(b.variance):
        nan = float("nan")
        return Estimate(value=a.value - b.value, variance=nan, df=nan, share=nan, label=-1)
    if not a.variance > 0:
        return Estimate(
            value=a.value - b.value, variance=b.variance, df=b.df, share=b.share, label=b.label
        )
    return a.plus(b.variance, b.df).shifted(-b.value)


def usable(target: NDArray[np.int8], patients: NDArray[np.str_], least: int) -> NDArray[np.bool_]:
    """(label,) whether at least `least` patients have a record with the label and at least as many
    have one without it. target: (record, label) of 1, 0, and -1 where it is unknown.
    """
    codes = np.unique(patients, return_inverse=True)[1]
    counts = np.zeros((2, target.shape[1]), np.intp)
    for at, value in enumerate((1, 0)):
        for k in range(target.shape[1]):
            counts[at, k] = len(np.unique(codes[target[:, k] == value]))
    return np.asarray((counts >= least).all(axis=0))
