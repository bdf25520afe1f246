"""Whether probabilities are right: slope and intercept, bins of equal mass, and the
expected calibration error (ECE).

Slope b: of the logistic regression logit P(y = 1) = a + b logit(p) (Cox 1958,
doi:10.1093/biomet/45.3-4.562). 1 is right; below 1 the probabilities are too extreme. Intercept: a
where b is held at 1. 0 is right; below 0 the probabilities are too high as a whole (Van Calster et
al. 2019, doi:10.1186/s12916-019-1466-7). Intervals are those of a regression with records of a
patient taken together (the sandwich).

Many labels are fitted together: every shape may begin with axes of labels, written `...`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ecgbench.stats.clustered import Bools, Floats, Influence, Ints, Patients, smaller_class

EDGE = 1e-7
"""A probability below it, or above 1 - it, is taken as it: logit(0) is no number."""
BINS = 10
_STEPS = 100
_SMALL = 1e-10
_NEAR = 1e-6
"""After a step below it what is left is below `_SMALL`: Newton's steps square."""
_QUICK = 20
"""Steps that are not halved. Nearly all labels need fewer than ten."""
_AT_ONCE = 2**15
"""Records times labels that are fitted at once: they stay in the processor's cache."""


def squared_error(target: ArrayLike, probability: ArrayLike) -> Floats:
    """Of each probability, any shape; its mean is the Brier score (Brier 1950)."""
    return np.asarray(np.square(np.asarray(probability) - np.asarray(target)), np.float64)


def logits(probability: ArrayLike) -> Floats:
    """Log odds of probabilities, which stay `EDGE` away from 0 and 1."""
    p = np.clip(np.asarray(probability, dtype=np.float64), EDGE, 1 - EDGE)
    return np.asarray(np.log(p / (1 - p)))


def ordered_perfectly(target: Bools, score: Floats) -> Bools:
    """(...) whether a threshold parts the classes of (..., record), so that no slope is the best
    one.

    >>> bool(ordered_perfectly(np.array([False, True]), np.array([0.2, 0.9])))
    True
    """
    lowest = [np.where(own, score, np.inf).min(axis=-1) for own in (target, ~target)]
    highest = [np.where(own, score, -np.inf).max(axis=-1) for own in (target, ~target)]
    return np.asarray((lowest[0] >= highest[1]) | (highest[0] <= lowest[1]))


def slope(target: Bools, probability: ArrayLike, patients: Patients) -> Influence:
    """Calibration slope of `target` and `probability` (..., record), with records of both classes;
    NaN where a threshold separates them.
    """
    return _by_block(_slope, target, probability, patients)


def intercept(target: Bools, probability: ArrayLike, patients: Patients) -> Influence:
    """Calibration intercept, the slope held at 1; shapes as `slope`."""
    return _by_block(_intercept, target, probability, patients)


_Fit = Callable[[Bools, Floats, Patients], tuple[Floats, Floats]]
"""Values (label,) and parts (label, patient) of target and logits (label, record)."""


