"""Brier score: the mean squared distance between a probability and what is true, 0 at best.

It falls with how rare a label is: saying its share of every record gets share x (1 - share).
Compare it within a label, not between labels or data sets.
"""

import numpy as np

from ecgbench.cards.rooms import MetricCard
from ecgbench.stats.calibration import squared_error
from ecgbench.stats.known import two_valued

CARD = MetricCard(
    title="Brier score",
    direction="lower",
    range=(0.0, 1.0),
    chance=None,
    summary="mean squared error of the probabilities; lower is better",
    source="Brier 1950, doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2",
)


def value(target: np.ndarray, score: np.ndarray) -> np.ndarray:
    """(label,) mean squared error; NaN where a label is in all records or in none."""
    return np.where(two_valued(target), squared_error(target, score).mean(axis=0), np.nan)


def influence(target: np.ndarray, score: np.ndarray) -> np.ndarray:
    """(record, label) by how much a record's squared error is above the mean."""
    error = squared_error(target, score)
    return np.asarray(error - error.mean(axis=0))
