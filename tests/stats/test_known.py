"""Labels that are not known of every record: each label is what its known records alone give."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from ecgbench.stats import auroc, bootstrap
from ecgbench.stats.components import Components
from ecgbench.stats.known import known_of, parts, positives_of, two_valued

N, K = 300, 4


def records(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Target with unknown entries, scores with ties, patients of one to three records. Labels 0 and
    3 are known of the same records, label 1 of all, label 2 of a few.
    """
    draw = np.random.default_rng(seed)
    target = (draw.random((N, K)) < [0.3, 0.1, 0.4, 0.5]).astype(np.int8)
    score = (draw.normal(size=(N, K)) + target).round(1)
    some, few = draw.random(N) < 0.6, draw.random(N) < 0.2
    for label, known in ((0, some), (2, few), (3, some)):
        target[~known, label] = -1
    return target, score, np.repeat(np.arange(N), 3)[:N] // 2


def test_values_weights_and_wins_are_those_of_the_known_records() -> None:
    target, score, _ = records()
    weight = np.random.default_rng(1).exponential(size=N)
    won = auroc.wins(target, score)
    placed, moved = auroc.placements(target, won), auroc.influence(target, score)
    for k in range(K):
        known = target[:, k] >= 0
        t, s = target[known, k], score[known, k]
        assert auroc.per_label(target, score)[k] == pytest.approx(roc_auc_score(t, s), abs=1e-12)
        weighed = roc_auc_score(t, s, sample_weight=weight[known])
        assert auroc.auroc(target[:, k], score[:, k], weight) == pytest.approx(weighed, abs=1e-12)
        alone = auroc.wins(t[:, None], s[:, None])
        np.testing.assert_array_equal(won[known, k], alone[:, 0])
        np.testing.assert_array_equal(placed[known, k], auroc.placements(t[:, None], alone)[:, 0])
        share = len(target) / known.sum()
        np.testing.assert_allclose(
            moved[known, k], share * auroc.influence(t[:, None], s[:, None])[:, 0], atol=1e-12
        )
        assert not won[~known, k].any()
        assert not moved[~known, k].any()
        assert np.isnan(placed[~known, k]).all()
    assert auroc.macro_auroc(target, score) == auroc.per_label(target, score).mean()


def test_replicates_are_those_of_the_known_records() -> None:
    target, score, patients = records()
    weights = bootstrap.patient_weights(patients, 40, np.random.default_rng(2))
    made = bootstrap.label_replicates(target, score, weights)
    for k in range(K):
        known = target[:, k] >= 0
        t, s = target[known, k], score[known, k]
        expected = [auroc.auroc(t, s, row) for row in weights[:, known].astype(float)]
        np.testing.assert_allclose(made[:, k], expected, atol=1e-9)
        single = bootstrap.label_replicates(target[:, [k]], score[:, [k]], weights)[:, 0]
        np.testing.assert_array_equal(single, made[:, k])


def test_an_interval_is_that_of_the_known_records() -> None:
    target, score, patients = records()
    made = Components(target, patients, auroc.placements(target, auroc.wins(target, score))[None])
    for k in range(K):
        known = target[:, k] >= 0
        t, s = target[known, k : k + 1], score[known, k : k + 1]
        alone = Components(t, patients[known], auroc.placements(t, auroc.wins(t, s))[None])
        assert made.label_interval(0, k) == pytest.approx(alone.label_interval(0, 0), abs=1e-9)


def test_what_a_score_under_the_mask_says_does_not_matter() -> None:
    """Not even NaN."""
    target, score, _ = records()
    other = np.where(target < 0, np.nan, score)
    for function in (auroc.per_label, auroc.wins, auroc.influence):
        np.testing.assert_array_equal(function(target, score), function(target, other))


def test_parts_hold_no_unknown_entry_and_every_known_one_once() -> None:
    target = records()[0]
    target = np.column_stack([target, np.full(N, -1)])
    met = np.zeros(target.shape, int)
    for part in parts(target):
        assert set(np.unique(part.of(target))) <= {0, 1}
        met[part.index] += 1
    np.testing.assert_array_equal(met, target >= 0)
    assert len(parts(target)) == 3
    assert known_of(target).tolist() == (target >= 0).sum(axis=0).tolist()
    assert positives_of(target)[-1] == 0
    assert two_valued(target).tolist() == [True] * K + [False]
    (whole,) = parts(np.abs(target))
    assert np.shares_memory(whole.of(target), target)
