"""Mean: a missing lead is the training split's average of that lead, one constant in mV."""

from collections.abc import Iterable

import numpy as np

from ecgbench.policies.hide import State


def fit(signals: Iterable[np.ndarray], leads: tuple[str, ...]) -> State:
    """signals: (12, time) mV of every training record, rows in the order of `leads` -> {"mean":
    (12,) mV}.
    """
    averages = np.array([signal.mean(axis=1, dtype=np.float64) for signal in signals])
    return {"mean": averages.mean(axis=0)}


def fill(signal: np.ndarray, measured: np.ndarray, state: State | None = None) -> np.ndarray:
    """signal (12, time) mV with NaN in hidden rows, measured (12,) bool -> (12, time) mV."""
    assert state is not None, "mean is fitted on the training split first"
    filled = signal.copy()
    filled[~measured] = state["mean"][~measured, None]
    return filled
