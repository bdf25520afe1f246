"""Folds that train one another: standard errors grow by sqrt(1 + J n_test / n_train)."""

import numpy as np
import pytest

from ecgbench.stats.auroc import placements, wins
from ecgbench.stats.components import Components

FOLDS, EACH = 5, 24


def folds(overlap: float, labels: int = 3, seed: int = 0) -> Components:
    """Two rows over five folds of other patients each."""
    random, shape = np.random.default_rng(seed), (FOLDS * EACH, FOLDS * labels)
    target, placed = np.full(shape, -1, np.int8), np.zeros((2, *shape))
    for fold in range(FOLDS):
        own = (random.random((EACH, labels)) < 0.4).astype(np.int8)
        own[0], own[1] = 0, 1
        at = slice(fold * EACH, (fold + 1) * EACH), slice(fold * labels, (fold + 1) * labels)
        target[at] = own
        for row in placed:
            score = own + random.standard_normal(own.shape)
            row[at] = placements(own, wins(own, score))
    names, weights = list("abc"[:labels]) * FOLDS, np.full(shape[1], 1 / shape[1])
    return Components(target, np.arange(len(target)), placed, weights, names, overlap)


@pytest.mark.parametrize("overlap", [0.25, 1 / 3])
def test_standard_errors_grow_alike_everywhere(overlap: float) -> None:
    apart, together = folds(0.0), folds(overlap)
    growth = np.sqrt(1 + FOLDS * overlap)
    for contrast in ((1, 0), (0, 1), (1, -1)):
        one, other = apart.contrast(contrast), together.contrast(contrast)
        assert other.se == pytest.approx(growth * one.se, rel=1e-12)
        assert (other.value, other.df) == pytest.approx((one.value, one.df), rel=1e-12)
        of_labels = zip(apart.by_label(contrast), together.by_label(contrast), strict=True)
        for a, b in of_labels:
            assert b.se == pytest.approx(growth * a.se, rel=1e-12)
    draws = np.random.default_rng(1).standard_normal((50, apart.patients))
    both = [c.joint([(1, -1)], draws, np.random.default_rng(2)) for c in (apart, together)]
    np.testing.assert_allclose(*both, rtol=1e-9)


def test_a_label_that_is_in_one_fold_alone_has_that_fold_once() -> None:
    made = folds(0.25, labels=1)
    # nobody has the label but in the first fold
    target = np.full((EACH, 1), 0, np.int8)
    target[:4] = 1
    score = np.linspace(1, 0, EACH)[:, None]
    placed = placements(target, wins(target, score))[None]
    one = [Components(target, np.arange(EACH), placed, overlap=o) for o in (0.0, 0.25)]
    assert one[1].label_interval(0, 0).low < one[0].label_interval(0, 0).low
    assert made.names == ("a",)


def test_perfect_folds_and_one_that_is_not_keep_a_lower_end() -> None:
    """0.94, 1, 1, 1, 1 with 8 positives: symmetric in logit it was [0, 100]."""
    target, placed = np.full((100, FOLDS), -1, np.int8), np.zeros((1, 100, FOLDS))
    for fold, positives in enumerate((2, 2, 2, 1, 1)):
        rows = slice(20 * fold, 20 * fold + 20)
        own = (np.arange(20) < positives).astype(np.int8)[:, None]
        score = np.linspace(1, 0, 20)[:, None]
        if fold == 0:
            score[1] = (score[3] + score[4]) / 2
        target[rows, fold] = own[:, 0]
        placed[0, rows, fold] = placements(own, wins(own, score))[:, 0]
    weights, names = np.full(FOLDS, 1 / FOLDS), ["AFIB"] * FOLDS
    made = Components(target, np.arange(100), placed, weights, names, 0.25)
    low, high = made.interval(0)
    assert 0.6 < low < made.values[0] < high == 1
    assert made.label_interval(0, 0) == (low, high)
