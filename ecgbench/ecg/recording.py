"""One recording: the signal with its unit, sampling rate, leads, record and patient."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ecgbench.ecg.leads import LEADS, LIMB, canonical, derive_limb
from ecgbench.errors import BadRecord, UnknownName

UNITS = ("mV", "standardised")


@dataclass(frozen=True, eq=False, kw_only=True)
class Recording:
    """An ECG as read: refuses unknown or double leads, a wrong shape and samples that are not
    finite.
    """

    signal: np.ndarray
    """(lead, time) float32, in `unit`; rows in the order of `leads`."""
    unit: str
    """"mV", or "standardised" where the source cannot give millivolts (EchoNext)."""
    leads: tuple[str, ...]
    """Standard spelling (`aVR`), in the order of the rows."""
    fs: float
    """Sampling rate, Hz."""
    record: str
    """Identity of the recording within its dataset."""
    patient: str
    """Identity of the patient within the dataset; the record's where the source has none."""
    repaired: tuple[tuple[str, str], ...] = ()
    """(kind, sentence) of each `Repair` of the dataset's card that the samples needed."""
    notes: tuple[tuple[str, str], ...] = ()
    """(kind, what) of how a file was understood: where "rate", "unit" and "names" came from, each
    "ignored signal", "head line" (not understood), "inverted" lead, lead "not measured", and lead
    that is "held" at one value for much of the time.
    """

    def __post_init__(self) -> None:
        signal = np.ascontiguousarray(self.signal, dtype=np.float32)
        object.__setattr__(self, "signal", signal)
        object.__setattr__(self, "leads", self._canonical())
        if len(set(self.leads)) != len(self.leads):
            raise BadRecord(f"{self.record}: a lead is there twice among {', '.join(self.leads)}")
        if signal.ndim != 2 or signal.shape[0] != len(self.leads) or not signal.size:
            raise BadRecord(
                f"{self.record}: signal of shape {signal.shape} for {len(self.leads)} leads"
            )
        if self.unit not in UNITS:
            raise BadRecord(f"{self.record}: unit {self.unit!r} is neither of {', '.join(UNITS)}")
        if not 0 < self.fs < float("inf"):
            raise BadRecord(f"{self.record}: sampling rate {self.fs} Hz")
        if not np.isfinite(self.extremes).all():
            bad = int(signal.size - np.isfinite(signal).sum())
            raise BadRecord(f"{self.record}: {bad} samples are not finite")

    def _canonical(self) -> tuple[str, ...]:
        try:
            return tuple(canonical(n) for n in self.leads)
        # of a file, not of a setting: the record is at fault and the others go on
        except UnknownName as error:
            raise BadRecord(f"{self.record}: {error}") from None

    @cached_property
    def extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and the highest sample of each lead, in `unit`: two arrays (lead,)."""
        return self.signal.min(axis=1), self.signal.max(axis=1)

    @property
    def seconds(self) -> float:
        """Duration, s."""
        return float(self.signal.shape[1] / self.fs)

    def clinical(self) -> "Recording":
        """The same recording with the leads that it has in clinical order."""
        ordered = tuple(n for n in LEADS if n in self.leads)
        if ordered == self.leads:
            return self
        rows = [self.leads.index(n) for n in ordered]
        return replace(self, signal=self.signal[rows], leads=ordered)

    def completed(self) -> "Recording":
        """The same recording with all six limb leads, which any two of them determine exactly; as
        it is where it has fewer than two. What is there stays as it is; of a
        lead that is "held" none is made.
        """
        missing = [n for n in LIMB if n not in self.leads]
        held = {what.split()[0].strip("-") for kind, what in self.notes if kind == "held"}
        known = [n for n in LIMB if n in self.leads and n not in held]
        if not missing or len(known) < 2:
            return self
        exact = np.zeros((len(LIMB), self.signal.shape[1]))
        exact[[LIMB.index(n) for n in known]] = self.signal[[self.leads.index(n) for n in known]]
        # I and II where they are there: their signs and halves are exact in floats
        chosen = ("I", "II") if {"I", "II"} <= set(known) else known
        every = derive_limb(exact, np.isin(LIMB, chosen))
        made = every[[LIMB.index(n) for n in missing]].astype(np.float32)
        signal = np.concatenate([self.signal, made])
        return replace(self, signal=signal, leads=(*self.leads, *missing))

    @property
    def rows(self) -> np.ndarray:
        """(12, time) float32 in clinical order, NaN in the rows of leads that it does not have."""
        every = np.full((len(LEADS), self.signal.shape[1]), np.nan, np.float32)
        every[[LEADS.index(n) for n in self.leads]] = self.signal
        return every

    def flat(self) -> tuple[str, ...]:
        """Leads without any variation (a detached electrode); kept and flagged, never
        quarantined.
        """
        lowest, highest = self.extremes
        return tuple(n for n, a, b in zip(self.leads, lowest, highest) if a == b)
