"""A narrow band: what is faster is filtered out, as in the monitor mode of a recorder."""

import numpy as np
from scipy.signal import butter, sosfiltfilt

from ecgbench.cards.rooms import PerturbationCard

CARD = PerturbationCard(
    title="low-pass {} Hz",
    acts_on="leads",
    level="Hz",
    levels=("40", "25"),
    range=(1.0, 1000.0),
    summary="a low-pass filter (Butterworth, order 4 forwards and backwards)",
    source="0.5 to 40 Hz is the monitor band of IEC 60601-2-27",
)


def apply(signal: np.ndarray, fs: float, level: float, random: np.random.Generator) -> np.ndarray:
    """(lead, time) mV; as it is where the rate holds nothing faster."""
    if level >= fs / 2:
        return signal
    return np.asarray(sosfiltfilt(butter(4, level, fs=fs, output="sos"), signal, axis=1))
