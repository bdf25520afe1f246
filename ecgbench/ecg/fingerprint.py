"""Fingerprints of recordings: numbers by which the same recording is found again although it was
cut elsewhere, inverted, resampled, rescaled, rounded, lightly filtered or made noisier.

Each lead stands for itself, by its band from 8 to 30 Hz, sampled at 100 Hz. A window's hash holds
the signs of fixed projections of the samples around a half second: noise changes few of them, and
any signal has them, but only copies that begin together share them. A beat's hash holds the times
to the next two beats, in steps of STEP, and such signs of the samples around it, and does not
depend on where the recording begins; beats are the peaks of the envelope, placed between samples
by a parabola. Neither depends on the unit, the baseline or the lead's sign. A step or a sign on the
edge changes now and then, so of two copies a part of the hashes agree, all of them at one shift in
time; two recordings that only resemble each other have no such shift.
"""

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ecgbench.core.seeds import rng
from ecgbench.ecg.leads import LEADS

ORDER = sorted(LEADS, key=lambda lead: lead not in ("I", "II", "V2", "V5"))
"""Leads of which the first BEATING that a recording has give hashes of beats. All twelve would
agree by chance more often, since six of them follow from two.
"""
BEATING = 4
RATE = 100
"""Hz of the beats' search."""
BAND = (8.0, 30.0)
"""Hz: QRS complexes without baseline, mains and most of what filters change."""
MIN_INTERVAL = 0.25
"""Seconds between two beats at least."""
LOW = 0.25
"""Peaks lower than this share of a lead's ninth decile of peaks are no beats."""
STEP = 3.0
"""Milliseconds in which times between beats are counted."""
LENGTH = 10
"""Bits of such a time: up to 3 s."""
BITS = 20
"""Of a beat's shape."""
AROUND = 0.2
"""Seconds before and after a beat whose samples are projected."""
EVERY, WIDE = 0.5, 1.0
"""Seconds from one window to the next, and to either side of its middle."""
WINDOWS = 4
"""Least number of windows, closer in a short recording."""
EDGE = 0.3
"""Seconds at either end that are left out, of beats and of comparisons: the band is not itself
there.
"""
SHORTEST = 1.0
"""Seconds of a recording that has hashes."""
FINE = 500
"""Hz at which two recordings are compared."""
COMPARED = (4.0, 30.0)
"""Hz, of that comparison."""
OVERLAP = 4.0
"""Seconds that two recordings must share for it; shorter ones must agree as a whole, to ROUNDED,
for beats of one person resemble each other.
"""
ROUNDED = 0.9999
"""Correlation of what differs by rounding alone."""
DISTINCT = 0.2
"""Two recordings differ by at most this share of what either differs from itself some beats later:
regular beats, of a simulator or a pacemaker, say nothing.
"""
LATER = (0.25, 3.0)
"""Seconds, of these beats."""
SLACK = 0.02
"""Seconds by which a shift is moved to either side for the best agreement."""
FEW, PROMISING = 3, 0.6
"""Leads of a first look at 100 Hz, and the correlation below which it is the last."""
SILENT = 1e-4
"""A lead below this share of its mean energy is ignored in a cut."""


@dataclass(frozen=True)
class Fingerprint:
    """The hashes of one recording: 12 bytes each."""

    hashes: np.ndarray
    """(hash,) uint64; those of different leads never agree."""
    times: np.ndarray
    """(hash,) int32: when, in milliseconds from the start."""


NOTHING = Fingerprint(np.zeros(0, np.uint64), np.zeros(0, np.int32))


def fingerprint(signal: np.ndarray, fs: float) -> Fingerprint:
    """The fingerprint of (12, time) in clinical order at `fs` Hz, in any unit.

    A lead without variation, or with samples that are not finite, has no hashes; neither has a
    recording below SHORTEST.
    """
    leads = [i for i in map(LEADS.index, ORDER) if measured(signal[i])]
    if not leads or signal.shape[1] < SHORTEST * fs:
        return NOTHING
    bands = _band(signal[leads], fs, RATE, BAND)
    found = [_windows(band.real, lead) for band, lead in zip(bands, leads)]
    found += [_hashed(*_beats(band), lead) for band, lead in zip(bands[:BEATING], leads)]
    hashes, times = map(np.concatenate, zip(*found))
    return Fingerprint(hashes, times)


def measured(row: np.ndarray) -> bool:
    """Whether (time,) samples of a lead are finite and vary."""
    return bool(np.isfinite(row).all() and np.ptp(row) > 0)


