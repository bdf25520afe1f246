"""A recording as it is stored, 16 bits a sample, and the hashes of one and of all of a copy."""

import hashlib

import numpy as np
import pandas as pd

from ecgbench.data.source import canonical
from ecgbench.ecg.leads import LEADS, rows_of
from ecgbench.ecg.recording import Recording

STEPS = 1000.0
"""Steps per mV in which most sources are stored; used whenever it restores the signal exactly."""


def encode(recording: Recording) -> tuple[np.ndarray, np.ndarray]:
    """(lead, time) int16 of a recording in clinical order, and (12,) float32 gain, 0 for a lead
    that it does not have, such that integer / gain restores the signal.

    Exactly, where it is a whole number of thousandths of its unit that fits 16 bits (PTB-XL: steps
    of 1 uV). A lead for which this does not hold is spread over the 16 bits, which is within
    1/65534 of its largest value.
    """
    exact = recording.signal.astype(np.float64)
    steps = np.rint(exact * STEPS)
    fits = (np.abs(steps) < 2**15).all(axis=1) & (
        (steps / STEPS).astype(np.float32) == recording.signal
    ).all(axis=1)
    gain = np.full(len(exact), STEPS, np.float32)
    gain[~fits] = (2**15 - 1) / np.abs(exact[~fits]).max(axis=1)
    steps[~fits] = np.clip(np.rint(exact[~fits] * gain[~fits, None]), 1 - 2**15, 2**15 - 1)
    every = np.zeros(len(LEADS), np.float32)
    every[rows_of(recording.leads)] = gain
    return steps.astype("<i2"), every


def sha256(steps: np.ndarray, gain: np.ndarray, fs: float) -> str:
    """Of one record as stored: rate, gains and samples."""
    return hashlib.sha256(
        canonical(float(fs)) + gain.astype("<f4").tobytes() + steps.astype("<i2").tobytes()
    ).hexdigest()


def digest(index: pd.DataFrame) -> str:
    """sha256 over (record, hash of its signal, patient, split, labels) of all records in sorted
    order.
    """
    labels = [c for c in index.columns if ":" in c]
    ordered = index.sort_values("record")
    total = hashlib.sha256(canonical(labels))
    facts = ordered[["record", "sha256", "patient", "split"]].itertuples(index=False)
    for row, hot in zip(facts, ordered[labels].to_numpy(np.int8)):
        total.update(canonical([str(v) for v in row]) + hot.tobytes())
    return total.hexdigest()
