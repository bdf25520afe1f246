"""AUPRC: average precision, the mean precision over the positives as the threshold falls past
them.
"""

import numpy as np

from ecgbench.cards import MetricCard

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
    return np.array([_one(t, s) for t, s in zip(target.T == 1, score.T, strict=True)])


def influence(target: np.ndarray, score: np.ndarray) -> None:
    """None: intervals draw patients with replacement."""
    return


def _one(target: np.ndarray, score: np.ndarray) -> float:
    if target.all() or not target.any():
        return float("nan")
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.diff(-score[order], append=np.inf))  # of records that tie
    positives = np.cumsum(target[order])[last]
    gained = np.diff(positives, prepend=0)
    return float(gained @ (positives / (last + 1)) / positives[-1])
