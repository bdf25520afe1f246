"""A shorter strip: the first seconds alone."""

import numpy as np

from ecgbench.cards.rooms import PerturbationCard

CARD = PerturbationCard(
    title="first {} s",
    acts_on="time",
    level="seconds",
    levels=("5", "3"),
    range=(0.5, 100_000.0),
    summary="the first seconds of a recording; one that is shorter stays whole",
    source="arithmetic",
)


def apply(signal: np.ndarray, fs: float, level: float, random: np.random.Generator) -> np.ndarray:
    """(lead, time) mV."""
    return signal[:, : max(1, round(level * fs))]