def agreement(
    first: np.ndarray, first_fs: float, second: np.ndarray, second_fs: float, shift: float
) -> tuple[float, float]:
    """How well two recordings, (12, time) each, agree where they overlap: the correlation of what
    they hold from 4 to 30 Hz, whatever its sign, as the mean over leads, and the shift in seconds
    at which it is largest.

    shift: what happens at t in the second happens at t + shift in the first, about; it is moved by
    up to SLACK. (0, shift) where they share no lead or too little for OVERLAP, or where a first
    look at FEW leads finds less than PROMISING, or where either agrees with itself, some beats
    later, nearly as well (DISTINCT).
    """
    common = [i for i in range(len(LEADS)) if measured(first[i]) and measured(second[i])]
    one, two = (first, first_fs), (second, second_fs)
    if not common or _closest(one, two, common[:FEW], RATE, shift)[0] < PROMISING:
        return 0.0, shift
    value, at = _closest(one, two, common, FINE, shift)
    brief = max(first.shape[1] / first_fs, second.shape[1] / second_fs) < OVERLAP + 2 * EDGE
    if value < ROUNDED and (brief or not _distinct(value, one, two, common)):
        return 0.0, shift
    return value, at


def _distinct(
    value: float,
    one: tuple[np.ndarray, float],
    two: tuple[np.ndarray, float],
    leads: list[int],
) -> bool:
    """Whether a correlation is far above that of either recording with itself."""
    itself = min(_repeats(recording, leads[:FEW]) for recording in (one, two))
    return 1 - value <= DISTINCT * (1 - itself)


