"""Checks of the heart beats: whether the stated sampling rate can be right, and whether lead I is
inverted because the arm electrodes were exchanged.

Both use 10 s from the middle of a recording, and both report what is likely, not what is certain.
"""

from dataclasses import dataclass

import numpy as np

from ecgbench.ecg.beats import beats, median_beat, smooth
from ecgbench.ecg.checks.finding import Finding, middle
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.recording import Recording

PERIODS = (0.2, 4.0)
"""s: 300 to 15 beats a minute."""
REGULAR = 0.4
"""Least autocorrelation at the period for a heart rate to count."""
SLOW = ((50.0, 0.104), (60.0, 0.12), (300.0, 0.2))
"""(beats a minute at most, s at least): a rhythm so slow with QRS energy so wide is stretched. In
2,400 genuine recordings the width is 0.032 to 0.144 s, median 0.064.
"""
FAST = ((150.0, 0.044),)
"""(beats a minute at least, s at most): one so fast and narrow is squeezed."""
USUAL = ((50.0, 110.0), (0.045, 0.095))
"""Beats a minute and s after the right factor."""
FACTORS = (2.0, 0.5, 2.5, 0.4, 4.0, 0.25)
"""True rate by stated rate, the likely ones first."""


@dataclass(frozen=True)
class Rhythm:
    """Rhythm of 10 s, by the autocorrelation of the energy of the slopes."""

    heart_rate: float
    """Beats a minute; NaN where there is no clear period."""
    width: float
    """Width of a QRS complex, s: of the autocorrelation of the energy at half its height."""
    regular: float
    """Autocorrelation at the period of the heart rate, at most 1."""


def _energy(recording: Recording) -> np.ndarray:
    """(time,) how far the slopes of the leads together are steeper than usual, over 20 ms, without
    its mean, the steepest hundredth levelled; empty of less than 2 s.
    """
    signal, step = middle(recording), max(1, round(0.01 * recording.fs))
    rise = signal[:, step:] - signal[:, :-step]
    steep = np.sqrt(np.einsum("ij,ij->j", rise, rise))
    if len(steep) < 2 * recording.fs:
        return np.zeros(0)
    usual, most = np.quantile(steep.astype(np.float64), [0.5, 0.99])
    energy = np.maximum(np.minimum(steep, np.float32(most)) - float(usual), 0)
    energy = smooth(energy, 0.02 * recording.fs)
    return np.asarray(energy - energy.mean())


def rhythm(energy: np.ndarray, fs: float) -> Rhythm:
    """The heart rate and the width of the QRS complexes by (time,) `_energy` at `fs` Hz, if that is
    right.
    """
    from scipy.fft import irfft, next_fast_len, rfft  # as in ecg.filters

    length = next_fast_len(2 * len(energy))
    like = irfft(np.abs(rfft(energy, length)) ** 2, length)[: len(energy)]
    like /= like[0] * (1 - np.arange(len(like)) / len(like))
    below = np.flatnonzero(like < 0.5)
    width = 2 * below[0] / fs if len(below) else np.nan
    first, last = int(PERIODS[0] * fs), min(int(PERIODS[1] * fs), int(0.6 * len(like)))
    heights = smooth(like, 0.04 * fs)[first:last]
    tops = np.flatnonzero((heights[1:-1] >= heights[:-2]) & (heights[1:-1] > heights[2:])) + 1
    tops = tops[heights[tops] >= 0.7 * heights.max(initial=0)]
    if not len(tops):
        return Rhythm(np.nan, width, 0.0)
    return Rhythm(60 * fs / (first + tops[0]), width, float(heights[tops[0]]))


def check_rate(recording: Recording) -> list[Finding]:
    """Whether the rhythm is that of a recording whose rate was stated wrongly, and which rate would
    make it usual.
    """
    energy = _energy(recording)
    if not energy.any():
        return []
    seen = rhythm(energy, recording.fs)
    pace, width = seen.heart_rate, seen.width
    odd = any(pace <= most and width >= least for most, least in SLOW)
    odd |= any(pace >= least and width <= most for least, most in FAST)
    if not odd or seen.regular < REGULAR:
        return []
    (slowest, fastest), (narrow, wide) = USUAL
    for factor in FACTORS:
        if slowest <= pace * factor <= fastest and narrow <= width / factor <= wide:
            return [
                Finding(
                    "rate",
                    f"at the stated {recording.fs:g} Hz the heart beats {pace:.0f} times a minute "
                    f"with QRS complexes {1000 * width:.0f} ms wide (energy, half height); "
                    f"{recording.fs * factor:g} Hz would make them {pace * factor:.0f} and "
                    f"{1000 * width / factor:.0f} ms",
                )
            ]
    return []


def check_arms(recording: Recording) -> list[Finding]:
    """Whether P, QRS and T of lead I are upside down while aVR is upright, against V5 and V6: the
    usual sign of exchanged arm electrodes. A heart on the right side looks alike in these leads.
    """
    if {*LEADS} - {*recording.leads} or recording.seconds < 1:
        return []
    signal, fs = middle(recording), recording.fs
    one, right, five, six = (LEADS.index(n) for n in ("I", "aVR", "V5", "V6"))
    if not _alike(_centred(signal[one]), _centred(signal[six])) < -0.3:
        return []  # which spares the beats of nearly all recordings
    at = int(0.3 * fs)
    beat = median_beat(signal, beats(signal, fs), at, int(0.45 * fs))
    if not beat.size:
        return []
    beat = beat - np.median(beat[:, at - int(0.1 * fs) : at - int(0.06 * fs)], axis=1)[:, None]
    span = int(0.06 * fs)
    area = beat[:, at - span : at + span].sum(axis=1) * 1000 / fs
    before = beat[:, at - int(0.26 * fs) : at - span]
    whole, p_wave = (
        _alike(of[one], of[six]) for of in (beat, before - np.median(before, axis=1, keepdims=True))
    )
    upside_down = area[one] < 0 < min(area[right], area[five], area[six])
    if not (upside_down and whole < -0.6 and p_wave < -0.2):
        return []
    unit = {"mV": "uV s"}.get(recording.unit, "thousandths s")
    return [
        Finding(
            "arms",
            f"the electrodes of the arms were likely exchanged: the net area of QRS is "
            f"{area[one]:.1f} in I and {area[right]:.1f} in aVR where V5 has {area[five]:.1f} and "
            f"V6 {area[six]:.1f} {unit}, and the beat in I goes against V6 (correlation "
            f"{whole:.2f}, P wave {p_wave:.2f})",
        )
    ]


def _centred(x: np.ndarray) -> np.ndarray:
    return np.asarray(x - x.mean())


def _alike(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation without removing the means; 0 where one signal is 0."""
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size else 0.0
