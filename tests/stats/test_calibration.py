"""Calibration against scikit-learn and a sandwich spelled out; bins against a slow count."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from ecgbench.stats.calibration import intercept, ordered_perfectly, reliability, slope
from ecgbench.stats.clustered import Patients


def records(seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """target, probability (true slope 0.5, intercept not 0) and patients of two records each."""
    draw = np.random.default_rng(seed)
    x = draw.normal(-1, 1.5, n)
    return draw.random(n) < expit(x), expit(2 * x + 0.7), np.arange(n) // 2


@pytest.mark.parametrize("seed", range(3))
def test_slope_and_intercept_are_those_of_a_logistic_regression(seed: int) -> None:
    target, p, whose = records(seed)
    patients = Patients.of(whose)
    fitted = LogisticRegression(C=1e12, tol=1e-12, max_iter=1000).fit(logit(p)[:, None], target)
    made = slope(target, p, patients)
    assert made.value == pytest.approx(fitted.coef_[0, 0], abs=1e-5)
    level = brentq(lambda a: (target - expit(a + logit(p))).sum(), -5, 5)
    assert intercept(target, p, patients).value == pytest.approx(level, abs=1e-9)
    # the sandwich, record by record
    x = np.stack([np.ones_like(p), logit(p)], axis=1)
    q = expit(fitted.intercept_[0] + made.value * x[:, 1])
    bread = np.linalg.inv((x.T * (q * (1 - q))) @ x)
    errors = np.array([((target - q)[whose == g] @ x[whose == g]) for g in range(150)])
    smaller = min(len(set(whose[target])), len(set(whose[~target])))
    variance = (bread @ errors.T @ errors @ bread)[1, 1] * smaller / (smaller - 1)
    assert made.variance == pytest.approx(variance, rel=1e-4)
    low, high = made.interval()
    assert low < 0.5 < high


@pytest.mark.parametrize("p", [[0.1, 0.2, 0.8, 0.9], [0.9, 0.8, 0.2, 0.1], [0.5] * 4])
def test_no_slope_is_given_where_none_is_the_best(p: list[float]) -> None:
    target = np.array([False, False, True, True])
    assert ordered_perfectly(target, np.array(p))
    assert np.isnan([*slope(target, p, Patients.of(list("abcd"))).interval()]).all()
    assert np.isfinite(intercept(target, p, Patients.of(list("abcd"))).value)


def test_certain_probabilities_give_numbers() -> None:
    target = np.array([True, False, True, False, True, False])
    made = slope(target, [1.0, 0.0, 0.0, 1.0, 0.7, 0.4], Patients.of(list("abcdef")))
    assert np.isfinite([made.value, *made.interval()]).all()


def test_bins_have_equal_mass_and_records_with_one_probability_stay_together() -> None:
    draw = np.random.default_rng(3)
    p = draw.random(500).round(2)
    target = draw.random(500) < p
    made = reliability(target, p)
    assert made.count.sum() == 500
    assert made.count.min() > 30
    for value in np.unique(p):
        assert len(set(made.of_record[p == value])) == 1
    slow = [
        abs(target[made.of_record == b].mean() - p[made.of_record == b].mean()) * n / 500
        for b, n in enumerate(made.count)
    ]
    assert made.ece == pytest.approx(sum(slow))
    order = draw.permutation(500)
    assert reliability(target[order], p[order]).ece == pytest.approx(made.ece)
    assert len(reliability(target, np.full(500, 0.3)).count) == 1


def test_the_ece_of_right_probabilities_is_what_chance_gives_and_not_zero() -> None:
    draw = np.random.default_rng(4)
    found, expected = [], []
    for _ in range(300):
        p = expit(draw.normal(-1, 1, 200))
        made = reliability(draw.random(200) < p, p)
        found.append(made.ece)
        expected.append(made.ece_by_chance)
    assert np.mean(found) > 0.05
    assert np.mean(found) == pytest.approx(np.mean(expected), rel=0.05)


def test_labels_side_by_side_have_the_numbers_that_each_has_alone() -> None:
    """Easy ones, one that nothing tells apart, one that is ordered perfectly, and one of which the
    first steps lead astray.
    """
    draw = np.random.default_rng(5)
    known = [records(seed, 4000) for seed in range(20)]
    target, p = (np.stack([one[k] for one in known]) for k in (0, 1))
    patients = Patients.of(known[0][2])
    p[3] = 0.5
    p[4] = np.where(target[4], 0.9, 0.1)
    p[5] = np.where(draw.random(4000) < 0.999, 1 - 1e-9, 1e-9)
    target[5] = draw.random(4000) < 0.003
    p[5, np.flatnonzero(target[5])[:2]] = 1e-9
    for function in (slope, intercept):
        together = function(target, p, patients)
        assert together.parts.shape == (20, 2000)
        for k in range(20):
            alone = function(target[k], p[k], patients)
            assert np.array_equal(alone.value, together.value[k], equal_nan=True)
            assert np.array_equal(alone.parts, together.parts[k], equal_nan=True)
            assert together.interval().low[k] == alone.interval().low or k in (3, 4)
    level = brentq(
        lambda a: (target[5] - expit(a + logit(np.clip(p[5], 1e-7, 1 - 1e-7)))).sum(), -50, 9
    )
    assert intercept(target, p, patients).value[5] == pytest.approx(level, abs=1e-8)
    bins = reliability(target, p)
    assert bins.ece[7] == reliability(target[7], p[7]).ece
    assert bins.count[3].tolist() == [4000, *[0] * 9]
