"""Comparisons with the best: how often the best is named, and hand-worked bounds."""

import numpy as np
import pytest

from ecgbench.stats.best import upper_bounds


def bounds(values: np.ndarray, sd: float, random: np.random.Generator) -> np.ndarray:
    """Of independent estimates with one standard deviation."""
    n = len(values)
    errors = random.standard_normal((1000, n))
    apart = (errors[:, :, None] - errors[:, None, :]) / np.sqrt(2)
    return upper_bounds(values, np.full((n, n), sd * np.sqrt(2)), apart)


def test_the_best_is_among_those_named_as_often_as_stated() -> None:
    random, named, alone = np.random.default_rng(0), 0, 0
    true = np.array([0.3, 0.0, 0.0, 0.0, 0.0])
    for _ in range(600):
        found = bounds(true + 0.15 * random.standard_normal(5), 0.15, random)
        named += found[0] > 0
        alone += (found > 0).sum()
    assert named / 600 > 0.93
    # of five equal ones, each is the best
    equal = [bounds(0.15 * random.standard_normal(5), 0.15, random)[0] > 0 for _ in range(600)]
    assert np.mean(equal) == pytest.approx(0.95, abs=0.03)
    assert alone / 600 < 4.5


def test_two_models_by_hand() -> None:
    z = np.random.default_rng(0).standard_normal(200_000)
    apart = np.zeros((len(z), 2, 2))
    apart[:, 0, 1], apart[:, 1, 0] = z, -z
    found = upper_bounds([0.8, 0.7], np.full((2, 2), 0.05), apart)
    assert found == pytest.approx([0.1 + 1.645 * 0.05, -0.1 + 1.645 * 0.05], abs=1e-3)


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="of 2 models"):
        upper_bounds([1, 2], np.ones((3, 3)), np.ones((5, 2, 2)))
