"""Average precision and the positives in the top: scikit-learn's numbers, and laws of weights."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from ecgbench.stats.ranking import average_precision, caught


def records(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """target, score with many ties, and five rows of counts."""
    draw = np.random.default_rng(seed)
    target = (draw.random(n) < 0.2).astype(np.int8)
    score = (draw.normal(size=n) + target).round(1)
    return target, score, draw.integers(0, 4, (5, n))


@pytest.mark.parametrize("seed", range(3))
def test_average_precision_is_scikit_learn_s_under_weights_too(seed: int) -> None:
    target, score, weights = records(seed)
    expected = [average_precision_score(target, score, sample_weight=w) for w in weights]
    np.testing.assert_allclose(average_precision(target, score, weights), expected, atol=1e-12)
    top = np.argsort(-score)[:3]
    weights[0, top] = 0  # the highest scores have no weight
    first = average_precision_score(target, score, sample_weight=weights[0])
    assert average_precision(target, score, weights)[0] == pytest.approx(first, abs=1e-12)


def test_what_is_caught_among_ties_is_the_mean_over_their_orders() -> None:
    target, score, weights = records(1)
    score = score.round()
    draw, ones = np.random.default_rng(2), np.ones((1, 200))
    found = []
    for _ in range(4000):
        order = np.lexsort((draw.random(200), -score))
        found.append(target[order[:10]].sum() / target.sum())
    error = np.std(found) / np.sqrt(len(found))
    assert abs(caught(target, score, ones, 0.05)[0] - np.mean(found)) < 4 * error
    repeated = [caught(target.repeat(w), score.repeat(w), [[1.0] * w.sum()], 0.05) for w in weights]
    np.testing.assert_allclose(caught(target, score, weights, 0.05), np.ravel(repeated), atol=1e-12)


def test_guessing_catches_its_share_and_a_class_without_weight_has_no_value() -> None:
    target, _, weights = records(1)
    assert caught(target, np.zeros(200), weights, 0.05) == pytest.approx(0.05)
    lost = np.stack([target == 0, target == 1]).astype(float)
    for values in (caught(target, target, lost, 0.05), average_precision(target, target, lost)):
        assert np.isnan(values).all()
