"""Heart beats of a recording, in the leads that it has; heart rate and QRS duration by them.

The two numbers are meant as a baseline that knows nothing else, not for reports to a physician.
"""

from dataclasses import dataclass

import numpy as np

BAND = (8.0, 30.0)
"""Hz: where QRS complexes stand out."""
MIN_INTERVAL = 0.28
"""Seconds between two beats, at least."""
HIGH = 0.3
"""How high a beat stands, at least, of a usual one."""
FEWEST = 3
"""Beats of which there must be a median one."""
EDGE = 0.15
"""Of the steepest slope of the median beat: below it QRS has not begun, or has ended."""
REACH = 0.12
"""Seconds from the middle of QRS to either end, at most."""


@dataclass(frozen=True)
class Measured:
    """NaN where too few beats stand out."""

    heart_rate: float
    """Beats a minute, by the median interval between two beats."""
    qrs: float
    """Duration of the QRS complex of the median beat, s."""


def measured(signal: np.ndarray, fs: float) -> Measured:
    """Of (lead, time) mV at `fs` Hz, at least 100 Hz, without NaN."""
    tops = beats(signal, fs)
    if len(tops) < FEWEST:
        return Measured(np.nan, np.nan)
    rate = 60 * fs / float(np.median(np.diff(tops)))
    return Measured(rate, _duration(signal.astype(np.float64), tops, fs))


def beats(signal: np.ndarray, fs: float) -> np.ndarray:
    """(beat,) samples at which QRS complexes of (lead, time) mV at `fs` Hz stand out; none where
    nothing does.
    """
    from scipy.signal import butter, find_peaks, sosfiltfilt

    none = np.zeros(0, np.intp)
    if signal.shape[1] < fs or fs <= 2 * BAND[1]:
        return none
    sos = butter(2, BAND, "bandpass", fs=fs, output="sos")
    energy = np.square(sosfiltfilt(sos, signal.astype(np.float64), axis=1)).sum(axis=0)
    strength = np.sqrt(smooth(energy, 0.08 * fs))
    tops, _ = find_peaks(strength, distance=MIN_INTERVAL * fs)
    if not len(tops) or not strength.max() > 1e-3:
        return none
    usual = np.median(np.sort(strength[tops])[-max(4, len(tops) // 2) :])
    return np.asarray(tops[strength[tops] >= HIGH * usual])


def median_beat(signal: np.ndarray, tops: np.ndarray, before: int, after: int) -> np.ndarray:
    """(lead, before + after) median over the beats at `tops` that lie wholly in (lead, time);
    (lead, 0) where they are fewer than FEWEST.
    """
    whole = [t for t in tops if before <= t < signal.shape[1] - after]
    if len(whole) < FEWEST:
        return np.empty((len(signal), 0))
    return np.asarray(np.median([signal[:, t - before : t + after] for t in whole], axis=0))


def qrs_height(signal: np.ndarray, fs: float) -> np.ndarray:
    """(lead,) mean over the beats of QRS from peak to peak, mV, of (lead, time) mV at `fs` Hz; NaN
    where no beat stands out.
    """
    reach = round(0.06 * fs)
    cut = [signal[:, max(0, t - reach) : t + reach + 1] for t in beats(signal, fs)]
    if not cut:
        return np.full(len(signal), np.nan)
    return np.asarray(np.mean([np.ptp(beat, axis=1) for beat in cut], axis=0))


def _duration(signal: np.ndarray, tops: np.ndarray, fs: float) -> float:
    """Seconds in which the median beat is steep, around its middle."""
    reach, step = round((REACH + 0.08) * fs), max(1, round(0.012 * fs))
    beat = median_beat(signal, tops, reach, reach)
    if not beat.size:
        return float("nan")
    slope = np.sqrt(np.square(beat[:, step:] - beat[:, :-step]).sum(axis=0))
    slope = smooth(slope, 0.01 * fs)
    half = round(REACH * fs)
    middle = reach - step // 2
    quiet = np.quantile(slope, 0.1)
    steep = slope - quiet > EDGE * (slope[middle - half : middle + half].max() - quiet)
    steep[: middle - half] = steep[middle + half :] = False
    at = np.flatnonzero(steep)
    return float((at[-1] - at[0] + 1 - step) / fs) if len(at) else float("nan")


def smooth(x: np.ndarray, samples: float) -> np.ndarray:
    """(time,) the mean of about so many samples around each, mirrored at the ends."""
    from scipy.ndimage import uniform_filter1d

    return np.asarray(uniform_filter1d(x, max(1, round(samples))))
