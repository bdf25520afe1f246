"""A sine of the mains at every electrode."""

import numpy as np


def hum(
    signal: np.ndarray, fs: float, level: float, hertz: float, random: np.random.Generator
) -> np.ndarray:
    """Potentials (9, time) with a sine of amplitude `level` mV, of a phase that is drawn for each
    electrode: in a lead, twice that at most.
    """
    phase = random.uniform(0, 2 * np.pi, (len(signal), 1))
    return np.asarray(
        signal + level * np.sin(2 * np.pi * hertz * np.arange(signal.shape[1]) / fs + phase)
    )
