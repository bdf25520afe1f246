"""Logistic regression of many labels at once: L2-penalised, intercept not penalised, in float64.

For each label, over its coefficients c (dim,) and intercept b,

    1/W sum_i w_i log(1 + exp(-s_i (x_i c + b))) + penalty/2 |c|^2,   W = sum_i w_i, s_i = +-1,

a strictly convex function of c, so what is found is *the* fit, whichever way it was found. It is
minimised by L-BFGS (Liu and Nocedal 1989, doi:10.1007/BF01589116) for all labels side by side: each
label has its own steps and memory, and only the products with the rows, which take nearly all the
time, are shared.

Neither the function nor the length of its gradient changes when the features are rotated. They are
rotated once onto the principal axes of the rows (of which there are no more than rows), where the
matrix of second derivatives is close to its diagonal; from that diagonal L-BFGS starts.

A row of which a label is not known (-1) has no part in that label's sum; a row that knows no label
has no part at all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecgbench.stats.known import UNKNOWN, two_valued

Floats = NDArray[np.float64]

TOLERANCE = 1e-6
"""Length of the gradient of a label's function, intercept included, below which it is fitted."""
STEPS = 2000
"""L-BFGS steps after which a fit is given up and said not to have converged."""
MEMORY = 10
"""Steps that L-BFGS remembers."""
SEARCHES = 60
"""Step sizes that are tried along one direction, at most."""
BLOCK = 4096
"""Rows that are converted at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Standard:
    """Mean and standard deviation of features, of some rows alone."""

    mean: Floats
    """(dim,)."""
    scale: Floats
    """(dim,) above 0: the standard deviation, 1 where a feature is constant."""
    constant: NDArray[np.bool_]
    """(dim,) features that do not vary; they get the coefficient 0."""

    @classmethod
    def of(cls, features: ArrayLike, weight: ArrayLike) -> "Standard":
        """Of rows (n, dim) that weigh `weight` (n,).

        A feature that varies by less than float32 can tell from its mean is constant.
        """
        x, w = np.asarray(features), np.asarray(weight, np.float64)
        share = w / w.sum()
        mean = np.sum([share[b] @ x[b].astype(np.float64) for b in _blocks(len(x))], axis=0)
        squares = [share[b] @ (x[b] - mean) ** 2 for b in _blocks(len(x))]
        deviation = np.sqrt(np.sum(squares, axis=0))
        constant = deviation <= np.finfo(np.float32).eps * np.abs(mean)
        return cls(mean=mean, scale=np.where(constant, 1.0, deviation), constant=constant)

    def __call__(self, features: NDArray[np.floating]) -> Floats:
        """Rows (n, dim) with mean 0 and standard deviation 1; 0 where a feature is constant."""
        return np.where(self.constant, 0.0, (features - self.mean) / self.scale)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """The fit of every label at one penalty, for features as they came."""

    penalty: float
    weight: Floats
    """(label, dim)."""
    bias: Floats
    """(label,)."""
    gradient: float
    """The longest gradient of a label."""
    steps: int
    """L-BFGS steps of the label that took most."""
    missed: tuple[int, ...]
    """Labels whose gradient did not fall below the tolerance."""


def path(
    features: NDArray[np.floating],
    target: ArrayLike,
    weight: ArrayLike,
    penalties: ArrayLike,
    tolerance: float = TOLERANCE,
) -> Iterator[Fitted]:
    """The fit of each of `penalties`, in their order; each starts where the two before it point, so
    that they are best ordered from strong to weak in even steps of their logarithm.

    features (n, dim), standardised here; target (n, label) of 0 and 1, -1 where a label is not
    known of a row; weight (n,) above 0.

    A label without both values has no fit: its coefficients are 0 and its intercept gives the rate
    (positives + 1/2) / (W + 1) (Jeffreys' prior), which is never 0 or 1, of the rows that know it.

    ValueError where a penalty is not above 0, or the shapes do not agree.
    """
    y, w = np.asarray(target, np.float64), np.asarray(weight, np.float64)
    strengths = [float(p) for p in np.asarray(penalties).ravel()]
    if not all(0 < p < np.inf for p in strengths):
        raise ValueError(f"penalties {strengths} must be above 0")
    if y.ndim != 2 or len(features) != len(y) or w.shape != (len(y),) or not (w > 0).all():
        raise ValueError(
            f"features {features.shape}, target {y.shape} and weights {w.shape} must be of the "
            f"same rows, weights above 0"
        )
    known = y != UNKNOWN
    if not known.all():
        some = known.any(axis=1) | (not known.any())
        features, y, w, known = features[some], y[some], w[some], known[some]
    standard = Standard.of(features, w)
    rows = _Rows.of(standard, features, w)
    both, y, whole, share = two_valued(y), np.maximum(y, 0), w.sum(), rows.share
    if not known.all():
        whole = w @ known
        share = w[:, None] * known / np.maximum(whole, np.finfo(np.float64).tiny)
    rate = (w @ y + 0.5) / (whole + 1)
    theta = np.zeros((rows.x.shape[1], y.shape[1]))
    theta[-1] = np.log(rate / (1 - rate))
    before: list[Floats] = []
    for penalty in strengths:
        # in even steps of log penalty coefficients go on nearly as they went
        start = theta[:, both] if len(before) < 2 else 2 * before[-1] - before[-2]
        found = _minimise(rows, (y[:, both], _of(share, both)), start, penalty, tolerance)
        theta[:, both] = found.theta
        before = [*before[-1:], found.theta]
        inner = (rows.axes @ theta[:-1]) / standard.scale[:, None]
        inner[standard.constant] = 0
        yield Fitted(
            penalty=penalty,
            weight=np.ascontiguousarray(inner.T),
            bias=theta[-1] - standard.mean @ inner,
            gradient=float(found.norm.max(initial=0.0)),
            steps=int(found.steps.max(initial=0)),
            missed=tuple(int(i) for i in np.flatnonzero(both)[found.norm >= tolerance]),
        )


def losses(target: ArrayLike, logits: ArrayLike) -> Floats:
    """Log-loss of each row and label, 0 where the label is not known (-1); `target` and `logits` of
    the same shape.

    >>> losses([[1, 0]], [[0.0, 0.0]]).round(4).tolist()
    [[0.6931, 0.6931]]
    """
    z = np.asarray(logits, np.float64)
    y = np.asarray(target)
    return np.where(y == UNKNOWN, 0.0, np.logaddexp(0, np.where(y == 1, -z, z)))


def _of(share: Floats, labels: NDArray[np.bool_]) -> Floats:
    """The weights of some labels; one column serves all where every label is known."""
    return share if share.shape[1] == 1 else np.ascontiguousarray(share[:, labels])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """Standardised rows on their principal axes."""

    x: Floats
    """(n, axis + 1), the last column 1 for the intercept."""
    share: Floats
    """(n, 1) weights that sum to 1."""
    axes: Floats
    """(dim, axis), orthonormal."""

    @classmethod
    def of(cls, standard: Standard, features: NDArray[np.floating], weight: Floats) -> "_Rows":
        n, dim = features.shape
        share = (weight / weight.sum())[:, None]
        if n < dim:
            # the fit lies in the span of the rows
            axes = np.linalg.svd(np.sqrt(share) * standard(features), full_matrices=False)[2].T
        else:
            spread = np.zeros((dim, dim))
            for b in _blocks(n):
                part = np.sqrt(share[b]) * standard(features[b])
                spread += part.T @ part
            axes = np.linalg.eigh(spread)[1]
        x = np.ones((n, axes.shape[1] + 1))
        for b in _blocks(n):
            x[b, :-1] = standard(features[b]) @ axes
        return cls(x=x, share=share, axes=axes)

    def times(self, theta: Floats) -> Floats:
        """(n, label) of (axis + 1, label)."""
        return self.x @ theta

    def slope(self, p: Floats, y: Floats, share: Floats) -> Floats:
        """(axis + 1, label) gradient of the mean loss; `share`: weights, (n, 1) or (n, label)."""
        return self.x.T @ (share * (p - y))

    def diagonal(self, probability: Floats, share: Floats) -> Floats:
        """(axis + 1, label) diagonal of the second derivatives of the mean loss."""
        total = np.zeros((self.x.shape[1], probability.shape[1]))
        for b in _blocks(len(self.x)):
            p = probability[b]
            total += (self.x[b] ** 2).T @ (share[b] * p * (1 - p))
        return total


@dataclass(frozen=True, eq=False)
class _Found:
    theta: Floats
    norm: Floats
    steps: NDArray[np.int64]


def _minimise(
    rows: _Rows, known: tuple[Floats, Floats], start: Floats, penalty: float, tolerance: float
) -> _Found:
    """L-BFGS from `start` (axis + 1, label); labels that are done leave the products.

    known: (n, label) of 0 and 1, and the rows' weights, (n, 1) or (n, label).
    """
    y, share = known
    best, norms = start.copy(), np.full(y.shape[1], np.inf)
    taken, labels = np.zeros(y.shape[1], np.int64), np.arange(y.shape[1])
    ridge = np.full((len(start), 1), penalty)
    ridge[-1] = 0
    if not len(labels):
        return _Found(best, norms, taken)
    state = _State.at(rows, y, share, start, ridge)
    for step in range(STEPS + 1):
        norm = np.sqrt((state.gradient**2).sum(axis=0))
        better = norm < norms[labels]
        at = labels[better]
        best[:, at], norms[at], taken[at] = state.theta[:, better], norm[better], step
        open_ = norms[labels] >= tolerance
        if not open_.any() or step == STEPS:
            break
        if open_.mean() <= 0.9:
            state.keep(open_)
            labels = labels[open_]
        if not state.advance(rows, ridge):
            break
    return _Found(best, norms, taken)


@dataclass(eq=False)
class _State:
    """Where L-BFGS stands with the labels that are left; each column is one of them."""

    y: Floats
    share: Floats
    """Weights of the rows: one column for all labels, or one for each."""
    theta: Floats
    logits: Floats
    probability: Floats
    gradient: Floats
    start: Floats
    """Inverse of the diagonal of the second derivatives."""
    memory: list[tuple[Floats, Floats, Floats]]
    """(change of theta, change of gradient, 1 / their product or 0), the latest last."""

    @classmethod
    def at(cls, rows: _Rows, y: Floats, share: Floats, theta: Floats, ridge: Floats) -> "_State":
        logits = rows.times(theta)
        p = _sigmoid(logits)
        gradient = rows.slope(p, y, share) + ridge * theta
        # an axis without variation is no direction; its penalty keeps it above 0
        curvature = rows.diagonal(p, share) + ridge
        start = 1 / np.maximum(curvature, 1e-12 * curvature.max(axis=0))
        return cls(y, share, theta, logits, p, gradient, start, [])

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Go on with some of the labels."""
        for name in ("y", "theta", "logits", "probability", "gradient", "start"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name)[:, which]))
        self.share = _of(self.share, which)
        self.memory = [(s[:, which], g[:, which], r[which]) for s, g, r in self.memory]

    def advance(self, rows: _Rows, ridge: Floats) -> bool:
        """One step of every label; False where none can take one."""
        direction = -self._times_inverse(self.gradient)
        slope = (direction * self.gradient).sum(axis=0)
        if not (slope < 0).any():
            return False
        in_logits = rows.times(direction)
        bend = (ridge * direction**2).sum(axis=0)
        pull = (ridge * direction * self.theta).sum(axis=0)
        weighted = self.share * in_logits

        def slope_at(size: Floats) -> tuple[Floats, Floats, Floats]:
            p = _sigmoid(self.logits + size * in_logits)
            first = np.einsum("nk,nk->k", weighted, p - self.y) + pull + size * bend
            p_there = p * (1 - p)
            p_there *= in_logits
            return p, first, np.einsum("nk,nk->k", weighted, p_there) + bend

        size, p = _line_search(slope_at, np.where(slope < 0, slope, 0.0))
        self.logits += size * in_logits
        moved = size * direction
        self.theta = self.theta + moved
        gradient = rows.slope(p, self.y, self.share) + ridge * self.theta
        change = gradient - self.gradient
        product = (moved * change).sum(axis=0)
        sound = product > 1e-14 * np.sqrt((moved**2).sum(axis=0) * (change**2).sum(axis=0))
        inverse = np.where(sound, 1 / np.where(sound, product, 1), 0.0)
        self.memory = [*self.memory[-MEMORY + 1 :], (moved, change, inverse)]
        self.gradient, self.probability = gradient, p
        return True

    def _times_inverse(self, vector: Floats) -> Floats:
        """The two loops of L-BFGS (Nocedal and Wright, Numerical Optimization, algorithm 7.4)."""
        q, shares = vector.copy(), []
        for moved, change, inverse in reversed(self.memory):
            shares.append(inverse * (moved * q).sum(axis=0))
            q -= shares[-1] * change
        q *= self.start
        for (moved, change, inverse), share in zip(self.memory, reversed(shares)):
            q += (share - inverse * (change * q).sum(axis=0)) * moved
        return q


