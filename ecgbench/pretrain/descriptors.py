"""Descriptors of ECG segments: what a codebook is fitted on, and what LAEF's first stage predicts
the codes of.

A window of 5 s at 100 Hz, prepared as LAEF's contract says (each lead scaled to [-1, 1]), is cut
into 20 segments of 25 samples per lead; each segment is described alone. Two kinds: MFCC by Kaldi's
conventions, and 16 values of the segment and its spectrum; a preset is one kind or both, one behind
the other. The kinds and their options are HuBERT-ECG's (Coppola et al., medRxiv
2024.11.14.24317328), there for windows of 64 samples; LAEF's paper keeps them for segments of 25.

What is linear is one matrix: mean, pre-emphasis, window and Fourier transform before the power
spectrum, DCT and lifter after the logarithm. So a batch costs three products over all of its
segments; nothing is stored, each batch goes on to the codebook.

Segments and LAEF's nodes are not the same samples. Segment j is samples 25j..25j+24, node j of the
embedder sees 24j..24j+39 (the paper's alignment, kept): the segment begins j samples behind the
node's field, and nodes 16 to 19 do not see the last 1 to 4 samples of theirs.
`LaefConfig.node_samples` gives the latter.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ecgbench.errors import UnknownName

FS = 100.0
"""Rate of LAEF's windows, Hz."""
SAMPLES = 25
"""Of one segment."""
FLOOR = float(np.finfo(np.float32).eps)
"""Smallest mel energy before the logarithm: Kaldi's, in any precision."""
_AT_ONCE = 4096
"""Segments that go through together on a CPU: their intermediate arrays stay in the cache."""


