"""Which of several models may be the best: Hsu's multiple comparisons with the best."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
LEVEL = 0.95


def upper_bounds(
    values: ArrayLike, se: ArrayLike, errors: ArrayLike, level: float = LEVEL
) -> Floats:
    """(model,) upper bounds of the difference between each model and the best of the others. A
    model whose bound is 0 or less is not the best. All bounds hold together with probability
    `level` (Hsu 1981, doi:10.1214/aos/1176345533; 1984: unequal variances and correlated
    estimates). ValueError for shapes that do not agree.

    `values` (model,); `se` (model, model) of the differences; `errors` (draw, model, model) joint
    draws of the errors of the differences row less column, in standard errors.
    """
    value, size = np.asarray(values, np.float64), np.asarray(se, np.float64)
    drawn = np.asarray(errors, np.float64)
    n = len(value)
    if size.shape != (n, n) or drawn.shape[1:] != (n, n):
        raise ValueError(f"standard errors {size.shape} and draws {drawn.shape} of {n} models")
    bounds = np.full(n, np.inf)
    for i in range(n):
        others = np.arange(n) != i
        if not others.any():
            continue
        # the one that is the best has all differences at once below its bounds
        critical = np.quantile(drawn[:, others, i].max(axis=1), level)
        bounds[i] = (value[i] - value[others] + critical * size[i, others]).min()
    return bounds
