"""Labels that count the same records twice."""

import numpy as np
import pytest

from ecgbench.results.score import distinct_mean, same_as

LABELS = ("a", "b", "again", "wide", "none", "masked")


def columns() -> np.ndarray:
    """`again` is `a`; `none` has no positive; `masked` is `a` where known."""
    draw = np.random.default_rng(0)
    a = draw.random(200) < 0.1
    b = draw.random(200) < 0.3
    wide = a | (draw.random(200) < 0.2)
    masked = np.where(draw.random(200) < 0.5, a, -1)
    return np.stack([a, b, a, wide, np.zeros(200), masked], axis=1).astype(np.int8)


def test_identical_columns_count_once_by_their_mean() -> None:
    target = columns()
    assert same_as(target, LABELS) == ["", "", "a", "", "", ""]
    values = [0.6, 0.7, 0.8, 0.9, np.nan, 0.5]
    found, labels = distinct_mean(values, target, "undefined")
    assert found == pytest.approx(np.mean([(0.6 + 0.8) / 2, 0.7, 0.9, 0.5]))
    assert labels == 4
    half, labels = distinct_mean(values, target, "half")
    assert half == pytest.approx(np.mean([(0.6 + 0.8) / 2, 0.7, 0.9, 0.5, 0.5]))
    assert labels == 5


def test_without_double_labels_it_is_the_mean() -> None:
    target, values = columns()[:, [0, 1, 3]], [0.61, 0.72, 0.93]
    assert distinct_mean(values, target, "undefined") == (pytest.approx(np.mean(values)), 3)
    value, labels = distinct_mean([np.nan] * 3, target, "undefined")
    assert (np.isnan(value), labels) == (True, 0)


def test_two_labels_without_positives_are_not_said_to_be_alike() -> None:
    target = np.zeros((9, 2), np.int8)
    assert same_as(target, ("x", "y")) == ["", ""]
