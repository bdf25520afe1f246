"""One half of a recording: the two give test and retest of the same patient in the same minute."""

import numpy as np

from ecgbench.cards.rooms import PerturbationCard

CARD = PerturbationCard(
    title="half {}",
    acts_on="time",
    level="the first or the second half",
    levels=("1", "2"),
    summary="the first or the second half of a recording",
    source="arithmetic",
)


def apply(signal: np.ndarray, fs: float, level: str, random: np.random.Generator) -> np.ndarray:
    """(lead, time) mV."""
    middle = signal.shape[1] // 2
    return signal[:, :middle] if level == "1" else signal[:, middle : 2 * middle]
