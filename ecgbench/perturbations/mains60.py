"""Hum of mains of 60 Hz."""

import numpy as np

from ecgbench.cards.rooms import PerturbationCard
from ecgbench.perturbations._mains import hum

CARD = PerturbationCard(
    title="mains 60 Hz, {} mV",
    acts_on="electrodes",
    level="mV at each electrode",
    levels=("0.1", "0.02"),
    range=(0.0, 10.0),
    summary="a sine of 60 Hz at every electrode, of a phase of its own",
    source="arithmetic",
)


def apply(signal: np.ndarray, fs: float, level: float, random: np.random.Generator) -> np.ndarray:
    """(9, time) potentials."""
    return hum(signal, fs, level, 60.0, random)