def _by_block(fit: _Fit, target: Bools, probability: ArrayLike, patients: Patients) -> Influence:
    shape, n = target.shape[:-1], target.shape[-1]
    y, x = target.reshape(-1, n), logits(probability).reshape(-1, n)
    value, parts = np.empty(len(y)), np.empty((len(y), patients.count))
    step = max(1, _AT_ONCE // max(n, 1))
    for start in range(0, len(y), step):
        own = slice(start, start + step)
        value[own], parts[own] = fit(y[own], x[own], patients)
    return Influence(
        value=value.reshape(shape),
        parts=parts.reshape(*shape, patients.count),
        units=smaller_class(target, patients),
        growth=patients.growth,
    )


def _slope(target: Bools, x: Floats, patients: Patients) -> tuple[Floats, Floats]:
    value, parts = np.full(len(x), np.nan), np.full((len(x), patients.count), np.nan)
    fits = ~ordered_perfectly(target, x)
    target, x = target[fits], x[fits]
    middle, spread = x.mean(axis=-1, keepdims=True), x.std(axis=-1, keepdims=True)
    z = (x - middle) / spread
    begin = np.stack([middle[:, 0], spread[:, 0]])
    theta, residual, bread = _fitted(target, z, None, begin)
    moved = patients.sums(bread[0][:, None] * residual + bread[1][:, None] * (residual * z))
    value[fits], parts[fits] = theta[1] / spread[:, 0], moved / spread
    return value, parts


def _intercept(target: Bools, x: Floats, patients: Patients) -> tuple[Floats, Floats]:
    theta, residual, bread = _fitted(target, None, x, np.zeros((2, len(x))))
    return theta[0], patients.sums(bread[0][:, None] * residual)


def _fitted(
    target: Bools, z: Floats | None, fixed: Floats | None, begin: Floats
) -> tuple[Floats, Floats, Floats]:
    """Level and slope of logistic regressions on `z` (label, record), or the level alone, beside
    what is `fixed` (label, record), by Newton's method from `begin` (2, label). Where that leads
    astray, by Newton's method with halved steps, which always ends where the classes overlap.

    Returns them (2, label), the residuals (label, record), and the last row of the inverse
    information (2, label): how errors of the level and of the slope move the last of the two. Each
    label has steps of its own, and its numbers do not depend on those beside it.
    """
    wanted = target.astype(np.float64)
    found, active = np.empty_like(begin), np.arange(len(wanted))
    quick = _State.advance, _QUICK, begin
    for way, steps, start in (quick, (_State.advance_surely, _STEPS, np.zeros_like(begin))):
        state = _State(start[:, active], wanted[active], *_of(active, z, fixed))
        for _ in range(steps):
            if not len(active):
                break
            size = way(state)
            found[:, active] = state.theta
            if not (on := ~(size < _NEAR)).all():
                active, state = active[on], state.only(on)
    p = _sigmoid(_eta(found, z, fixed))
    a, b, c = _information(p * (1 - p), z)
    if z is None:
        return found, wanted - p, np.stack([1 / a, np.zeros_like(a)])
    return found, wanted - p, np.stack([-b, a]) / (a * c - b * b)


def _of(which: Any, z: Floats | None, fixed: Floats | None) -> Iterator[Floats | None]:
    return (None if of is None else of[which] for of in (z, fixed))


@dataclass(eq=False)
class _State:
    """Where Newton's method stands with the labels that are left; arrays (label, record), but
    `theta` (2, label).
    """

    theta: Floats
    wanted: Floats
    z: Floats | None
    fixed: Floats | None

    def only(self, on: Bools) -> "_State":
        """Some of the labels."""
        return _State(self.theta[:, on], self.wanted[on], *_of(on, self.z, self.fixed))

    def advance(self) -> Floats:
        """One step; (label,) how far it led."""
        step = self._step()
        self.theta = self.theta + step
        return np.asarray(np.abs(step).max(axis=0))

    def advance_surely(self) -> Floats:
        """One step that is halved until it leads down; (label,) how far it led."""
        step = self._step()
        now, active = (
            self._loss(np.arange(len(self.wanted)), self.theta),
            np.arange(len(self.wanted)),
        )
        while len(active):
            new = self._loss(active, self.theta[:, active] + step[:, active])
            worse = (new > now[active] + _SMALL) & (np.abs(step[:, active]).max(axis=0) > _SMALL)
            active = active[worse]
            step[:, active] /= 2
        self.theta = self.theta + step
        return np.asarray(np.abs(step).max(axis=0))

    def _step(self) -> Floats:
        """(2, label) Newton's; a hair is added where records tell next to nothing, so that it stays
        finite.
        """
        p = _sigmoid(_eta(self.theta, self.z, self.fixed))
        residual, weight = self.wanted - p, p * (1 - p)
        a, b, c = _information(weight, self.z)
        a, c = a + 1e-12, c + 1e-12
        of_level = residual.sum(axis=-1)
        of_slope = 0.0 if self.z is None else np.einsum("lr,lr->l", residual, self.z)
        parts = a * c - b * b
        return np.stack([c * of_level - b * of_slope, a * of_slope - b * of_level]) / parts

    def _loss(self, labels: Ints, theta: Floats) -> Floats:
        """(label,)."""
        eta = _eta(theta, *_of(labels, self.z, self.fixed))
        made = np.logaddexp(0, eta) - self.wanted[labels] * eta
        return np.asarray(made.sum(axis=-1))


def _eta(theta: Floats, z: Floats | None, fixed: Floats | None) -> Floats:
    """(label, record) what theta (2, label) predicts, as log odds."""
    eta = theta[0][:, None] if z is None else theta[0][:, None] + theta[1][:, None] * z
    return np.asarray(eta if fixed is None else eta + fixed)


def _sigmoid(eta: Floats) -> Floats:
    """A quarter of the time of scipy's expit; what overflows is 0."""
    with np.errstate(over="ignore"):
        made = np.exp(-eta)
    made += 1
    return np.asarray(np.reciprocal(made, out=made))


def _information(weight: Floats, z: Floats | None) -> tuple[Floats, Floats, Floats]:
    """(label,) of the level, of both, and of the slope."""
    level = weight.sum(axis=-1)
    if z is None:
        return level, np.zeros_like(level), np.ones_like(level)
    of_both = weight * z
    return level, of_both.sum(axis=-1), np.einsum("lr,lr->l", of_both, z)


@dataclass(frozen=True, kw_only=True, eq=False)
class Bins:
    """Records by their probability; arrays (..., bin), where a label may have fewer bins than
    another: those hold no record.
    """

    of_record: Ints
    """(..., record) which bin it is in."""
    probability: Floats
    """Mean of what was predicted."""
    observed: Floats
    """Share that has the label."""
    count: Ints
    by_chance: Floats
    """By how much `observed` would be off on average if every probability were right."""

    @property
    def ece(self) -> Floats:
        """(...) mean over the records of how far the observed share of their bin is from the
        probability.
        """
        return self._mean(np.abs(self.observed - self.probability))

    @property
    def ece_by_chance(self) -> Floats:
        """(...) what it would be on average if every probability were right: it is never 0, and
        larger the fewer records there are. Records are taken as independent.
        """
        return self._mean(self.by_chance)

    def _mean(self, values: Floats) -> Floats:
        return np.asarray((values * self.count).sum(axis=-1) / self.count.sum(axis=-1))


def reliability(target: Bools, probability: ArrayLike, bins: int = BINS) -> Bins:
    """Bins of equal mass of `target` and `probability` (..., record). Records with the same
    probability stay together, so that there may be fewer bins.
    """
    probability = np.asarray(probability, dtype=np.float64)
    shape, n = probability.shape[:-1], probability.shape[-1]
    p, y = probability.reshape(-1, n), target.reshape(-1, n)
    order = np.argsort(p, axis=-1)
    ranked = np.take_along_axis(p, order, axis=-1)
    # how many are below each: those of one probability count from the first of them
    new = np.diff(ranked, axis=-1, prepend=-np.inf) > 0
    below = np.maximum.accumulate(np.where(new, np.arange(n), 0), axis=-1)
    bin_of = np.empty(p.shape, np.intp)
    ranks = np.cumsum(np.diff(bins * below // n, axis=-1, prepend=0) > 0, axis=-1)
    np.put_along_axis(bin_of, order, ranks, axis=-1)
    most = int(bin_of.max()) + 1
    flat = (bin_of + most * np.arange(len(p))[:, None]).ravel()

    def sums(values: ArrayLike) -> Floats:
        made = np.bincount(flat, np.ravel(values), len(p) * most)
        return np.asarray(made.reshape(*shape, most), np.float64)

    count = np.bincount(flat, minlength=len(p) * most).reshape(*shape, most)
    some = np.maximum(count, 1)
    return Bins(
        of_record=bin_of.reshape(*shape, n),
        probability=sums(p) / some,
        observed=sums(y) / some,
        count=count,
        by_chance=np.sqrt(2 / np.pi * sums(p * (1 - p))) / some,
    )