def _line_search(
    slope_at: Callable[[Floats], tuple[Floats, Floats, Floats]], slope: Floats
) -> tuple[Floats, Floats]:
    """Step sizes (label,) along which the function falls to where its slope is at most a tenth of
    `slope` upwards or nine tenths downwards; 0 where `slope` is 0. And the probabilities there.

    The slope of a convex function rises, so that it brackets the lowest point.
    """
    size = np.where(slope < 0, 1.0, 0.0)
    low, high = np.zeros_like(size), np.full_like(size, np.inf)
    for tried in range(1, SEARCHES + 1):
        p, first, second = slope_at(size)
        over, under = first > -0.1 * slope, first < 0.9 * slope
        wrong = (over | under) & (slope < 0)
        if not wrong.any() or tried == SEARCHES:
            break
        low, high = np.where(under, size, low), np.where(over, size, high)
        newton = size - first / np.maximum(second, 1e-300)
        middle = np.where(np.isinf(high), 4 * np.maximum(low, size), (low + high) / 2)
        inside = (newton > low) & (newton < np.minimum(high, 10 * np.maximum(low, size)))
        size = np.where(wrong, np.where(inside, newton, middle), size)
    return size, p


def _sigmoid(logits: Floats) -> Floats:
    p = np.tanh(0.5 * logits)
    p += 1
    p *= 0.5
    return p


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK))
