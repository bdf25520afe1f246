"""The p-value by hand counts, Holm's correction by hand, and differences on shared draws."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from ecgbench.core.seeds import rng
from ecgbench.stats.auroc import macro_auroc
from ecgbench.stats.bootstrap import label_replicates, macro_replicates, patient_weights
from ecgbench.stats.paired import Difference, holm, p_value, paired_difference, tost


@pytest.mark.parametrize(
    ("differences", "estimate", "p"),
    [
        ([1.0] * 999, 0.5, 2 * 1 / 1000),  # nothing on the other side: the smallest p
        ([1.0] * 989 + [-1.0] * 10, 0.5, 2 * 11 / 1000),
        ([-1.0] * 996 + [1.0] * 3, -0.5, 2 * 4 / 1000),
        ([-1.0] * 994 + [0.0] * 5, -0.5, 2 * 6 / 1000),  # zeros count against either sign
        ([1.0] * 994 + [0.0] * 5 + [np.nan] * 7, 0.5, 2 * 6 / 1000),  # lost draws count nowhere
        ([1.0] * 99, 0.0, 1.0),
        ([0.0] * 99, 0.5, 1.0),
        ([np.nan] * 3, 0.5, np.nan),
        ([1.0] * 9, np.nan, np.nan),
    ],
)
def test_p_value_by_hand(differences, estimate, p):
    assert p_value(differences, estimate) == pytest.approx(p, nan_ok=True)


def test_holm_by_hand():
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1; the last may not fall below the one before.
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.01, np.nan, 0.9, np.nan, 0.6]), [0.03, np.nan, 1, np.nan, 1])
    assert holm([]).shape == (0,)
    assert np.isnan(holm([np.nan])).all()


def test_paired_difference_is_narrower_than_unpaired():
    random = np.random.default_rng(0)
    target = random.random((400, 3)) < 0.3
    shared = random.standard_normal((400, 3)) + target
    good, poor = (shared + random.normal(0, noise, (400, 3)) for noise in (0.1, 1.0))
    weights = patient_weights(np.arange(400).astype(str), 500, rng("w"))
    best, other = (
        macro_replicates(label_replicates(target, s, weights), np.ones(target.shape[1], bool))[0]
        for s in (good, poor)
    )
    found = paired_difference(macro_auroc(target, good), macro_auroc(target, poor), best, other)
    assert found.difference == pytest.approx(macro_auroc(target, good) - macro_auroc(target, poor))
    assert found.low < found.difference < found.high
    assert found.p == pytest.approx(2 / 501)
    assert not found.not_significant
    unpaired = paired_difference(0.0, 0.0, best, np.roll(other, 1))
    assert unpaired.high - unpaired.low > 1.1 * (found.high - found.low)


def test_the_asterisk_is_the_interval():
    same = paired_difference(0.8, 0.8, np.linspace(0.7, 0.9, 100), np.linspace(0.7, 0.9, 100))
    assert same == Difference(difference=0.0, low=0.0, high=0.0, p=1.0)
    assert same.not_significant
    assert Difference(difference=0.1, low=-0.01, high=0.2, p=0.1).not_significant
    assert Difference(difference=0.1, low=0.0, high=0.2, p=0.1).not_significant
    assert not Difference(difference=0.1, low=0.01, high=0.2, p=0.1).not_significant
    assert not Difference(difference=0.1, low=np.nan, high=np.nan, p=np.nan).not_significant


@pytest.mark.parametrize("centre", [-0.02, -0.004, 0.0, 0.003, 0.005])
def test_equivalence_is_two_one_sided_t_tests(centre):
    differences = rng("tost", str(centre)).normal(centre, 0.01, 30)
    above = ttest_1samp(differences, -0.005, alternative="greater").pvalue
    below = ttest_1samp(differences, 0.005, alternative="less").pvalue
    assert tost(differences, 0.005) == pytest.approx(max(above, below))


def test_equivalence_without_spread_or_pairs():
    assert [tost([d] * 3, 0.25) for d in (0.0, -0.125, 0.25, 0.5)] == [0, 0, 1, 1]
    assert np.isnan(tost([0.1], 0.25))
