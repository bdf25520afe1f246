"""Checks of p-values and estimates where the truth is known."""

import numpy as np
from numpy.typing import ArrayLike


def uniform_p(p: ArrayLike) -> float:
    """p of the Kolmogorov-Smirnov test of p-values (n,) against the uniform distribution; NaN for
    fewer than two values. Values that are NaN are ignored.
    """
    from scipy.stats import kstest

    values = np.asarray(p, dtype=np.float64)
    values = values[np.isfinite(values)]
    return float(kstest(values, "uniform").pvalue) if len(values) > 1 else float("nan")


def off(value: float, expected: float, se: float, df: float) -> float:
    """Two-sided p of an estimate against its expected value (Student's t); NaN unless `se` > 0."""
    from scipy.stats import t

    if not (se > 0 and df > 0):
        return float("nan")
    return float(2 * t.sf(abs(value - expected) / se, df))


def mean_interval(values: ArrayLike) -> tuple[float, float, float, float]:
    """(mean, low, high, standard error) of independent values (n,), 95 %, Student's t; bounds and
    error are NaN for fewer than two values.
    """
    from scipy.stats import t

    x = np.asarray(values, dtype=np.float64)
    if len(x) < 2:
        return (float(x.mean()), *(float("nan"),) * 3)
    mean, se = float(x.mean()), float(x.std(ddof=1) / np.sqrt(len(x)))
    reach = float(t.ppf(0.975, len(x) - 1)) * se
    return mean, mean - reach, mean + reach, se
