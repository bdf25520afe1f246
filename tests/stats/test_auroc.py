"""The AUROC against scikit-learn and its laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from ecgbench.stats.auroc import auroc, influence, macro_auroc, per_label


def records(ties: bool = True):
    """Target, score, weight of 2..60 records with both classes; few distinct scores, so ties are
    common.
    """
    score = st.integers(-5, 5) if ties else st.floats(-1e6, 1e6)
    record = st.tuples(st.booleans(), score, st.integers(1, 64).map(lambda w: w / 8))
    both = st.lists(record, min_size=2, max_size=60).filter(lambda rs: len({r[0] for r in rs}) == 2)
    return both.map(lambda rs: tuple(np.array(column) for column in zip(*rs)))


@given(records() | records(ties=False))
def test_values_are_those_of_sklearn(data):
    target, score, weight = data
    assert auroc(target, score) == pytest.approx(roc_auc_score(target, score), abs=1e-12)
    assert auroc(target, score, weight) == pytest.approx(
        roc_auc_score(target, score, sample_weight=weight), abs=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_many_records_as_in_sklearn(dtype):
    random = np.random.default_rng(0)
    target, weight = random.random(20_000) < 0.03, random.exponential(size=20_000)
    score = (random.standard_normal(20_000) + target).astype(dtype)
    assert auroc(target, score, weight) == pytest.approx(
        roc_auc_score(target, score, sample_weight=weight), abs=1e-12
    )


@given(records(), st.randoms(use_true_random=False))
def test_laws(data, random):
    target, score, weight = data
    value = auroc(target, score, weight)
    assert auroc(target, np.exp(score / 3) - 7, weight) == pytest.approx(value, abs=1e-12), (
        "a monotone transform changes no rank"
    )
    assert auroc(~target, score, weight) == pytest.approx(1 - value, abs=1e-12)
    assert auroc(target, -score, weight) == pytest.approx(1 - value, abs=1e-12)
    order = random.sample(range(len(target)), len(target))
    assert auroc(target[order], score[order], weight[order]) == pytest.approx(value, abs=1e-12)
    assert auroc(target, score, 3 * weight) == pytest.approx(value, abs=1e-12)


@given(records())
def test_integer_weights_are_repeated_records(data):
    target, score, weight = data
    times = (8 * weight).astype(int) % 4
    again = np.repeat(np.arange(len(target)), times)
    assert auroc(target, score, times) == pytest.approx(
        auroc(target[again], score[again]), abs=1e-12, nan_ok=True
    )


def test_constant_and_infinite_scores_have_a_rank():
    assert auroc([0, 1, 1, 0], [0.3] * 4, [1, 2, 3, 4]) == 0.5
    assert auroc([0, 1, 1], [-np.inf, -np.inf, np.inf]) == 0.75


@pytest.mark.parametrize(
    ("target", "weight"),
    [([0, 0], None), ([1, 1], None), ([], None), ([0, 1], [1, 0]), ([0, 1], [0, 1])],
)
def test_absent_class_is_nan(target, weight):
    assert np.isnan(auroc(target, np.arange(len(target)), weight))


@pytest.mark.parametrize(
    ("target", "score", "weight"),
    [
        ([0, 1], [0.1, np.nan], None),
        ([0, 2], [0.1, 0.2], None),
        ([0, 1], [0.1], None),
        ([0, 1], [0.1, 0.2], [1, -1]),
        ([0, 1], [0.1, 0.2], [1, np.inf]),
    ],
)
def test_what_cannot_be_ranked_is_refused(target, score, weight):
    with pytest.raises(ValueError, match=r"NaN|0 and 1|must|finite"):
        auroc(target, score, weight)


def test_macro_leaves_undefined_labels_out():
    target = np.array([[0, 0, 1], [1, 0, 1], [1, 0, 1], [0, 0, 1]])
    score = np.array([[0.1, 0.5, 0.5], [0.2, 0.6, 0.1], [0.9, 0.1, 0.2], [0.8, 0.2, 0.9]])
    np.testing.assert_array_equal(per_label(target, score), [0.75, np.nan, np.nan])
    assert macro_auroc(target, score) == 0.75
    assert macro_auroc(target, score, absent="half") == pytest.approx((0.75 + 0.5 + 0.5) / 3)
    assert np.isnan(macro_auroc(target[:, 1:], score[:, 1:]))
    assert macro_auroc(target[:, 1:], score[:, 1:], absent="half") == 0.5
    with pytest.raises(ValueError, match="absent='zero'"):
        macro_auroc(target, score, absent="zero")


def test_influence_is_the_slope_of_the_auroc_in_each_weight():
    """Ties included; an undefined label has none, and each column sums to 0."""
    random = np.random.default_rng(4)
    target, score = random.random((40, 3)) < 0.3, random.integers(0, 12, (40, 3))
    target[:, 1] = True
    found = influence(target, score)
    np.testing.assert_allclose(found.sum(axis=0)[[0, 2]], 0, atol=1e-9)
    assert np.isnan(found[:, 1]).all()
    step = 1e-5
    for i in range(40):
        more, less = np.ones(40), np.ones(40)
        more[i], less[i] = 1 + step, 1 - step
        for k in (0, 2):
            slope = (
                auroc(target[:, k], score[:, k], more) - auroc(target[:, k], score[:, k], less)
            ) / (2 * step)
            assert found[i, k] == pytest.approx(40 * slope, abs=1e-6)
