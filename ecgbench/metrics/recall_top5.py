"""Recall in the top 5 %: which part of the records with a label is found when only the 5 % with the
highest scores are looked at, as where a person can check no more.

A label that more than 5 % of the records have cannot reach 100 %.
"""

import numpy as np

from ecgbench.cards.rooms import MetricCard
from ecgbench.stats.ranking import caught

SHARE = 0.05
CARD = MetricCard(
    title="Recall in the top 5 %",
    direction="higher",
    range=(0.0, 1.0),
    chance=SHARE,
    summary="part of the positives among the 5 % of records with the highest scores",
    source="this project",
)


def value(target: np.ndarray, score: np.ndarray) -> np.ndarray:
    """(label,) part of the positives; NaN where a label is in all records or in none."""
    return replicates(target, score, np.ones((1, len(target))))[0]


def influence(target: np.ndarray, score: np.ndarray) -> None:
    """None: `replicates` weighs patients exactly."""
    return


def replicates(target: np.ndarray, score: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(draw, label) part of the positives under each row of weights (draw, record), exactly."""
    made = [caught(t, s, weights, SHARE) for t, s in zip(target.T, score.T, strict=True)]
    return np.stack(made, axis=1)
