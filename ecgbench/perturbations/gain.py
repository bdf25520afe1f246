"""Another gain: every lead is larger or smaller."""

import numpy as np

from ecgbench.cards.rooms import PerturbationCard

CARD = PerturbationCard(
    title="gain {}",
    acts_on="leads",
    level="a factor",
    levels=("0.5", "2"),
    range=(0.01, 100.0),
    summary="all voltages times a factor, as where a file states a wrong gain",
    source="5, 10 and 20 mm/mV are usual; a file may state one and hold another",
)


def apply(signal: np.ndarray, fs: float, level: float, random: np.random.Generator) -> np.ndarray:
    """(lead, time) mV."""
    return signal * level
