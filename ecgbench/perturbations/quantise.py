"""Large steps: voltages are rounded to whole steps."""

import numpy as np

from ecgbench.cards.rooms import PerturbationCard

CARD = PerturbationCard(
    title="steps of {} uV",
    acts_on="leads",
    level="uV a step",
    levels=("24", "5"),
    range=(0.001, 1000.0),
    summary="voltages are rounded to whole steps of the recorder",
    source="arithmetic",
)


def apply(signal: np.ndarray, fs: float, level: float, random: np.random.Generator) -> np.ndarray:
    """(lead, time) mV."""
    step = level / 1000
    return np.asarray(np.round(signal / step) * step)
