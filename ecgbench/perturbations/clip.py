"""A small range of the amplifier: what is beyond is cut off."""

import numpy as np

from ecgbench.cards.rooms import PerturbationCard

CARD = PerturbationCard(
    title="clipped at {} mV",
    acts_on="leads",
    level="mV",
    levels=("1", "0.5"),
    range=(0.01, 100.0),
    summary="voltages beyond plus or minus the level hold the level",
    source="arithmetic",
)


def apply(signal: np.ndarray, fs: float, level: float, random: np.random.Generator) -> np.ndarray:
    """(lead, time) mV."""
    return np.clip(signal, -level, level)
