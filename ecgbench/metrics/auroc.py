"""AUROC: how often a record with a label scores above one without it, ties counting half."""

import numpy as np

from ecgbench.cards.rooms import MetricCard
from ecgbench.stats import auroc, bootstrap

CARD = MetricCard(
    title="AUROC",
    direction="higher",
    range=(0.0, 1.0),
    chance=0.5,
    summary="area under the ROC curve",
    source="Hanley and McNeil 1982, doi:10.1148/radiology.143.1.7063747",
)


def value(target: np.ndarray, score: np.ndarray) -> np.ndarray:
    """(label,) AUROC; NaN where a label is in all records or in none."""
    return auroc.per_label(target, score)


def influence(target: np.ndarray, score: np.ndarray) -> np.ndarray:
    """(record, label) influence values (DeLong's placements about the AUROC)."""
    return auroc.influence(target, score)


def replicates(target: np.ndarray, score: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(draw, label) AUROC under each row of weights (draw, record), exactly."""
    return bootstrap.label_replicates(target, score, weights)


def wins(target: np.ndarray, score: np.ndarray) -> np.ndarray:
    """(record, label) how many comparisons each record wins, twice: what placements come from."""
    return auroc.wins(target, score)