def _repeats(recording: tuple[np.ndarray, float], leads: list[int]) -> float:
    """The largest correlation of some leads with themselves LATER, at half the length at most."""
    edge, (signal, fs) = round(EDGE * FINE), recording
    band = _scaled(_band(signal[leads], fs, FINE, COMPARED).real)[:, edge:-edge]
    start, stop = (round(seconds * FINE) for seconds in LATER)
    lags = range(start, min(stop, band.shape[1] // 2))
    return max((_correlation(band[:, lag:], band[:, :-lag]) for lag in lags), default=0.0)


def _closest(
    first: tuple[np.ndarray, float],
    second: tuple[np.ndarray, float],
    leads: list[int],
    rate: int,
    shift: float,
) -> tuple[float, float]:
    """The largest correlation of some leads, and its shift, in steps of 1 / rate around `shift`."""
    edge, bands = round(EDGE * rate), []
    for signal, fs in (first, second):
        band = _band(signal[leads], fs, rate, COMPARED).real
        bands.append(_scaled(band)[:, edge : band.shape[1] - edge])
    one, two = bands
    best, middle, slack = (0.0, shift), round(shift * rate), round(SLACK * rate)
    shared = min(OVERLAP * rate, max(one.shape[1], two.shape[1], 2) - rate / RATE)
    for lag in range(middle - slack, middle + slack + 1):
        start, stop = max(lag, 0), min(one.shape[1], lag + two.shape[1])
        if stop - start >= shared:
            value = _correlation(one[:, start:stop], two[:, start - lag : stop - lag])
            best = max(best, (value, lag / rate))
    return best


def _scaled(band: np.ndarray) -> np.ndarray:
    """Each lead divided by its root mean square, where it has one."""
    size = np.sqrt((band**2).mean(axis=1, keepdims=True))
    scaled: np.ndarray = np.divide(band, size, out=np.zeros_like(band), where=size > 0)
    return scaled


def _correlation(one: np.ndarray, two: np.ndarray) -> float:
    """Mean size over the leads that are not silent in both cuts."""
    own, other = (one**2).mean(axis=1), (two**2).mean(axis=1)
    heard = (own > SILENT) | (other > SILENT)
    size, product = np.sqrt(own * other)[heard], (one * two).mean(axis=1)[heard]
    each = np.divide(product, size, out=np.zeros_like(size), where=size > 0)
    return float(np.abs(each).mean()) if len(each) else 0.0


def _band(signal: np.ndarray, fs: float, rate: int, band: tuple[float, float]) -> np.ndarray:
    """(lead, time) at `fs` as analytic signals of a band at `rate`: the real part is the band, the
    absolute value its envelope.

    By Fourier transform of the signal continued to whole seconds, so any two rates fit, without the
    line from its first to its last sample, whose step would ring; the edges of the band are an
    octave of a cosine.
    """
    samples = signal.shape[1]
    drift = np.linspace(signal[:, 0], signal[:, -1], samples, axis=1, dtype=signal.dtype)
    signal = signal - drift
    whole = round(math.ceil(samples / fs) * fs)
    if whole > samples:
        signal = np.pad(signal, ((0, 0), (0, whole - samples)), mode="edge")
    spectrum = np.fft.rfft(signal, axis=1)
    out = round(whole / fs * rate)
    kept = min(spectrum.shape[1], out // 2)
    one_sided = np.zeros((len(signal), out), np.complex128)
    one_sided[:, :kept] = spectrum[:, :kept] * _shape(kept, fs / whole, *band)
    analytic: np.ndarray = np.fft.ifft(one_sided, axis=1) * (out / whole)
    return analytic[:, : math.floor(samples / fs * rate)]


@lru_cache(maxsize=64)
def _shape(count: int, step: float, low: float, high: float) -> np.ndarray:
    """(count,) factors of the frequencies 0, step, 2 step ... Hz of an analytic signal."""
    octaves = np.log2(np.maximum(np.arange(count) * step, 1e-9))
    rise = np.clip(octaves - math.log2(low) + 0.5, 0, 1)
    fall = np.clip(math.log2(high) - octaves + 0.5, 0, 1)
    shape: np.ndarray = 2 * (np.sin(np.pi / 2 * rise) * np.sin(np.pi / 2 * fall)) ** 2
    return shape


def _beats(analytic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The band (time,) and the places of its beats, in samples and parts of them."""
    from scipy.signal import find_peaks  # slow to import; names are checked without it

    envelope = np.abs(analytic)
    peaks, _ = find_peaks(envelope, distance=MIN_INTERVAL * RATE)
    heights = np.sort(envelope[peaks])
    peaks = peaks[envelope[peaks] >= LOW * heights[9 * len(heights) // 10 :][:1]]
    before, at, after = (envelope[peaks + k] for k in (-1, 0, 1))
    bend = before - 2 * at + after
    part = np.divide(before - after, 2 * bend, out=np.zeros_like(bend), where=bend != 0)
    positions = peaks + part
    edge = EDGE * RATE
    return analytic.real, positions[(positions >= edge) & (positions <= len(envelope) - 1 - edge)]


def _hashed(band: np.ndarray, positions: np.ndarray, lead: int) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the beats that have two after them, and their times in ms."""
    from scipy.ndimage import map_coordinates  # as in `_beats`

    count = len(positions) - 2
    if count < 1:
        return np.zeros(0, np.uint64), np.zeros(0, np.int32)
    steps = np.rint(np.diff(positions) * 1000 / RATE / STEP).astype(np.uint64)
    offsets = np.arange(-round(AROUND * RATE), round(AROUND * RATE) + 1)
    at = positions[:count, None] + offsets
    word = _signs(map_coordinates(band, at[None], mode="nearest"), BITS)
    for part in (steps[:count], steps[1 : count + 1]):
        word = (word << np.uint64(LENGTH)) | np.minimum(part, np.uint64(2**LENGTH - 1))
    word |= np.uint64(lead) << np.uint64(BITS + 2 * LENGTH)
    return word, np.rint(positions[:count] * 1000 / RATE).astype(np.int32)


def _windows(band: np.ndarray, lead: int) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the windows of a band, of as many bits, and their times in ms."""
    edge, reach, bits = round(EDGE * RATE), round(WIDE * RATE), BITS + 2 * LENGTH
    inner = band[edge : len(band) - edge]
    step = min(round(EVERY * RATE), len(inner) // WINDOWS)
    every = sliding_window_view(np.pad(inner, reach, mode="edge"), 2 * reach + 1)[::step]
    word = _signs(every, bits) | np.uint64(len(LEADS) + lead) << np.uint64(bits)
    return word, ((edge + step * np.arange(len(word))) * 1000 // RATE).astype(np.int32)


def _signs(cut: np.ndarray, bits: int) -> np.ndarray:
    """(row,) uint64: signs of projections of (row, sample), those of the inverted row alike."""
    signs = cut @ _projections(cut.shape[1], bits) > 0
    signs = signs ^ signs[:, :1]
    word: np.ndarray = signs @ (np.uint64(1) << np.arange(bits, dtype=np.uint64))
    return word


@cache
def _projections(samples: int, bits: int) -> np.ndarray:
    """(samples, bits), each orthogonal to a constant."""
    drawn = rng("fingerprint projections").normal(size=(samples, bits))
    fixed: np.ndarray = drawn - drawn.mean(axis=0)
    return fixed
