"""Variances of AUROCs from placements: against tests/recompute.py, laws, and what few positives
must not look like.
"""

from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from ecgbench.stats.auroc import influence, per_label, placements, wins
from ecgbench.stats.components import Components, Estimate, reach


def study(n=120, k=6, rows=3, seed=0, records=3):
    """Patients of 1 to `records` records, labels from one positive to many, tied scores."""
    random = np.random.default_rng(seed)
    patients = np.sort(random.integers(0, max(n // records, 2), n))
    target = (random.random((n, k)) < np.geomspace(0.01, 0.6, k)).astype(int)
    target[:, 0] = np.arange(n) == n // 2
    target[:2, 1:] = [[0], [1]]
    common = random.standard_normal((n, k))
    scores = [
        np.round(target * 0.8 + 0.7 * common + 0.7 * random.standard_normal((n, k)), 1)
        for _ in range(rows)
    ]
    return target, patients, scores


def components(target, patients, scores, weights=None):
    placed = np.stack([placements(target, wins(target, s)) for s in scores])
    return Components(target, patients, placed, weights)


def test_wins_count_pairs_and_placements_average_to_the_auroc() -> None:
    target, _, (score, *_) = study()
    won = wins(target, score)
    for k in range(target.shape[1]):
        for i in range(len(target)):
            others = score[target[:, k] != target[i, k], k]
            mine = score[i, k] if target[i, k] else -score[i, k]
            others = others if target[i, k] else -others
            assert won[i, k] == 2 * (others < mine).sum() + (others == mine).sum()
    placed = placements(target, won)
    np.testing.assert_allclose(
        [placed[target[:, k] == 1, k].mean() for k in range(6)], per_label(target, score)
    )
    np.testing.assert_allclose(influence(target, score).sum(axis=0), 0, atol=1e-9)
    assert np.isnan(placements(np.ones((4, 1), int), np.zeros((4, 1)))).all()


@pytest.mark.parametrize("contrast", [(1, 0, 0), (1, -1, 0), (0.5, 0.5, -1)])
def test_contrasts_are_those_of_an_independent_computation(
    recompute: ModuleType, contrast: tuple[float, ...]
) -> None:
    for seed in range(3):
        target, patients, scores = study(seed=seed)
        found = components(target, patients, scores).contrast(contrast)
        columns = {"record": np.arange(len(target)), "patient": patients}
        columns |= {f"target:{k}": y for k, y in enumerate(target.T)}
        cells = [
            recompute.Cell(
                pd.DataFrame(columns | {f"probability:{k}": x for k, x in enumerate(s.T)})
            )
            for s in scores
        ]
        hand = recompute.Rows([[cell] for cell in cells])
        value = (found.value, found.variance, found.df, found.share)
        np.testing.assert_allclose(value, hand.contrast(contrast), rtol=1e-11)
        for a in range(3):
            for label in range(len(hand.labels)):
                made = components(target, patients, scores)
                assert made.label_interval(a, label) == pytest.approx(
                    hand.label(a, hand.labels[label])
                )


def test_a_label_of_many_patients_has_the_variance_of_delong() -> None:
    """Without clusters and with many positives the top-ups vanish beside DeLong's variance."""
    random = np.random.default_rng(1)
    target = (np.arange(4000) < 1500).astype(int)[:, None]
    score = target + random.standard_normal((4000, 1))
    placed = placements(target, wins(target, score))
    one, zero = placed[:1500, 0], placed[1500:, 0]
    delong = one.var(ddof=1) / 1500 + zero.var(ddof=1) / 2500
    found = components(target, np.arange(4000), [score]).row(0)
    assert found.variance == pytest.approx(delong, rel=0.003)
    assert found.df > 1000


def test_order_of_records_labels_and_rows_does_not_matter() -> None:
    target, patients, scores = study()
    expected = components(target, patients, scores).difference(0, 2)
    random = np.random.default_rng(5)
    records, labels = random.permutation(len(target)), random.permutation(6)
    mixed = components(
        target[records][:, labels],
        np.array([f"patient {p}" for p in patients])[records],
        [scores[r][records][:, labels] for r in (2, 1, 0)],
    ).difference(2, 0)
    assert (mixed.value, mixed.variance, mixed.df, mixed.share) == pytest.approx(
        (expected.value, expected.variance, expected.df, expected.share)
    )
    assert labels[mixed.label] == expected.label


def test_a_record_copied_within_its_patient_adds_no_certainty() -> None:
    target, _, scores = study(records=1)
    once = components(target, np.arange(len(target)), scores).row(0)
    twice = np.repeat(np.arange(len(target)), 2)
    copied = components(target[twice], twice, [s[twice] for s in scores])
    as_patients = components(target[twice], np.arange(len(twice)), [s[twice] for s in scores])
    # only the prior of a label counts records
    assert copied.row(0).variance == pytest.approx(once.variance, rel=0.02)
    assert as_patients.row(0).variance < 0.7 * once.variance


def test_a_label_whose_weight_is_0_changes_no_value() -> None:
    target, patients, scores = study()
    weights = np.array([0, 0.5, 0.5, 0, 0, 0])
    value = components(target, patients, scores, weights).row(0).value
    assert value == pytest.approx(per_label(target, scores[0])[1:3].mean())


@given(
    st.integers(0, 10_000),
    st.lists(st.sampled_from([-1, -0.5, 0, 0.25, 1]), min_size=3, max_size=3),
)
def test_no_contrast_has_a_negative_variance_and_p_agrees_with_the_interval(seed, contrast) -> None:
    found = components(*study(n=40, seed=seed)).contrast(contrast)
    assert found.variance >= 0
    if found.variance > 0:
        low, high = found.as_difference()
        assert (found.p < 0.05) == (not low <= 0 <= high)
        assert found.df > 0
        assert found.share > 0


def test_equal_rows_do_not_differ() -> None:
    target, patients, (score, *_) = study()
    # another scale orders the records alike; more rows change what rounding leaves of nothing
    other = study(seed=9)[2][0]
    same = components(target, patients, [score, 3 * score + 1, other, score / 7]).difference(0, 3)
    assert (same.value, same.variance, same.p) == (0, 0, 1)
    assert tuple(same.as_difference()) == (0, 0)


def test_where_nothing_is_known_there_is_no_interval() -> None:
    target, _, scores = study()
    one_patient = components(target, np.zeros(len(target)), scores)
    assert np.isnan([*one_patient.interval(0), one_patient.row(0).p]).all()
    absent = components(np.zeros_like(target), np.arange(len(target)), scores)
    assert np.isnan([absent.row(0).value, *absent.row(0).as_share(), absent.row(0).p]).all()
    with pytest.raises(ValueError, match="must be"):
        one_patient.contrast([1, -1])
    with pytest.raises(ValueError, match="placements"):
        Components(target, np.arange(len(target)), np.zeros((3, 4, 5)))


def test_fits_add_their_variance_by_welch() -> None:
    """Against scipy's Welch test of two groups."""
    random = np.random.default_rng(0)
    first, second = random.normal(0, 1, 7), random.normal(0.5, 3, 5)
    expected = scipy.stats.ttest_ind(first, second, equal_var=False)
    one = Estimate(
        value=first.mean() - second.mean(), variance=first.var(ddof=1) / 7, df=6, share=1, label=0
    )
    found = one.plus(second.var(ddof=1) / 5, 4)
    assert found.df == pytest.approx(expected.df)
    assert found.p == pytest.approx(expected.pvalue)
    assert tuple(found.as_difference()) == pytest.approx(tuple(expected.confidence_interval()))
    certain = Estimate(value=0.1, variance=0.0, df=np.inf, share=np.nan, label=-1)
    assert certain.plus(0.0, 3) == certain
    assert certain.plus(0.01, 3).df == 3


def test_joint_draws_have_the_variance_of_each_contrast_and_their_correlation() -> None:
    target, patients, scores = study(n=400, rows=3, records=2)
    made = components(target, patients, scores)
    contrasts = np.array([[1, 0, 0], [1, -1, 0], [1, 0, -1], [1, -1, 0]])
    random = np.random.default_rng(2)
    draws = made.joint(contrasts, random.standard_normal((20_000, made.patients)), random)
    for column, contrast in zip(draws.T, contrasts, strict=True):
        df = made.contrast(contrast).df
        expected = scipy.stats.t.ppf(0.975, df)
        assert np.quantile(np.abs(column), 0.95) == pytest.approx(expected, rel=0.05)
    np.testing.assert_allclose(draws[:, 1], draws[:, 3])
    half = np.corrcoef(draws[:, 1], draws[:, 2])[0, 1]
    assert 0.2 < half < 0.9  # row 0 stands in both
    assert np.isnan(
        made.joint(np.zeros((1, 3)), random.standard_normal((5, made.patients)), random)
    ).all()


def test_a_label_by_itself_is_the_contrast_of_it_alone() -> None:
    target, patients, scores = study(k=1, n=150)
    target[:, 0] = np.arange(150) % 4 == 0
    alone = components(target, patients, scores)
    (found,) = alone.by_label((1, -1, 0))
    whole = alone.difference(0, 1)
    expected = pytest.approx((whole.value, whole.variance, whole.df), rel=1e-12)
    assert (found.value, found.variance, found.df) == expected


def test_labels_by_themselves_are_those_of_the_macro() -> None:
    target, patients, scores = study(k=5)
    made = components(target, patients, scores)
    found = made.by_label((1, -1, 0))
    assert np.mean([e.value for e in found]) == pytest.approx(made.difference(0, 1).value)
    for k, e in enumerate(found):
        placed = np.stack([placements(target, wins(target, s)) for s in scores])
        one = Components(target[:, [k]], patients, placed[:, :, [k]])
        assert e.value == pytest.approx(one.difference(0, 1).value)
        if target[:, k].sum() > 30:  # the prior, which all labels inform, counts little
            assert e.se == pytest.approx(one.difference(0, 1).se, rel=0.05)
    nothing = made.by_label((0, 0, 0))
    assert [e.variance for e in nothing] == [0.0] * 5


@pytest.mark.parametrize("labels", [1, 3, 7, 71])
def test_a_perfect_mean_has_an_interval_whatever_its_sum_is_off(labels: int) -> None:
    """Seven sevenths are not 1 to a computer. That of one label is the label's; that of several is
    no narrower than that of its most frequent one.
    """
    target = (np.random.default_rng(0).random((100, labels)) < 0.3).astype(int)
    made = Components(target, np.arange(100), np.ones((1, *target.shape)))
    assert made.values[0] == pytest.approx(1)
    low, high = made.interval(0)
    assert high == 1
    assert 0.8 < low <= max(made.label_interval(0, k).low for k in range(labels))
    if labels == 1:
        assert made.interval(0) == made.label_interval(0, 0)
        assert made.row(0).as_share() == pytest.approx(made.label_interval(0, 0))


@pytest.mark.parametrize(
    ("target", "low"),
    [
        ([[1]] + [[0]] * 8, 0.2788),
        ([[1]] * 4 + [[0]] * 5, 0.5529),
        ([[1], [0]], 0.2010),
        ([[1, 1]] * 4 + [[0, 0]] * 5, 0.5529),
        ([[1, 0]] * 4 + [[0, 1]] * 5, 0.5605),
        ([[1]] * 20 + [[0]] * 20, 0.8972),
    ],
)
def test_rows_that_order_all_pairs_keep_a_doubt(target: list[list[int]], low: float) -> None:
    """Alone, upside down, against each other, and against a row of guesses. The bounds of one label
    solve 1 - A = t sqrt(v(A) (1.25 / positives + 1 / negatives)), v binormal.
    """
    target = np.array(target)
    right, wrong = target * 1.0, -target * 1.0
    made = components(target, np.arange(len(target)), [right, 2 * right, wrong, 0 * right])
    own = made.interval(0)
    assert own == pytest.approx((low, 1), abs=6e-4)
    assert own == pytest.approx(made.interval(1))
    assert made.interval(2) == pytest.approx((0, 1 - low), abs=6e-4)
    if target.shape[1] == 1:
        assert own == made.label_interval(0, 0)
        assert made.interval(2) == made.label_interval(2, 0)
    same = made.difference(0, 1)
    assert (same.value, same.p) == (0, 1)
    assert same.as_difference() == pytest.approx((low - 1, 1 - low), abs=6e-4)
    apart = made.difference(0, 2)
    assert apart.as_difference() == pytest.approx((1 - 2 * (1 - low), 1 + 2 * (1 - low)), abs=2e-3)
    mixed, alone = made.difference(0, 3), made.row(3)
    assert mixed.variance == pytest.approx(alone.variance + made.row(0).variance)
    for k, found in enumerate(made.by_label((1, -1, 0, 0))):
        reach = 1 - made.label_interval(0, k).low
        assert found.as_difference() == pytest.approx((-reach, reach), abs=6e-4)


def test_the_interval_of_two_parts_is_as_long_as_both_their_own() -> None:
    few, many = 0.3, 0.02
    half = np.hypot(
        few**0.5 * scipy.stats.t.ppf(0.975, 2), many**0.5 * scipy.stats.t.ppf(0.975, 60)
    )
    assert reach([(few, 2), (many, 60)], 0.025) == pytest.approx(half)
