"""Repairs of samples that a dataset's card declares, applied when recordings are read."""

from dataclasses import dataclass

import numpy as np

from ecgbench.errors import BadRecord


@dataclass(frozen=True, kw_only=True)
class Repair:
    """Missing samples and peaks of a source that has many of them."""

    gap_seconds: float
    """Longest run of missing samples of a lead that is filled along the line through its ends, s; a
    run at the start or end of a record by the sample beside it. A longer one costs the record.
    """
    clip_mv: float | None
    """Largest magnitude, mV; larger samples become it. None: no limit."""

    def __call__(
        self, signal: np.ndarray, fs: float, record: str
    ) -> tuple[np.ndarray, tuple[tuple[str, str], ...]]:
        """(lead, time) in mV with NaN where samples are missing -> the same without, and what was
        done, as (kind, sentence); BadRecord where too much is missing.
        """
        done = []
        if infinite := int(np.isinf(signal).sum()):
            raise BadRecord(f"{record}: {infinite} samples are infinite")
        missing = np.isnan(signal)
        if missing.any():
            most = max(longest(row) for row in missing) / fs
            if most > self.gap_seconds + 0.5 / fs or missing.all(axis=1).any():
                raise BadRecord(
                    f"{record}: {int(missing.sum())} samples are missing, up to {most:.3g} s in "
                    f"a row, where {self.gap_seconds:g} s are filled in"
                )
            signal = np.array([_filled(x, gap) for x, gap in zip(signal, missing)])
            filled = f"{int(missing.sum())} missing samples filled in, {most:.3g} s in a row"
            done.append(("gaps", f"{filled} at most"))
        if self.clip_mv is not None and (over := np.abs(signal) > self.clip_mv).any():
            largest = np.abs(signal).max()
            signal = signal.clip(-self.clip_mv, self.clip_mv)
            done.append(
                (
                    "clip",
                    f"{int(over.sum())} samples of up to {largest:.3g} mV limited to "
                    f"{self.clip_mv:g} mV",
                )
            )
        return signal, tuple(done)


def longest(where: np.ndarray) -> int:
    """The most samples in a row that are True."""
    edges = np.flatnonzero(np.diff(where, prepend=False, append=False))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _filled(x: np.ndarray, missing: np.ndarray) -> np.ndarray:
    at = np.arange(len(x))
    return np.where(missing, np.interp(at, at[~missing], x[~missing]), x)
