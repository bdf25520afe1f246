"""Einthoven: what the measured limb leads determine exactly, the rest 0 mV (Einthoven 1912,
Goldberger 1942).
"""

import numpy as np

from ecgbench.ecg.leads import LIMB, derive_limb
from ecgbench.policies.hide import State


def fill(signal: np.ndarray, measured: np.ndarray, state: State | None = None) -> np.ndarray:
    """signal (12, time) mV with NaN in hidden rows, measured (12,) bool -> (12, time) mV."""
    filled = signal.copy()
    filled[~measured] = 0
    limb = measured[: len(LIMB)]
    if limb.sum() >= 2:
        hidden = np.flatnonzero(~limb)
        filled[hidden] = derive_limb(signal, measured)[hidden]
    return filled
