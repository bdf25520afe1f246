"""Electrode motion: noise of the recording em of the MIT-BIH Noise Stress Test Database."""

import numpy as np

from ecgbench.cards.rooms import PerturbationCard
from ecgbench.perturbations._nstdb import noise

CARD = PerturbationCard(
    title="electrode motion, {} dB",
    acts_on="noise",
    level="signal-to-noise ratio in dB",
    levels=("24", "18", "12", "6", "0"),
    range=(-30.0, 100.0),
    summary="electrode motion of a genuine recording, at every electrode a stretch of its own",
    source="MIT-BIH Noise Stress Test Database, doi:10.13026/C2HS3T (Moody, Muldrow, Mark 1984)",
    corpora=("nstdb",),
)


def apply(signal: np.ndarray, fs: float, level: float, random: np.random.Generator) -> np.ndarray:
    """(9, time) noise for potentials (9, time)."""
    return noise("em", signal.shape[1], fs, random)
