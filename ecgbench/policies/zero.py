"""Zero: a missing lead is 0 mV, as the reference benchmark pads."""

import numpy as np

from ecgbench.policies.hide import State


def fill(signal: np.ndarray, measured: np.ndarray, state: State | None = None) -> np.ndarray:
    """signal (12, time) mV with NaN in hidden rows, measured (12,) bool -> (12, time) mV."""
    filled = signal.copy()
    filled[~measured] = 0
    return filled
