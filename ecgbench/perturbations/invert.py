"""A lead upside down: a watch on the other wrist."""

import numpy as np

from ecgbench.cards.rooms import PerturbationCard
from ecgbench.ecg.leads import LEADS

CARD = PerturbationCard(
    title="{} inverted",
    acts_on="leads",
    level="a lead",
    levels=LEADS,
    summary="one lead has the other sign, as where a watch is worn on the other wrist",
    source="arithmetic; the other leads stay",
)


def apply(signal: np.ndarray, fs: float, level: str, random: np.random.Generator) -> np.ndarray:
    """(12, time) mV."""
    made = signal.copy()
    made[LEADS.index(level)] *= -1
    return made
