"""ICC(2,1) and kappa beside other ways to compute them."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from ecgbench.stats.agreement import icc, kappa


def by_sums_of_squares(x: np.ndarray) -> float:
    """Shrout and Fleiss' table of a two-way analysis of variance, term by term."""
    n, k = x.shape
    grand = x.mean()
    rows = k * sum((row.mean() - grand) ** 2 for row in x) / (n - 1)
    columns = n * sum((column.mean() - grand) ** 2 for column in x.T) / (k - 1)
    rest = sum(
        (x[i, j] - x[i].mean() - x[:, j].mean() + grand) ** 2 for i in range(n) for j in range(k)
    ) / ((n - 1) * (k - 1))
    return float((rows - rest) / (rows + (k - 1) * rest + k * (columns - rest) / n))


@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_icc(shift: float) -> None:
    random = np.random.default_rng(0)
    true = random.standard_normal(40)
    x = true[:, None] + 0.5 * random.standard_normal((40, 2)) + [0, shift]
    assert icc(*x.T)[0] == pytest.approx(by_sums_of_squares(x), abs=1e-12)
    counts = random.multinomial(40, np.full(40, 1 / 40), 3)
    repeated = [by_sums_of_squares(np.repeat(x, one, axis=0)) for one in counts]
    np.testing.assert_allclose(icc(*x.T, counts), repeated, atol=1e-12)
    assert icc(true, true)[0] == pytest.approx(1)
    assert np.isnan(icc(np.ones(5), np.ones(5))[0])


def test_kappa() -> None:
    random = np.random.default_rng(1)
    a = random.random(50) < 0.3
    b = np.where(random.random(50) < 0.8, a, ~a)
    assert kappa(a, b)[0] == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)
    counts = random.multinomial(50, np.full(50, 0.02), 3)
    repeated = [cohen_kappa_score(np.repeat(a, n), np.repeat(b, n)) for n in counts]
    np.testing.assert_allclose(kappa(a, b, counts), repeated, atol=1e-12)
    assert np.isnan(kappa(np.zeros(4), np.zeros(4))[0])
