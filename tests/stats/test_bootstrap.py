"""Weights of patients, replicates against a loop over scikit-learn, and intervals that cover."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from ecgbench.core.seeds import rng
from ecgbench.stats.auroc import auroc, per_label
from ecgbench.stats.bootstrap import (
    label_replicates,
    macro_replicates,
    patient_weights,
    percentile_interval,
    resampled,
)


def one_label(target, score, weights):
    return label_replicates(np.asarray(target)[:, None], np.asarray(score)[:, None], weights)[:, 0]


def study(n=300, k=5, seed=0):
    """Patients with up to several records, labels from rare to frequent, scores rounded so that
    some tie.
    """
    random = np.random.default_rng(seed)
    patients = np.array([f"p{i:04d}" for i in random.integers(0, n // 2, n)])
    target = random.random((n, k)) < np.geomspace(0.008, 0.8, k)
    target[:, 0] = np.arange(n) == 5
    return patients, target, np.round(random.standard_normal((n, k)) + target, 1)


@pytest.mark.parametrize("n_patients", [1, 2, 7, 50])
def test_more_draws_begin_with_the_same_draws(n_patients):
    patients = np.arange(n_patients).astype(str)
    many = patient_weights(patients, 300, rng("w", n_patients))
    for draws in (0, 1, 127, 128, 129, 256):
        np.testing.assert_array_equal(
            patient_weights(patients, draws, rng("w", n_patients)), many[:draws]
        )


def test_laws_of_the_weights():
    patients = np.arange(50).astype(str)
    counts = patient_weights(patients, 2000, rng("w"))
    assert counts.dtype == np.int32
    assert (counts.sum(axis=1) == 50).all()
    assert counts.var(axis=0).mean() == pytest.approx(1 - 1 / 50, abs=0.03)


def test_replicates_are_those_of_a_loop_over_sklearn():
    patients, target, score = study()
    weights = patient_weights(patients, 150, rng("w"))
    labels = label_replicates(target, score, weights)
    macro, lost = macro_replicates(labels, np.isfinite(per_label(target, score)))
    loop = np.full(labels.shape, np.nan)
    for draw, row in enumerate(weights):
        there = row > 0  # so that a lost class is seen
        for k in range(5):
            y, x = target[there, k], score[there, k]
            if len(set(y)) == 2:
                loop[draw, k] = roc_auc_score(y, x, sample_weight=row[there])
    np.testing.assert_allclose(labels, loop, rtol=0, atol=1e-12)
    np.testing.assert_allclose(macro, np.nanmean(loop, axis=1), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(lost, np.isnan(loop).sum(axis=1))
    assert lost.sum() > 0
    for k in range(5):
        np.testing.assert_array_equal(one_label(target[:, k], score[:, k], weights), labels[:, k])


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=25),
    st.integers(0, 2**32),
    st.sampled_from(["int", "float"]),
)
def test_replicates_are_the_auroc_of_each_row(records, seed, dtype):
    """Any ties, either class smaller or absent, weights with zeros."""
    target, score = (np.array(column) for column in zip(*records))
    weights = np.random.default_rng(seed).integers(0, 4, (6, len(target))).astype(dtype) / (
        1 if dtype == "int" else 3
    )
    weights = weights.astype(dtype)
    np.testing.assert_allclose(
        one_label(target, score, weights),
        [auroc(target, score, w) for w in weights],
        rtol=0,
        atol=1e-12,
    )


def test_counts_beyond_float32_stay_exact():
    """A single count of 2**24 + 1 is what float32 cannot hold."""
    weights = np.array([[2**24 + 1, 2**24 - 1, 1, 1]])
    found = one_label([0, 1, 0, 1], [0.1, 0.2, 0.2, 0.05], weights)
    assert found[0] == pytest.approx(
        auroc([0, 1, 0, 1], [0.1, 0.2, 0.2, 0.05], weights[0]), abs=1e-15
    )


def test_undefined_labels_are_left_out_and_lost_ones_counted():
    target = np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0]])
    score = np.arange(12.0).reshape(4, 3)
    weights = np.array([[1, 1, 1, 1], [0, 1, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0]])
    labels = label_replicates(target, score, weights)
    macro, lost = macro_replicates(labels, np.isfinite(per_label(target, score)))
    np.testing.assert_array_equal(
        labels, [[1, 0, np.nan], [1, np.nan, np.nan], [np.nan, 0, np.nan], [np.nan] * 3]
    )
    np.testing.assert_array_equal(macro, [0.5, 1, 0, np.nan])
    np.testing.assert_array_equal(lost, [0, 1, 1, 2])


def test_resampled_records_are_weighted_records():
    """Repeating a record is giving it that weight, for any statistic: here the AUROC, which is
    known both ways.
    """
    patients, target, score = study()
    counts = patient_weights(patients, 20, rng("w"))
    np.testing.assert_allclose(
        resampled(per_label, target, score, counts),
        label_replicates(target, score, counts),
        rtol=0,
        atol=1e-12,
    )


def test_bad_input_is_refused():
    for shape, value in (((3,), 1), ((2, 4), 1), ((2, 3), -1), ((2, 3), np.nan), ((2, 3), np.inf)):
        with pytest.raises(ValueError, match="weights"):
            one_label([0, 1, 1], [0.1, 0.2, 0.3], np.full(shape, value))
    with pytest.raises(ValueError, match="no record"):
        patient_weights([], 3, rng("w"))
    with pytest.raises(ValueError, match="NaN"):
        label_replicates([[0], [1]], [[0.1], [np.nan]], np.ones((3, 2)))


def test_percentile_interval_leaves_nan_draws_out():
    values = np.append(np.arange(101.0), [np.nan] * 50)
    assert percentile_interval(values, level=0.9) == pytest.approx((5, 95))
    assert np.isnan(percentile_interval([np.nan, np.nan])).all()


def test_interval_covers_the_known_auroc_of_clustered_patients():
    """Three records a patient, correlated; drawn by record the interval is visibly too narrow,
    drawn by patient it is not.
    """
    between, within, shift, n_patients, runs = 1.0, 0.5, 1.5, 100, 300
    truth = NormalDist().cdf(shift / np.sqrt(2 * (between**2 + within**2)))
    random = np.random.default_rng(7)
    patient = np.repeat(np.arange(n_patients), 3).astype(str)
    records = np.arange(len(patient)).astype(str)
    covered = {"patients": 0, "records": 0}
    for _ in range(runs):
        target = np.repeat(random.random(n_patients) < 0.4, 3)
        score = (
            shift * target
            + np.repeat(random.normal(0, between, n_patients), 3)
            + random.normal(0, within, len(patient))
        )
        for name, unit in (("patients", patient), ("records", records)):
            low, high = percentile_interval(
                one_label(target, score, patient_weights(unit, 300, random))
            )
            covered[name] += low <= truth <= high
    assert covered["patients"] / runs > 0.915
    assert covered["records"] / runs < 0.85
