"""Youden index: sensitivity + specificity - 1 at the threshold where that is largest."""

import numpy as np

from ecgbench.cards.rooms import MetricCard

CARD = MetricCard(
    title="Youden index",
    direction="higher",
    range=(0.0, 1.0),
    chance=None,
    summary="sensitivity + specificity - 1 at the best threshold of these very records",
    source="Youden 1950, doi:10.1002/1097-0142(1950)3:1<32::AID-CNCR2820030106>3.0.CO;2-3",
)


def value(target: np.ndarray, score: np.ndarray) -> np.ndarray:
    """(label,) the largest; NaN where a label is in all records or in none."""
    return np.array([_one(t, s) for t, s in zip(target.T == 1, score.T, strict=True)])


def influence(target: np.ndarray, score: np.ndarray) -> None:
    """None: intervals draw patients with replacement."""
    return


def _one(target: np.ndarray, score: np.ndarray) -> float:
    if target.all() or not target.any():
        return float("nan")
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.diff(-score[order], append=np.inf))  # of records that tie
    found, alarms = (np.cumsum(c[order])[last] / c.sum() for c in (target, ~target))
    return float(max(0.0, (found - alarms).max()))
