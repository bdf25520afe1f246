"""The smallest true difference that a comparison finds, and how many patients skill takes."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from ecgbench.stats.components import SCORE_PRIOR, Estimate, binormal_variance

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


def needed(auroc: float, ratio: float, power: float = POWER) -> float:
    """Patients with a label that tell its true AUROC `auroc` from guessing in so many studies: the
    95 % interval of `Components.label_interval` then lies above 0.5. NaN where it is not above 0.5.

    ratio: patients without the label to one with it. One record per patient, binormal scores.

    >>> round(needed(0.7, 3)), round(needed(0.6, 3))
    (23, 97)
    """
    if not auroc > 0.5:
        return float("nan")
    at_chance, there = binormal_variance([0.5, auroc])
    refused = ndtri(0.975) * np.sqrt(at_chance * (SCORE_PRIOR + 1 / ratio))
    missed = ndtri(power) * np.sqrt(there * (1 + 1 / ratio))
    return float(((refused + missed) / (auroc - 0.5)) ** 2)


def times_as_many(half: float, distance: float, power: float = POWER) -> float:
    """How many times as many patients make half a 95 % interval so short that it leaves out what
    lies at a `distance` from the true value, in so many studies.

    >>> round(times_as_many(0.05, 0.1), 2)
    0.51
    """
    return float((half * (1 + ndtri(power) / ndtri(0.975)) / distance) ** 2)
