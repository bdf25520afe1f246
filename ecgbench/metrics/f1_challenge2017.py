"""F1 of the Challenge 2017: each record has the one class with the highest probability, and the
score is the mean F1 of normal, atrial fibrillation and other.

F1 of a class is 2 x right / (labelled + predicted). A record that is too noisy to say is right or
wrong for the other classes alone. A class that is in all records or in none has no F1.
"""

from collections.abc import Sequence

import numpy as np

from ecgbench.cards.rooms import MetricCard
from ecgbench.core.text import shortened
from ecgbench.errors import BadSetting

CARD = MetricCard(
    title="F1 of the Challenge 2017",
    direction="higher",
    range=(0.0, 1.0),
    chance=None,
    summary="mean F1 of normal, AF and other, of the class with the highest probability",
    source="Clifford et al. 2017, doi:10.22489/CinC.2017.065-469",
    together=True,
)
CLASSES, NOISY = ("N", "A", "O"), "~"


def value(target: np.ndarray, score: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """(1 + label,) the mean, then F1 of each class; BadSetting where the labels are not the four of
    the Challenge.
    """
    return replicates(target, score, np.ones((1, len(target))), labels)[0]


def influence(target: np.ndarray, score: np.ndarray, labels: Sequence[str]) -> None:
    """None: `replicates` weighs patients exactly."""
    return


def replicates(
    target: np.ndarray, score: np.ndarray, weights: np.ndarray, labels: Sequence[str]
) -> np.ndarray:
    """(draw, 1 + label) the same under each row of weights (draw, record), exactly."""
    if sorted(labels) != sorted((*CLASSES, NOISY)):
        raise BadSetting(
            f"metric f1_challenge2017 is of the labels {', '.join(CLASSES)} and {NOISY}, as of "
            f"--tasks cinc2017, and these are {shortened(', '.join(labels), 60)}; leave it out"
        )
    chosen = np.eye(len(labels))[score.argmax(axis=1)]
    right, labelled = weights @ (chosen * target), weights @ target
    both = (labelled > 0) & (labelled < weights.sum(axis=1, keepdims=True))
    there = both & np.isin(labels, CLASSES)
    made = np.full((len(weights), 1 + len(labels)), np.nan)
    f1 = np.divide(2 * right, labelled + weights @ chosen, out=np.zeros(right.shape), where=there)
    np.divide(f1.sum(axis=1), there.sum(axis=1), out=made[:, 0], where=there.any(axis=1))
    made[:, 1:] = np.where(there, f1, np.nan)
    return made
