"""AUPRC: average precision, the mean precision over the positives as the threshold falls past
them.

It depends on how frequent a label is: guessing gets the share of records that have it. Compare it
within a label, not between labels or data sets.
"""

import numpy as np

from ecgbench.cards.rooms import MetricCard
from ecgbench.stats.ranking import average_precision

CARD = MetricCard(
    title="AUPRC",
    direction="higher",
    range=(0.0, 1.0),
    chance=None,
    summary="area under the precision-recall curve, as average precision",
    source="Davis and Goadrich 2006, doi:10.1145/1143844.1143874",
)


def value(target: np.ndarray, score: np.ndarray) -> np.ndarray:
    """(label,) average precision; NaN where a label is in all records or in none."""
    return replicates(target, score, np.ones((1, len(target))))[0]


def influence(target: np.ndarray, score: np.ndarray) -> None:
    """None: `replicates` weighs patients exactly."""
    return


def replicates(target: np.ndarray, score: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(draw, label) average precision under each row of weights (draw, record), exactly."""
    made = [average_precision(t, s, weights) for t, s in zip(target.T, score.T, strict=True)]
    return np.stack(made, axis=1)
