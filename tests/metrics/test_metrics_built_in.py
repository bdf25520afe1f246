"""The metrics that come along beside the AUROC, on labels with ties, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss

from ecgbench import metrics

GENERATOR = np.random.default_rng(0)
TARGET = (GENERATOR.random((300, 4)) < (0.05, 0.3, 0, 1)).astype(np.int8)
SCORE = GENERATOR.integers(0, 9, TARGET.shape) / 8


@pytest.mark.parametrize(
    ("name", "theirs"), [("auprc", average_precision_score), ("brier", brier_score_loss)]
)
def test_values_are_scikit_learn_s_and_missing_where_a_class_is(name: str, theirs) -> None:  # type: ignore[no-untyped-def]
    expected = [theirs(TARGET[:, k], SCORE[:, k]) for k in range(2)]
    given = metrics.get(name).value(TARGET, SCORE)
    np.testing.assert_allclose(given, [*expected, np.nan, np.nan], rtol=0, atol=1e-12)


def test_the_top_5_percent_hold_all_of_a_rare_label_at_best_and_a_part_of_a_frequent_one() -> None:
    value = metrics.get("recall_top5").value
    target = np.stack([np.arange(400) < 20, np.arange(400) < 80], axis=1).astype(np.int8)
    assert value(target, target.astype(float)).tolist() == [1, 0.25]
    assert value(target, 1.0 - target).tolist() == [0, 0]
    assert value(target, np.zeros(target.shape)) == pytest.approx(0.05)
    assert metrics.card("recall_top5").chance == 0.05
