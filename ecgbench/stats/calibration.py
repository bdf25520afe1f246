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
from scipy.special import logit

from ecgbench.stats.clustered import Estimate, Floats, Patients

EDGE = 1e-7
"""A probability below it, or above 1 - it, is taken as it: logit(0) is no number."""
BINS = 10
_STEPS = 100
_SMALL = 1e-10
_SURE = 1e-2
"""A step below it is so near the end that it cannot lead away."""


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
    z = (x - middle) / spread
    (_, steep), residual, bread = _fitted(target, z, 0.0, (float(middle), float(spread)))
    moved = bread[0] * patients.sums(residual) + bread[1] * patients.sums(residual * z)
    return Estimate(
        value=float(steep / spread), parts=moved / spread, units=_smaller(target, patients)
    )


def intercept(target: NDArray[np.bool_], probability: ArrayLike, patients: Patients) -> Estimate:
    """Calibration intercept of one label, the slope held at 1; shapes as `slope`."""
    (level, _), residual, bread = _fitted(target, None, logits(probability), (0.0, 0.0))
    return Estimate(
        value=float(level),
        parts=bread[0] * patients.sums(residual),
        units=_smaller(target, patients),
    )


def _smaller(target: NDArray[np.bool_], patients: Patients) -> int:
    return min(patients.number(target), patients.number(~target))


Pair = tuple[float, float]


def _fitted(
    target: NDArray[np.bool_], z: Floats | None, fixed: Floats | float, begin: Pair
) -> tuple[Pair, Floats, Pair]:
    """Level and slope of a logistic regression on `z` (record,), or the level alone, beside what is
    `fixed`, by Newton's method with halved steps, which always ends where the classes overlap; from
    `begin` or from nothing, whichever is nearer.

    Returns them, the residuals (record,), and the last row of the inverse information: how errors
    of the level and of the slope move the last of the two.
    """
    wanted = target.astype(np.float64)

    def at(theta: Pair) -> Floats:
        eta = fixed + theta[0]
        return np.asarray(eta if z is None else eta + theta[1] * z)

    def loss(eta: Floats) -> float:
        # log(1 + exp(eta)) that neither overflows nor takes numpy's slow way
        return float((np.maximum(eta, 0) + np.log(1 + np.exp(-np.abs(eta)))).sum() - wanted @ eta)

    starts = {theta: at(theta) for theta in ((0.0, 0.0), begin)}
    now, theta = min((loss(eta), theta) for theta, eta in starts.items())
    eta = starts[theta]
    for _ in range(_STEPS):
        p = _sigmoid(eta)
        left, weight = wanted - p, p * (1 - p)
        step = _step(left, weight, z)
        then = at((theta[0] + step[0], theta[1] + step[1]))
        if max(map(abs, step)) > _SURE:
            while (new := loss(then)) > now + _SMALL and max(map(abs, step)) > _SMALL:
                step = (step[0] / 2, step[1] / 2)
                then = at((theta[0] + step[0], theta[1] + step[1]))
            now = new
        theta, eta = (theta[0] + step[0], theta[1] + step[1]), then
        if max(map(abs, step)) < _SMALL:
            break
    p = _sigmoid(eta)
    a, b, c = _information(p * (1 - p), z)
    if z is None:
        return theta, wanted - p, (1 / a, 0.0)
    return theta, wanted - p, (-b / (a * c - b * b), a / (a * c - b * b))


def _sigmoid(eta: Floats) -> Floats:
    """A quarter of the time of scipy's expit."""
    small = np.exp(-np.abs(eta))
    return np.asarray(np.where(eta >= 0, 1.0, small) / (1 + small))


def _information(weight: Floats, z: Floats | None) -> tuple[float, float, float]:
    """Of the level, of both, and of the slope."""
    if z is None:
        return float(weight.sum()), 0.0, 1.0
    of_both = weight * z
    return float(weight.sum()), float(of_both.sum()), float(of_both @ z)


def _step(left: Floats, weight: Floats, z: Floats | None) -> Pair:
    """Newton's; a hair is added where records tell next to nothing, so that it stays finite."""
    a, b, c = _information(weight, z)
    a, c = a + 1e-12, c + 1e-12
    of_level, of_slope = float(left.sum()), 0.0 if z is None else float(left @ z)
    parts = a * c - b * b
    return (c * of_level - b * of_slope) / parts, (a * of_slope - b * of_level) / parts


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
