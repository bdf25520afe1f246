"""p of p-values: what holds under the null, and what a broken test gives."""

import numpy as np
import pytest
from scipy import stats

from ecgbench.stats.uniform import mean_interval, off, uniform_p


def test_it_is_the_test_of_kolmogorov_and_smirnov() -> None:
    p = np.random.default_rng(0).uniform(size=20)
    assert uniform_p([*p, np.nan]) == pytest.approx(stats.ks_1samp(p, stats.uniform.cdf).pvalue)
    assert uniform_p(p**4) < 0.01
    assert np.isnan(uniform_p([0.5, np.nan]))


def test_means_and_their_errors_are_those_of_scipy() -> None:
    x = np.random.default_rng(1).normal(0.5, 0.03, 20)
    mean, low, high, se = mean_interval(x)
    theirs = stats.ttest_1samp(x, 0.5)
    interval = theirs.confidence_interval(0.95)
    assert (low, high) == pytest.approx((interval.low, interval.high))
    assert off(mean, 0.5, se, 19) == pytest.approx(theirs.pvalue)
    assert np.isnan(off(0.6, 0.5, 0.0, 19))
    assert np.isnan(mean_interval([0.5])[1])
