"""An electrode that is off: every lead that needs it holds one value."""

import numpy as np

from ecgbench.cards.rooms import PerturbationCard
from ecgbench.ecg.electrodes import ELECTRODES

CARD = PerturbationCard(
    title="{} off",
    acts_on="electrodes",
    level="an electrode",
    levels=ELECTRODES,
    summary="an electrode has no contact, and every lead that needs it holds 0 mV",
    source="algebra of the leads: the chest leads need RA, LA and LL too",
)


def apply(signal: np.ndarray, fs: float, level: str, random: np.random.Generator) -> np.ndarray:
    """(9, time) potentials, NaN at the electrode that is off."""
    made = signal.copy()
    made[ELECTRODES.index(level)] = np.nan
    return made
