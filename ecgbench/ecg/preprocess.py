"""What is done to a lead before a network sees it: filter, resampling, scaling.

`view` works lead by lead: what one lead becomes never depends on another, so hiding a lead before
or after it is the same. `normalise` may look at several leads and is therefore computed after
hiding, on the rows that are there (not NaN).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Literal

import numpy as np

from ecgbench.ecg.filters import Filter
from ecgbench.errors import BadSetting

VERSION = 1
"""Raised by hand whenever `view` gives other numbers than before; cached views carry it in their
key.
"""

Resampler = Literal["polyphase", "fft", "linear"]
"""`polyphase`: scipy.signal.resample_poly, anti-aliased, continued along the line through its ends.
`fft`: scipy.signal.resample over the whole record, as several authors do; it takes the record for
one period of an endless signal. The length is rounded down, so the last sample may be off by one
sample. `linear`: between neighbours, first and last sample kept (ECG-FM); the length is rounded
down too, and time stretched by less than a sample.
"""
LONG = 20_000
"""Largest term of a ratio of rates that are no whole numbers, as `resample_poly` has a filter 20
times as long: 512.41 to 500 Hz would be 50,000 to 51,241. Time is then off by at most 2.5e-5.
"""


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What is done to each lead of a record by itself."""

    fs: float
    """Rate afterwards, Hz."""
    filter: Filter | None
    resampler: Resampler = "polyphase"
    clip: float | None = None
    """Largest magnitude afterwards, mV."""

    def length(self, samples: int, fs: float) -> int:
        """Samples of a view of a record of `samples` at `fs` Hz: samples self.fs / fs, rounded up
        (polyphase) or down (fft, linear).
        """
        exact = samples * _ratio(fs, self.fs)
        return ceil(exact) if self.resampler == "polyphase" else int(exact)


def view(signal: np.ndarray, fs: float, prepared: Preparation) -> np.ndarray:
    """Each lead filtered, resampled and clipped over the whole record.

    signal (lead, time) at `fs` Hz -> (lead, `Preparation.length`) float32, same unit. Computed in
    float64. A lead without variation stays exactly constant.
    """
    exact = np.asarray(signal, np.float64)
    chosen = prepared.filter
    if chosen is not None and chosen.where == "native":
        exact = chosen(exact, fs)
    exact = _resampled(exact, fs, prepared)
    if chosen is not None and chosen.where == "record":
        exact = chosen(exact, prepared.fs)
    if prepared.clip is not None:
        exact = exact.clip(-prepared.clip, prepared.clip)
    return exact.astype(np.float32)


def _resampled(x: np.ndarray, fs: float, prepared: Preparation) -> np.ndarray:
    rate = _ratio(fs, prepared.fs)
    if rate == 1:
        return x
    # half a second to import; names are checked without it
    from scipy.signal import resample, resample_poly

    if not (length := prepared.length(x.shape[-1], fs)):
        return x[..., :0]
    if prepared.resampler == "fft":
        out = resample(x, length, axis=-1)
    elif prepared.resampler == "linear":
        places = np.linspace(0, x.shape[-1] - 1, length)
        out = np.array([np.interp(places, np.arange(x.shape[-1]), row) for row in x])
    else:
        # padtype "line": the record goes on along the line through its ends, so an offset does not
        # ring at the edges
        taps = _taps(max(rate.as_integer_ratio()))
        out = resample_poly(x, *rate.as_integer_ratio(), axis=-1, window=taps, padtype="line")
    still = np.ptp(x, axis=-1) == 0
    out[still] = x[still, :1]
    return np.asarray(out)


@lru_cache(maxsize=8)
def _taps(longest: int) -> np.ndarray:
    """The filter that `resample_poly` makes by itself, anew for each record."""
    from scipy.signal import firwin

    return np.asarray(firwin(20 * longest + 1, 1 / longest, window=("kaiser", 5.0)))


def _ratio(fs: float, to_fs: float) -> Fraction:
    exact = Fraction(to_fs).limit_denominator(1000) / Fraction(fs).limit_denominator(1000)
    if max(exact.as_integer_ratio()) <= LONG or not fs % 1 + to_fs % 1:
        return exact
    return exact.limit_denominator(int(LONG / max(1.0, float(exact))))


def normalise(signal: np.ndarray, how: str) -> np.ndarray:
    """Scale (lead, time) as a contract says (see cards.Normalisation), over all of `time`.

    Returns float32. Rows that are NaN throughout (hidden leads) stay NaN and influence nothing. A
    constant lead becomes exactly -1 under minmax-per-lead and 0 under standardise-per-lead and
    median-record; a record without variation becomes 0 under the two others. Unknown `how`:
    BadSetting.
    """
    if how == "none":
        return np.asarray(signal, np.float32)
    there = ~np.isnan(signal).all(axis=-1)
    x = np.asarray(signal[there], np.float64)
    if how == "minmax-per-lead":
        low, high = x.min(axis=-1, keepdims=True), x.max(axis=-1, keepdims=True)
        x = 2 * (x - low) / (high - low + 1e-8) - 1
    elif how == "minmax-record":
        x = (x - x.min()) / (x.max() - x.min() + 1e-8) if x.size else x
    elif how == "standardise-per-lead":
        spread = np.where(np.ptp(x, axis=-1, keepdims=True), x.std(axis=-1, keepdims=True), np.inf)
        x = (x - x.mean(axis=-1, keepdims=True)) / spread
    elif how == "standardise-record":
        # a constant's mean is rounded, so its own deviation is not exactly 0: ask the extremes
        # instead
        x = (x - x.mean()) / x.std() if x.size and np.ptp(x) else np.zeros_like(x)
    elif how == "median-record":
        x = x - np.median(x, axis=-1, keepdims=True)
        scale = np.percentile(np.abs(x[:2]), 95) if x.size else 1
        x = (x / max(scale, 0.05)).clip(-6, 6)
    else:
        raise BadSetting(
            f"normalisation {how!r} is none of: none, minmax-per-lead, minmax-record, "
            f"standardise-per-lead, standardise-record, median-record"
        )
    out = np.full(signal.shape, np.nan, np.float32)
    out[there] = x
    return out


def decimate(window: np.ndarray, factor: int) -> np.ndarray:
    """(lead, time) -> (lead, time / factor) float32, low-passed and thinned out as one signal, lead
    behind lead.

    So HuBERT-ECG's data set does it (order-8 Chebyshev, zero phase): a few samples on either side
    of the seam between two leads mix.
    """
    from scipy.signal import decimate as thinned

    flat = thinned(np.asarray(window, np.float64).reshape(-1), factor)
    return np.asarray(flat.reshape(len(window), -1), np.float32)
