"""Paired differences between two models, their p-values, and Holm's correction."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr

from ecgbench.stats.bootstrap import percentile_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One row less another, in the unit of the scores (fractions); NaN where a number is not
    known.
    """

    difference: float
    """Of the point estimates."""
    low: float
    high: float
    """Bounds of its 95 % interval."""
    p: float
    """Two-sided; not yet corrected."""
    se: float = float("nan")
    df: float = float("nan")
    """Degrees of freedom of the standard error."""
    share: float = float("nan")
    """Largest share of the variance that one label of three or more carries."""
    share_label: str = ""

    @property
    def not_significant(self) -> bool | None:
        """Whether the interval contains 0, the paper's rule for an asterisk; None where there is
        no interval.
        """
        return None if np.isnan(self.low) else bool(self.low <= 0 <= self.high)


def paired_difference(
    best: float, other: float, best_replicates: ArrayLike, other_replicates: ArrayLike
) -> Difference:
    """Difference best - other of two models whose replicates (B,) come from the same draws of
    patients.

    Row b of both must be the same draw: that is what cancels the difficulty of the patients. A draw
    in which either is NaN is left out.
    """
    first, second = (
        np.asarray(best_replicates, dtype=np.float64),
        np.asarray(other_replicates, dtype=np.float64),
    )
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(
            f"replicates {first.shape} and {second.shape} must both be (draws,), from the same "
            f"draws"
        )
    estimate, differences = best - other, first - second
    low, high = percentile_interval(differences)
    return Difference(difference=estimate, low=low, high=high, p=p_value(differences, estimate))


def p_value(differences: ArrayLike, estimate: float) -> float:
    """Two-sided bootstrap p = min(1, 2 (1 + draws on the other side of 0) / (B + 1)).

    With a positive `estimate` the other side is differences <= 0, with a negative one >= 0: a draw
    of exactly 0 counts against the difference. An estimate of 0 has no side and p is 1. B counts
    the draws that are not NaN; p is NaN if there is none or the estimate is NaN. The smallest value
    is 2 / (B + 1): with 1,000 draws nothing falls below 0.002.

    >>> p_value([0.2, 0.1, -0.1, 0.3, 0.0, 0.2, 0.1, 0.2, 0.1], estimate=0.1)
    0.6
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[~np.isnan(values)]
    if not len(values) or np.isnan(estimate):
        return float("nan")
    other_side = int(np.sum(values * np.sign(estimate) <= 0))
    return min(1.0, 2 * (1 + other_side) / (len(values) + 1))


def tost(differences: ArrayLike, margin: float) -> float:
    """The larger p of two one-sided t tests, that the mean of paired differences (pair,) lies above
    -margin and below margin (Schuirmann 1987, doi:10.1007/BF01068419). Below 0.05 the two are
    equivalent within the margin. NaN of fewer than two pairs.

    >>> round(tost([0.001, -0.002, 0.003, 0.0], 0.005), 4)
    0.0114
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < 2:
        return float("nan")
    beyond, se = abs(values.mean()) - margin, values.std(ddof=1) / np.sqrt(len(values))
    # the same difference in every pair has no spread, and leaves no doubt
    return float(stdtr(len(values) - 1, beyond / se) if se > 0 else beyond >= 0)


def holm(p: ArrayLike) -> Floats:
    """Adjusted p-values (m,) of one family (Holm 1979, Scand. J. Statist. 6:65-70); NaN stays NaN
    and does not count in the family.

    >>> holm([0.01, 0.04, float("nan"), 0.03]).round(9).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    adjusted = np.full(values.shape, np.nan)
    family = np.flatnonzero(~np.isnan(values))
    order = family[np.argsort(values[family], kind="stable")]
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted
