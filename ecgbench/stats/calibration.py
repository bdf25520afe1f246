"""Whether probabilities mean what they say: slope and intercept, bins of equal mass, and the
expected calibration error (ECE).

Slope b: of the logistic regression logit P(y = 1) = a + b logit(p) (Cox 1958,
doi:10.1093/biomet/45.3-4.562). 1 is right; below 1 the probabilities are too extreme. Intercept: a
where b is held at 1. 0 is right; below 0 the probabilities are too high as a whole (Van Calster et
al. 2019, doi:10.1186/s12916-019-1466-7). Intervals are those of a regression with records of a
patient taken together (the sandwich).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from ecgbench.stats.clustered import Estimate, Floats, Patients

EDGE = 1e-7
"""A probability below it, or above 1 - it, is taken as it: logit(0) is no number."""
BINS = 10
_STEPS = 100
_SMALL = 1e-10


def squared_error(target: ArrayLike, probability: ArrayLike) -> Floats:
    """Of each probability, any shape; its mean is the Brier score (Brier 1950)."""
    return np.asarray(np.square(np.asarray(probability) - np.asarray(target)), np.float64)


def logits(probability: ArrayLike) -> Floats:
    """Log odds of probabilities, which stay `EDGE` away from 0 and 1."""
    return np.asarray(logit(np.clip(np.asarray(probability, dtype=np.float64), EDGE, 1 - EDGE)))


def ordered_perfectly(target: NDArray[np.bool_], score: Floats) -> bool:
    """Whether a threshold parts the classes, so that no slope is the best one.

    >>> ordered_perfectly(np.array([False, True]), np.array([0.2, 0.9]))
    True
    """
    with_it, without = score[target], score[~target]
    return bool(with_it.min() >= without.max() or with_it.max() <= without.min())


def slope(target: NDArray[np.bool_], probability: ArrayLike, patients: Patients) -> Estimate | None:
    """Calibration slope of one label: `target` and `probability` (record,), both classes there;
    None where the records are ordered perfectly.
    """
    x = logits(probability)
    if ordered_perfectly(target, x):
        return None
    middle, spread = x.mean(), x.std()
    design = np.stack([np.ones_like(x), (x - middle) / spread], axis=1)
    theta, information = _fitted(target, design, np.zeros_like(x))
    residual = target - expit(design @ theta)
    errors = np.stack([patients.sums(column * residual) for column in design.T])
    moved = np.linalg.solve(information, errors)[1] / spread
    return Estimate(value=float(theta[1] / spread), parts=moved, units=_smaller(target, patients))


def intercept(target: NDArray[np.bool_], probability: ArrayLike, patients: Patients) -> Estimate:
    """Calibration intercept of one label, the slope held at 1; shapes as `slope`."""
    x = logits(probability)
    theta, information = _fitted(target, np.ones((len(x), 1)), x)
    residual = target - expit(theta[0] + x)
    return Estimate(
        value=float(theta[0]),
        parts=patients.sums(residual) / information[0, 0],
        units=_smaller(target, patients),
    )


def _smaller(target: NDArray[np.bool_], patients: Patients) -> int:
    return min(patients.number(target), patients.number(~target))


def _fitted(target: NDArray[np.bool_], design: Floats, offset: Floats) -> tuple[Floats, Floats]:
    """Newton's method with halved steps, which always ends where the classes overlap."""

    def loss(theta: Floats) -> float:
        eta = offset + design @ theta
        return float((np.logaddexp(0, eta) - target * eta).sum())

    theta: Floats = np.zeros(design.shape[1])
    now = loss(theta)
    for _ in range(_STEPS):
        p = expit(offset + design @ theta)
        information = (design.T * (p * (1 - p))) @ design
        gradient = design.T @ (target - p)
        step = np.linalg.solve(information + 1e-12 * np.eye(len(theta)), gradient)
        while (then := loss(theta + step)) > now + _SMALL and np.abs(step).max() > _SMALL:
            step = step / 2
        theta, now = theta + step, then
        if np.abs(step).max() < _SMALL:
            break
    p = expit(offset + design @ theta)
    return theta, (design.T * (p * (1 - p))) @ design


@dataclass(frozen=True, kw_only=True, eq=False)
class Bins:
    """Records by their probability; arrays (bin,)."""

    of_record: NDArray[np.intp]
    """(record,) which bin it is in."""
    probability: Floats
    """Mean of what was predicted."""
    observed: Floats
    """Share that has the label."""
    count: NDArray[np.intp]
    by_chance: Floats
    """By how much `observed` would be off on average if every probability were right."""

    @property
    def ece(self) -> float:
        """Mean over the records of how far the observed share of their bin is from the
        probability.
        """
        return float(np.average(np.abs(self.observed - self.probability), weights=self.count))

    @property
    def ece_by_chance(self) -> float:
        """What it would be on average if every probability were right: it is never 0, and larger
        the fewer records there are. Records are taken as independent.
        """
        return float(np.average(self.by_chance, weights=self.count))


def reliability(target: NDArray[np.bool_], probability: ArrayLike, bins: int = BINS) -> Bins:
    """Bins of equal mass of one label, `target` and `probability` (record,). Records with the same
    probability stay together, so that there may be fewer bins.
    """
    probability = np.asarray(probability, dtype=np.float64)
    below = np.searchsorted(np.sort(probability), probability, "left")
    place = np.unique(bins * below // len(probability), return_inverse=True)[1]
    count = np.bincount(place)
    variance = np.bincount(place, probability * (1 - probability)) / count**2
    return Bins(
        of_record=place,
        probability=np.bincount(place, probability) / count,
        observed=np.bincount(place, target) / count,
        count=count,
        by_chance=np.sqrt(2 / np.pi * variance),
    )
