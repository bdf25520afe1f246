"""The smallest true difference that a comparison finds."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from ecgbench.stats.components import Estimate, binormal_variance

POWER = 0.8
ROUNDS = 30
"""Iterations until the difference and its variance agree; far more than are needed."""


def detectable(found: Estimate, power: float = POWER) -> float | None:
    """(t_.975 + z_power) standard errors of a difference; None where it has none."""
    if not found.se > 0:
        return None
    return float((found.t + ndtri(power)) * found.se)


def expected(
    positives: ArrayLike, negatives: ArrayLike, auroc: float, shared: float, power: float = POWER
) -> float:
    """The same difference before a run: of two macro AUROCs of `auroc` whose errors have the
    correlation `shared`, over labels with these positives and negatives (label,). Labels without
    both are left out; NaN if there is no other.

    It assumes binormal scores, independent labels and normal quantiles. It is an order of
    magnitude, and somewhat too small where records have several labels. The variance is computed at
    both AUROCs, because the lower one has the larger variance.

    >>> round(expected([50, 50], [950, 950], 0.85, 0.5), 3)
    0.059
    """
    one, other = np.asarray(positives, np.float64), np.asarray(negatives, np.float64)
    both = (one > 0) & (other > 0)
    if not both.any():
        return float("nan")
    counts = float((1 / one[both] + 1 / other[both]).sum()) / int(both.sum()) ** 2
    smallest = 0.0
    for _ in range(ROUNDS):
        first, second = np.sqrt(binormal_variance([auroc, max(auroc - smallest, 0.5)]) * counts)
        se = np.sqrt(first**2 + second**2 - 2 * shared * first * second)
        smallest = float((ndtri(0.975) + ndtri(power)) * se)
    return smallest
