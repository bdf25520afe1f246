"""Thresholds against scikit-learn's ROC curve, predictive values by Bayes and by counting, and what
intervals hold.
"""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import roc_curve

from ecgbench.stats.clustered import Patients, mean, mean_of_labels, share, wilson
from ecgbench.stats.operating import (
    FROM,
    Predictive,
    Rate,
    Rates,
    crossed,
    halves,
    net_benefit,
    predictive,
    rates,
    threshold,
)


def records(seed: int, n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """target, score with ties, and patients of one to four records."""
    draw = np.random.default_rng(seed)
    target = draw.random(n) < 0.25
    whose = np.repeat(np.arange(n), draw.integers(1, 5, n))[:n]
    return target, (draw.normal(size=n) + 1.5 * target).round(1), whose


def after(made: Rates, prevalence: float) -> Predictive:
    return predictive(*map(Rate.of, made), prevalence)


@pytest.mark.parametrize("seed", range(5))
def test_thresholds_are_the_best_points_of_the_roc_curve(seed: int) -> None:
    target, score, _ = records(seed)
    alarms, found, _ = roc_curve(target, score, drop_intermediate=False)
    flagged = score >= threshold(target, score, "specificity", 0.95)
    assert flagged[~target].mean() <= 0.05
    assert flagged[target].mean() == found[alarms <= 0.05].max()
    flagged = score >= threshold(target, score, "sensitivity", 0.95)
    assert flagged[target].mean() >= 0.95
    assert flagged[~target].mean() == alarms[found >= 0.95].min()


def test_halves_part_patients_and_thresholds_cross() -> None:
    target, score, whose = records(1)
    patients = Patients.of(whose)
    first = halves(target, patients, np.random.default_rng(0))
    assert not set(whose[first]) & set(whose[~first])
    assert abs(target[first].sum() - target[~first].sum()) < 15
    made = crossed(target, score, first, "sensitivity", 0.9)
    flagged, (of_first, of_rest) = made
    assert of_rest == threshold(target[~first], score[~first], "sensitivity", 0.9)
    np.testing.assert_array_equal(flagged[first], score[first] >= of_rest)
    np.testing.assert_array_equal(flagged[~first], score[~first] >= of_first)
    few = target & (np.cumsum(target) < 2 * FROM - 1)
    with pytest.raises(ValueError, match="10 records"):
        crossed(few, score, halves(few, patients, np.random.default_rng(0)), "sensitivity", 0.9)


def test_shares_have_wilson_s_interval_and_clusters_widen_it() -> None:
    hit = np.arange(80) < 68
    every = np.ones(80, bool)
    alone = share(hit, every, Patients.of(np.arange(80)))
    assert alone.variance == pytest.approx(0.85 * 0.15 / 79)
    expected = binomtest(68, 80).proportion_ci(method="wilson")
    assert wilson(0.85, 80, 1.959963985) == pytest.approx((expected.low, expected.high))
    low, high = alone.share_interval()
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.003)
    fours = share(hit, every, Patients.of(np.arange(80) // 4)).share_interval()
    assert fours.high - fours.low > 1.7 * (high - low)
    perfect = share(every, every, Patients.of(np.arange(80))).share_interval()
    assert perfect.high == 1
    assert 0.93 < perfect.low < 0.97


def test_a_mean_over_lead_draws_is_no_surer_than_its_patients() -> None:
    patients, every = Patients.of(np.arange(60)), np.ones(60, bool)
    hits = [np.arange(60) < 45] * 5
    one = share(hits[0], every, patients)
    assert mean([share(h, every, patients) for h in hits]).interval() == one.interval()
    lots = np.stack([np.random.default_rng(k).random(60) < 0.75 for k in range(5)])
    same = mean([share(hit, every, patients) for hit in lots]).share_interval()
    apart = mean_of_labels(share(lots, np.stack([every] * 5), patients)).share_interval()
    assert apart.high - apart.low < 0.6 * (same.high - same.low)  # labels are more than draws


@pytest.mark.parametrize("prevalence", [0.01, 0.1, 0.25])
def test_predictive_values_are_shares_of_a_world_of_that_prevalence(prevalence: float) -> None:
    target, score, whose = records(2)
    made = rates(target, score >= 1, Patients.of(whose))
    given = after(made, prevalence)
    weight = np.where(target, prevalence / target.mean(), (1 - prevalence) / (~target).mean())
    flagged = score >= 1
    assert given.ppv == pytest.approx(weight[flagged & target].sum() / weight[flagged].sum())
    assert given.npv == pytest.approx(weight[~flagged & ~target].sum() / weight[~flagged].sum())
    assert given.ppv_interval.low < given.ppv < given.ppv_interval.high
    assert given.npv_interval.low < given.npv < given.npv_interval.high


def test_predictive_values_without_an_alarm_or_without_a_flag() -> None:
    target, patients = np.arange(100) < 30, Patients.of(np.arange(100))
    perfect = after(rates(target, target, patients), 0.05)
    assert perfect.ppv == perfect.ppv_interval.high == 1
    assert perfect.ppv_interval.low < 0.6  # 70 records without an alarm do not say more
    nobody = after(rates(target, np.zeros(100, bool), patients), 0.05)
    assert np.isnan([nobody.ppv, *nobody.ppv_interval]).all()
    assert nobody.npv == pytest.approx(0.95)
    wrong = after(rates(target, ~target, patients), 0.05)
    assert wrong.ppv == wrong.ppv_interval.low == 0


def test_net_benefit_counts_wrong_flags_by_the_odds() -> None:
    target, score, whose = records(3)
    flagged, patients = score >= 0.5, Patients.of(whose)
    made = net_benefit(target, flagged, patients, 0.2)
    right, wrong = (flagged & target).sum(), (flagged & ~target).sum()
    assert made.value == pytest.approx((right - wrong / 4) / 400)
    low, high = made.interval()
    assert low < made.value < high
    assert np.isnan(net_benefit(target, np.zeros(400, bool), patients, 0.2).interval().low)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Of 20 patients with the label, some with several records."""
    draw, held = np.random.default_rng(7), {"sensitivity": 0, "ppv": 0}
    truth = 0.9, 0.85
    ppv = 0.9 * 0.1 / (0.9 * 0.1 + 0.15 * 0.9)
    for _ in range(400):
        target = np.arange(140) < 20
        flagged = draw.random(140) < np.where(target, truth[0], 1 - truth[1])
        made = rates(target, flagged, Patients.of(np.arange(140)))
        low, high = made.sensitivity.share_interval()
        held["sensitivity"] += low <= truth[0] <= high
        low, high = after(made, 0.1).ppv_interval
        held["ppv"] += low <= ppv <= high
    assert all(0.93 <= count / 400 <= 0.99 for count in held.values()), held


@pytest.mark.parametrize("whose", [np.arange(600), np.arange(600) // 3])
def test_labels_side_by_side_have_the_numbers_that_each_has_alone(whose: np.ndarray) -> None:
    draw, patients = np.random.default_rng(9), Patients.of(whose)
    target = draw.random((6, 600)) < draw.uniform(0.1, 0.6, (6, 1))
    score = draw.random((6, 600)).round(2)
    score[4], score[5] = 0.5, target[5]
    first = np.stack([halves(one, patients, draw) for one in target])

    def told(k: object) -> list[np.ndarray]:
        own, at, half = target[k], score[k], first[k]
        flagged, both = crossed(own, at, half, "specificity", 0.95)
        made = rates(own, flagged, patients)
        values = after(made, 0.05)
        worth = net_benefit(own, flagged, patients, 0.1)
        shares = [end for one in made for end in one.share_interval()]
        ends = [*values.ppv_interval, *values.npv_interval, *worth.interval()]
        return [*both, *shares, values.ppv, values.npv, *ends, worth.parts.sum(axis=-1)]

    for k in range(6):
        for alone, beside in zip(told(k), told(slice(None))):
            np.testing.assert_allclose(alone, beside[k], rtol=1e-12, atol=1e-12)
