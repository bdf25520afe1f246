"""Findings of the checks, and the change of leads that would undo one."""

from dataclasses import dataclass, replace

import numpy as np

from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.recording import Recording


@dataclass(frozen=True)
class Change:
    """An exchange, rotation or inversion of leads."""

    leads: tuple[tuple[str, str, int], ...] = ()
    """(lead, lead whose samples it takes, 1 or -1 where they are inverted)."""

    def __call__(self, recording: Recording) -> Recording:
        """The recording with the change, to the bit."""
        signal = recording.signal.copy()
        row = recording.leads.index
        for lead, source, sign in self.leads:
            samples = recording.signal[row(source)]
            signal[row(lead)] = samples if sign > 0 else 0.0 - samples  # never -0.0
        return replace(recording, signal=signal)


@dataclass(frozen=True)
class Finding:
    """One inconsistency of a recording."""

    kind: str
    """Of `checks.KINDS`."""
    sentence: str
    """What was found, with its numbers."""
    change: Change | None = None
    """The only change that explains it; None where there is none, or more than one."""
    divisor: float = 1.0
    """Divisor that would probably make the samples mV; only used for the other checks."""


def middle(recording: Recording, seconds: float = 10.0) -> np.ndarray:
    """(lead, time) samples of `seconds` at most from the middle, leads in clinical order."""
    count = min(recording.signal.shape[1], round(seconds * recording.fs))
    start = (recording.signal.shape[1] - count) // 2
    order = sorted(range(len(recording.leads)), key=lambda i: LEADS.index(recording.leads[i]))
    return recording.signal[order, start : start + count]
