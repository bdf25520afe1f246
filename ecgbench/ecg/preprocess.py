"""What is done to a lead before a network sees it: filter, resampling, scaling, windows.

`view` works lead by lead: what one lead becomes never depends on another, so hiding a lead before or after it is the
same. `normalise` may look at several leads and is therefore computed after hiding, on the rows that are there (not NaN).
"""

from fractions import Fraction
from math import ceil

import numpy as np

from ecgbench.errors import BadSetting

VERSION = 1
"""Raised by hand whenever `view` gives other numbers than before; cached views carry it in their key."""


def view(signal: np.ndarray, fs: float, to_fs: float, band: tuple[float, float] | None) -> np.ndarray:
    """Each lead filtered at its native rate over the whole record, then resampled.

    signal (lead, time) at `fs` Hz -> (lead, `resampled_length`) float32 at `to_fs` Hz, same unit. `band` = (low, high) in
    Hz, or None for no filter. Computed in float64. A lead without variation stays exactly constant.
    """
    from scipy.signal import filtfilt, resample_poly  # half a second to import; names are checked without it

    exact = np.asarray(signal, np.float64)
    still = np.ptp(exact, axis=-1) == 0
    level = exact[still, :1]
    if band is not None:
        taps = band_pass(fs, band)
        level = level * taps.sum() ** 2
        exact = filtfilt(taps, [1.0], exact, axis=-1, padtype="odd", padlen=min(3 * len(taps), exact.shape[-1] - 1))
    rate = _ratio(fs, to_fs)
    if rate != 1:
        # padtype "line": the record goes on along the line through its ends, so an offset does not ring at the edges
        exact = resample_poly(exact, rate.numerator, rate.denominator, axis=-1, padtype="line")
    out = exact.astype(np.float32)
    out[still] = level
    return out


def band_pass(fs: float, band: tuple[float, float]) -> np.ndarray:
    """(taps,) impulse response: Hamming FIR of int(0.3 fs) taps made odd, 1 at the centre of the band (Hz).

    HuBERT-ECG's preparation (Coppola et al., doi 10.1101/2024.11.14.24317328). With so few taps the lower edge is
    nominal: applied forward and backward, 0.964 of a constant remains.
    """
    from scipy.signal import firwin

    taps = int(0.3 * fs)
    return np.asarray(firwin(taps + 1 - taps % 2, band, pass_zero=False, fs=fs))


def resampled_length(samples: int, fs: float, to_fs: float) -> int:
    """Samples of a view: ceil(samples to_fs / fs)."""
    return ceil(samples * _ratio(fs, to_fs))


def _ratio(fs: float, to_fs: float) -> Fraction:
    return Fraction(to_fs).limit_denominator(1000) / Fraction(fs).limit_denominator(1000)


def normalise(signal: np.ndarray, how: str) -> np.ndarray:
    """Scale (lead, time) as a contract says: `none`, `minmax-per-lead` or `standardise-record` (see cards.Normalisation).

    Returns float32. Rows that are NaN throughout (hidden leads) stay NaN and influence nothing. A constant lead becomes
    exactly -1 under minmax; a record without variation becomes 0 under standardise. Unknown `how`: BadSetting.
    """
    if how == "none":
        return np.asarray(signal, np.float32)
    there = ~np.isnan(signal).all(axis=-1)
    x = np.asarray(signal[there], np.float64)
    if how == "minmax-per-lead":
        low, high = x.min(axis=-1, keepdims=True), x.max(axis=-1, keepdims=True)
        x = 2 * (x - low) / (high - low + 1e-8) - 1
    elif how == "standardise-record":
        # a constant's mean is rounded, so its own deviation is not exactly 0: ask the extremes instead
        x = (x - x.mean()) / x.std() if x.size and np.ptp(x) else np.zeros_like(x)
    else:
        raise BadSetting(f"normalisation {how!r} is none of: none, minmax-per-lead, standardise-record")
    out = np.full(signal.shape, np.nan, np.float32)
    out[there] = x
    return out


def windows(samples: int, length: int) -> int:
    """Number of consecutive windows of `length` samples; an incomplete rest is dropped.

    >>> windows(1000, 500), windows(1100, 500), windows(400, 500)
    (2, 2, 0)
    """
    return samples // length
