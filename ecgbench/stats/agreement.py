"""How well two measurements of the same patients agree: a score twice, and a decision twice."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Agreement(NamedTuple):
    """A coefficient and its 95 % interval over draws of patients; NaN where there is none."""

    value: float
    low: float
    high: float


def icc(first: ArrayLike, second: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """(draw,) ICC(2,1), two-way random effects, absolute agreement of single measurements (Shrout
    and Fleiss 1979, doi:10.1037/0033-2909.86.2.420), of (record,) scores under weights (draw,
    record), whole numbers; one draw of all records if left out. NaN where nothing differs.
    """
    x = np.stack([np.asarray(first, float), np.asarray(second, float)], axis=1)
    w = np.ones((1, len(x))) if weights is None else np.asarray(weights, float)
    n = w.sum(axis=1)
    rows = x.mean(axis=1)
    columns = (w @ x) / n[:, None]
    grand = columns.mean(axis=1)
    between = 2 * (w @ rows**2 - n * grand**2) / (n - 1)
    judges = n * ((columns - grand[:, None]) ** 2).sum(axis=1)
    total = w @ (x**2).sum(axis=1) - 2 * n * grand**2
    rest = (total - between * (n - 1) - judges) / (n - 1)
    below = between + rest + 2 * (judges - rest) / n
    return np.asarray(
        np.divide(between - rest, below, out=np.full(len(n), np.nan), where=below > 1e-15)
    )


def kappa(first: ArrayLike, second: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """(draw,) Cohen's kappa (1960, doi:10.1177/001316446002000104) of (record,) decisions under
    weights (draw, record); NaN where all decisions are alike.
    """
    a, b = np.asarray(first, bool), np.asarray(second, bool)
    w = np.ones((1, len(a))) if weights is None else np.asarray(weights, float)
    n = w.sum(axis=1)
    same, yes, other = (w @ one.astype(float) / n for one in (a == b, a, b))
    chance = yes * other + (1 - yes) * (1 - other)
    left = 1 - chance
    return np.asarray(
        np.divide(same - chance, left, out=np.full(len(n), np.nan), where=left > 1e-15)
    )
