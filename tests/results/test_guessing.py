"""The three answers, and how many patients it takes."""

from typing import Any

import pytest

from ecgbench.results.guessing import BETTER, NOT, OPEN, graded
from ecgbench.stats.detectable import needed


@pytest.mark.parametrize(
    ("value", "low", "high", "patients", "answer"),
    [
        (0.7, 0.501, 0.85, 90, BETTER),
        (0.7, 0.5, 0.85, 90, OPEN),
        (0.55, 0.51, 0.59, 90, BETTER),
        (0.53, 0.47, 0.599, 90, NOT),
        (0.53, 0.47, 0.6, 90, OPEN),
        (0.3, 0.2, 0.4, 90, NOT),
        (0.9, 0.8, 0.97, 29, OPEN),
        (0.9, None, None, 90, OPEN),
        (None, None, None, 90, OPEN),
    ],
)
def test_the_interval_gives_the_answer(
    value: Any, low: Any, high: Any, patients: int, answer: str
) -> None:
    row = {"value": value, "low": low, "high": high, "patients": patients}
    for label in ({"label": "macro"}, {"label": "A", "positives": 20, "n": 90}):
        found = graded(row | label)
        assert found["answer"] == answer
        if answer != OPEN:
            assert found["needed"] is None


def test_how_many_patients_it_takes_grows_with_how_little_there_is_to_find() -> None:
    row = {"label": "A", "low": 0.4, "high": 0.9, "patients": 200, "positives": 10, "n": 100}
    takes = [graded(row | {"value": value})["needed"] for value in (0.75, 0.65, 0.6, 0.57, 0.55)]
    assert takes[1:] == sorted(takes[1:])
    assert takes[0] == 20  # no smaller number is said
    assert takes[2] == pytest.approx(needed(0.6, 9))
    # as far from 0.6 on the other side: that it is not better than guessing
    assert graded(row | {"value": 0.5})["needed"] == pytest.approx(needed(0.6, 9))
    assert graded(row | {"positives": 0, "value": None})["needed"] is None