@dataclass(frozen=True, kw_only=True)
class Mfcc:
    """Mel-frequency cepstral coefficients of one frame, the whole segment: (segment, samples) ->
    (segment, coefficients).

    Kaldi's order: mean removed, pre-emphasis, Povey window (Hann to the power 0.85), power spectrum
    of the segment padded with zeros to `fft`, triangular filters on the mel scale, logarithm (not
    below log `FLOOR`), orthonormal DCT, lifter. C0 is the first coefficient; no dither, no energy,
    no deltas (of one frame they are 0). float32 agrees with float64 to 2e-3 absolute on ECG, where
    coefficients reach 250.
    """

    fft: int
    low: float
    """Lower edge of the first filter, Hz."""
    high: float
    """Upper edge of the last filter, Hz."""
    samples: int = SAMPLES
    fs: float = FS
    filters: int = 23
    coefficients: int = 13
    emphasis: float = 0.97
    lifter: float = 22.0
    kind: str = field(default="mfcc", init=False)

    @property
    def dim(self) -> int:
        """Values of a segment: C0, C1, ..."""
        return self.coefficients

    def bank(self) -> np.ndarray:
        """Weights of the mel filters, (filters, fft / 2) float64: triangles over the bins below the
        Nyquist frequency.
        """
        edges = np.linspace(_mel(self.low), _mel(self.high), self.filters + 2)
        rising, width = edges[:-2, None], np.diff(edges)[0]
        distance = (_mel(np.arange(self.fft // 2) * self.fs / self.fft) - rising) / width
        return np.maximum(0, np.minimum(distance, 2 - distance))

    def __call__(self, segments: Tensor) -> Tensor:
        """(segment, samples) -> (segment, coefficients) in the type and on the device of
        `segments`.
        """
        wave, mel, cepstrum, offset = _mfcc_tables(self, segments.device, segments.dtype)
        # the matrix removes the mean too; removed before, it costs no digits of the small waves
        # around it
        spectrum = ((segments - segments.mean(1, keepdim=True)) @ wave).square_()
        return torch.addmm(offset, (spectrum @ mel).clamp_(min=FLOOR).log_(), cepstrum)


@dataclass(frozen=True, kw_only=True)
class TimeFrequency:
    """16 values of a segment and its spectrum: (segment, samples) -> (segment, 16): min, max, mean,
    RMS, variance, deviation, power, peak, peak-to-peak, crest, skewness, kurtosis, and of S its
    max, sum, mean and variance.

    Population statistics; skewness and kurtosis biased, kurtosis in excess of the normal's. S =
    |FFT|^2 / samples over all bins of the segment itself, two-sided. Of a constant segment, as far
    as its type can tell, skewness and kurtosis are 0, and so is the crest factor of zeros (0/0 by
    the formulas). float32 agrees with float64 to 2e-5, skewness and kurtosis to 5e-3 on ECG.
    """

    samples: int = SAMPLES
    kind: str = field(default="time-frequency", init=False)
    dim: ClassVar[int] = 16

    def __call__(self, segments: Tensor) -> Tensor:
        """(segment, samples) -> (segment, 16) in the type and on the device of `segments`."""
        # sums over a segment then run along the segments, side by side in memory
        x = segments.T.contiguous()
        low, high = x.amin(0), x.amax(0)
        mean = x.mean(0).clamp(low, high)  # a rounded mean of equal values may differ from them
        peak, power = torch.maximum(high, -low), x.square().mean(0)
        rms = power.sqrt()
        x = x - mean  # never in place: of one segment x is the caller's memory
        variance = x.square().mean(0)
        deviation = variance.sqrt()
        still = deviation <= torch.finfo(x.dtype).eps * peak
        z = x / torch.where(still, 1, deviation)
        square = z.square()
        skewness, kurtosis = (
            moment.mean(0).masked_fill(still, 0) for moment in (square * z, square.square() - 3)
        )
        crest = peak / torch.where(rms > 0, rms, 1)
        sizes = (low, high, mean, rms, variance, deviation, power, peak, high - low, crest)
        return torch.stack([*sizes, skewness, kurtosis, *self._spectrum(x, mean)], 1)

    def _spectrum(self, centred: Tensor, mean: Tensor) -> tuple[Tensor, ...]:
        """S from the segments without their mean (samples, segment), and that mean, which is the
        bin of 0 Hz.
        """
        cosine, sine, share = _fourier_tables(self.samples, centred.device, centred.dtype)
        s = (cosine @ centred).square_() + (sine @ centred).square_()
        s[0] = self.samples * mean.square()
        average = share @ s
        return s.amax(0), self.samples * average, average, share @ (s - average).square_()


@dataclass(frozen=True)
class Descriptor:
    """A preset: one or several kinds, one behind the other."""

    name: str
    parts: tuple[Mfcc | TimeFrequency, ...]

    @property
    def dim(self) -> int:
        """Values of one segment."""
        return sum(part.dim for part in self.parts)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Everything that decides the numbers, as plain JSON types: for a codebook's file."""
        return {"name": self.name, "parts": [asdict(part) for part in self.parts]}

    @torch.no_grad()
    def __call__(self, windows: Tensor) -> Tensor:
        """(..., time) float32 or float64 -> (..., time / samples, dim), on the same device: (batch,
        lead, 500) -> (batch, lead, 20, dim).

        Never in half precision, whatever autocast says. A segment that holds NaN (a lead that was
        not measured) gives NaN and touches no other.
        """
        samples = self.parts[0].samples
        exact = windows if windows.dtype == torch.float64 else windows.float()
        segments = exact.reshape(-1, samples)
        described = segments.new_empty(len(segments), self.dim)
        widths = [part.dim for part in self.parts]
        at_once = _AT_ONCE if segments.device.type == "cpu" else max(1, len(segments))
        with torch.autocast(segments.device.type, enabled=False):
            for piece, rows in zip(segments.split(at_once), described.split(at_once)):
                for part, values in zip(self.parts, rows.split(widths, 1)):
                    values.copy_(part(piece))
        return described.view(*windows.shape[:-1], windows.shape[-1] // samples, self.dim)


_PAPER = Mfcc(fft=32, low=20, high=50)
_ECG = Mfcc(fft=64, low=0.5, high=47)

PRESETS: Mapping[str, Descriptor] = {
    d.name: d
    for d in (
        Descriptor("mfcc-paper", (_PAPER,)),
        Descriptor("mfcc-ecg", (_ECG,)),
        Descriptor("time-frequency", (TimeFrequency(),)),
        Descriptor("mixed", (TimeFrequency(), _PAPER)),
        Descriptor("mixed-ecg", (TimeFrequency(), _ECG)),
    )
}
"""`mfcc-paper`: HuBERT-ECG's options (20 Hz to the Nyquist frequency) with the FFT that 25 samples
need; 5 of its 23 filters are empty. `mfcc-ecg`: over the band that the contract's filter leaves,
0.5-47 Hz, with bins half as wide. `mixed`: HuBERT-ECG's third type.
"""


def preset(name: str) -> Descriptor:
    """The descriptor called `name`; UnknownName with the nearest ones."""
    if name not in PRESETS:
        raise UnknownName("descriptor", name, PRESETS)
    return PRESETS[name]


def _mel(hz: float | np.ndarray) -> Any:
    return 1127.0 * np.log1p(np.asarray(hz, np.float64) / 700.0)


@cache
def _mfcc_tables(spec: Mfcc, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """(samples, 2 bins), (2 bins, filters), (filters, coefficients), (coefficients,): computed in
    float64, once.

    Only bins that a filter weighs and filters that hold a bin; what the empty filters contribute is
    the constant at the end.
    """
    n, bank = spec.samples, spec.bank()
    there, used = bank.any(1), np.flatnonzero(bank.any(0))
    centre = np.eye(n) - 1 / n
    # the first sample lacks a predecessor, and its window is 0
    emphasis = np.eye(n) - spec.emphasis * np.eye(n, k=-1)
    shaped = np.hanning(n)[:, None] ** 0.85 * (emphasis @ centre)
    angle = 2 * np.pi / spec.fft * np.outer(used, np.arange(n))
    wave = np.concatenate([np.cos(angle), np.sin(angle)]) @ shaped
    mel = np.concatenate([bank[there][:, used]] * 2, 1)

    order = np.arange(spec.coefficients)
    dct = np.cos(np.pi / spec.filters * np.outer(np.arange(spec.filters) + 0.5, order)) * math.sqrt(
        2 / spec.filters
    )
    dct[:, 0] /= math.sqrt(2)
    dct *= 1 + spec.lifter / 2 * np.sin(np.pi * order / spec.lifter)
    offset = math.log(FLOOR) * dct[~there].sum(0)
    tables = (wave.T, mel.T, dct[there], offset)
    return tuple(torch.tensor(np.ascontiguousarray(t), device=device, dtype=dtype) for t in tables)


@cache
def _fourier_tables(samples: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """(bins, samples) twice, scaled so that their squares add to S, and the bins' shares (bins,) in
    a mean over both sides.
    """
    bins = np.arange(samples // 2 + 1)
    angle = 2 * np.pi / samples * np.outer(bins, np.arange(samples))
    share = np.where((bins == 0) | (2 * bins == samples), 1, 2) / samples
    tables = (np.cos(angle) / math.sqrt(samples), np.sin(angle) / math.sqrt(samples), share)
    return tuple(torch.tensor(t, device=device, dtype=dtype) for t in tables)
