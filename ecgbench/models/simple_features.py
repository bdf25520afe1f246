"""Simple features: of each lead the standard deviation, the heart rate, the QRS width and two
numbers of how irregular its RR intervals are. Nothing is learned, so it is a floor.

The linear protocol on top is a logistic regression on 60 numbers that a person can name; what a
network scores above that is what the network adds. Any subset of the leads can be measured. A lead
that was not measured contributes nothing: its five numbers are those of an average recording, 0 on
the fixed scale below. So do a flat lead and whatever cannot be found (a rate without two beats, an
irregularity without three).

    ecgbench run --models laef,simple_features --leads 1,2,12

Beats are maxima of the slope's energy (after Pan and Tompkins 1985, doi:10.1109/TBME.1985.325532,
without their adaptive thresholds). A QRS begins and ends where the slope passes `SHARE` of the
steepest of its beat. That is no cardiologist's reading: each lead is looked at alone, and a slow
end of the QRS is missed. In recordings of PTB-XL's folds 1 to 8 the rate from lead II lies within 5
% of that of wfdb's XQRS in 98 % of 1,487 (in atrial fibrillation in 89 % of 101), and the width,
median over leads and recordings, is 88 ms in NORM (778), 130 ms in CRBBB (29) and 158 ms in CLBBB
(32).

RMSSD is the root mean square of the differences between successive RR intervals, here in % of the
mean interval, pNN50 the share of these differences above 50 ms. No beat is told from another: a
premature, a missed or a double one makes them high too. Atrial fibrillation (106 of 1,533) is told
from all else by the first with an AUROC of 0.937 in lead I and 0.933 in lead II, by the second with
0.916 and 0.922. Leaving out intervals over 2 s changes these by at most 0.003.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import gaussian_filter1d, uniform_filter1d
from scipy.signal import find_peaks
from torch import Tensor, nn

from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting
from ecgbench.layers.features import Features, demand_some

FS = 250
"""Hz: 4 ms are fine enough for a median width, and half the work of the recordings' 500 Hz."""
QUIET = 0.3
"""s in which no second beat can follow: rates up to 200 per minute."""
BEAT = 0.3
"""Energy of the slope that makes a beat, as a share of what is usual: the median of the maxima of
five parts of the window.
"""
REACH = 0.12
"""s on either side of a beat in which its QRS is looked for; further away begins the T wave of fast
hearts.
"""
SHARE = 0.15
"""Slope at the ends of a QRS, as a share of the beat's largest. `REACH` and `SHARE` were chosen to
tell CLBBB and CRBBB from NORM in 211 recordings of PTB-XL's folds 1 to 8.
"""
STEADY = 1.0
"""% of the mean RR interval: a smaller RMSSD counts as this one. Beats are placed to 4 ms, which
alone makes 0.7 % at 150 per minute.
"""

NAMES = ("standard deviation", "heart rate", "QRS width", "ln RMSSD/RR", "pNN50")
"""In mV, 1/min, ms, ln of % and %. With the logarithm a probe tells sinus arrhythmia from the rest
better (lead II, 2,000 recordings, 5 folds: AUROC 0.82, not 0.78).
"""
AVERAGE = (
    [0.13, 0.13, 0.11, 0.12, 0.10, 0.10, 0.17, 0.27, 0.26, 0.24, 0.22, 0.18],
    [74] * len(LEADS),
    [101, 103, 113, 98, 113, 112, 103, 103, 100, 93, 89, 90],
    [1.64, 1.52, 1.58, 1.59, 1.65, 1.50, 1.38, 1.33, 1.32, 1.34, 1.39, 1.44],
    [25, 23, 23, 24, 25, 22, 20, 19, 19, 20, 20, 21],
)
"""Of each feature and lead the mean over 1,533 recordings of PTB-XL's folds 1 to 8. Constants for
all data: no fit standardises.
"""
SPREAD = (
    [0.07, 0.06, 0.09, 0.05, 0.08, 0.07, 0.10, 0.15, 0.14, 0.10, 0.10, 0.08],
    [17] * len(LEADS),
    [31, 32, 36, 29, 39, 36, 20, 15, 16, 16, 16, 18],
    [0.96, 0.99, 1.09, 0.96, 1.06, 1.05, 1.07, 1.08, 1.08, 1.07, 1.05, 1.02],
    [28] * len(LEADS),
)
"""The standard deviations over the same recordings."""

_FED = InputContract(
    name="paper",
    fs=FS,
    seconds=10,
    leads=LEADS,
    unit="mV",
    # a wandering baseline and muscle would count as standard deviation and as slope; they
    # are none of the heart's
    filter=Filter(kind="butterworth-sosfiltfilt", low=0.67, high=40),
    normalisation="none",
    fill="before",
    policy="native",
    absent="nothing: its features are those of an average recording, 0",
)

CARD = ModelCard(
    title="Simple features",
    summary="spread, heart rate, QRS width and RR irregularity of each lead; nothing is learned",
    paper="Beats after Pan and Tompkins 1985, doi:10.1109/TBME.1985.325532",
    origin="this project",
    licence="MIT",
    parameters=0,
    dim=len(LEADS) * len(NAMES),
    contracts=(
        _FED,
        # there are no authors whose own feeding could differ
        replace(_FED, name="upstream"),
    ),
    native=True,
    objective="none",
    choices={
        "filter": (
            "0.67-40 Hz: without it the mean width tells CRBBB from NORM less well (AUROC "
            "0.96, not 0.98, in PTB-XL's folds 1 to 8)"
        ),
        "scale": (
            "centre and spread of each feature are those of 1,533 recordings of PTB-XL's "
            "folds 1 to 8, for all data"
        ),
    },
)


def measure(signal: np.ndarray) -> np.ndarray:
    """(lead, time) mV at `FS` Hz, filtered -> (lead, 5) float64 as `NAMES` says; NaN what cannot be
    found. Each lead by itself.
    """
    signal = np.asarray(signal, np.float64)
    slope = np.gradient(signal, 1 / FS, axis=-1)
    values = np.full((len(signal), len(NAMES)), np.nan)
    for features, lead, steepness in zip(values, signal, slope):
        if np.ptp(lead) > 0:
            at = beats(steepness)
            features[:] = lead.std(), rate(at), width(steepness, at), *irregularity(at)
    return values


def beats(slope: np.ndarray) -> np.ndarray:
    """slope (time,) mV/s -> (beat,) samples at which a QRS has its middle."""
    energy = uniform_filter1d(slope**2, round(0.1 * FS), mode="constant")
    usual = np.median([part.max() for part in np.array_split(energy, 5)])
    return (
        np.asarray(find_peaks(energy, height=BEAT * usual, distance=round(QUIET * FS))[0])
        if usual > 0
        else np.zeros(0, int)
    )


def rate(at: np.ndarray) -> float:
    """Beats per minute by the median interval, which a missed or an early beat hardly moves; NaN of
    fewer than two beats.
    """
    return 60 * FS / float(np.median(np.diff(at))) if len(at) > 1 else np.nan


def width(slope: np.ndarray, at: np.ndarray) -> float:
    """ms from the first to the last sample as steep as `SHARE` of the beat's steepest, median over
    whole beats; NaN without any.
    """
    reach = round(REACH * FS)
    at = at[(at >= reach) & (at < len(slope) - reach)]
    if not len(at):
        return np.nan
    # without zeros at the peaks of R and S
    smooth = np.sqrt(gaussian_filter1d(slope**2, 0.01 * FS))
    near = smooth[at[:, None] + np.arange(-reach, reach + 1)]
    steep = near >= SHARE * near.max(axis=1, keepdims=True)
    samples = steep.shape[1] - steep.argmax(axis=1) - steep[:, ::-1].argmax(axis=1)
    return 1000 / FS * float(np.median(samples))


def irregularity(at: np.ndarray) -> tuple[float, float]:
    """ln of RMSSD in % of the mean RR interval (at least `STEADY`), and pNN50 in %; NaN of fewer
    than three beats.
    """
    if len(at) < 3:
        return np.nan, np.nan
    intervals = np.diff(at) / FS
    differences = np.diff(intervals)
    rmssd = 100 * np.sqrt(np.mean(differences**2)) / intervals.mean()
    return float(np.log(max(rmssd, STEADY))), 100 * float(np.mean(np.abs(differences) > 0.05))


class SimpleFeatures(nn.Module):
    """(batch, 12, time) to 60 features, lead by lead; buffers only, no parameter."""

    average: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.tensor(AVERAGE).T)
        self.register_buffer("spread", torch.tensor(SPREAD).T)

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """signal (batch, 12, time) mV, measured (batch, 12) bool; rows that were not measured are
        not touched. ValueError for another shape, and for a window without a measured lead.
        """
        demand_some(CARD.title, signal, measured, len(LEADS))
        tokens = self.average.new_full((*measured.shape, len(NAMES)), torch.nan)
        tokens[measured] = self.embed_leads(signal[measured])
        return self.encode(tokens, measured)

    def embed_leads(self, signal: Tensor) -> Tensor:
        """(..., time) -> (..., 5): what `measure` finds, in float64 on the CPU until then."""
        rows = signal.detach().reshape(-1, signal.shape[-1]).cpu().numpy()
        return torch.from_numpy(measure(rows)).to(self.average).unflatten(0, signal.shape[:-1])

    def encode(self, tokens: Tensor, measured: Tensor) -> Features:
        """tokens (batch, 12, 5) of `embed_leads`, measured (batch, 12) -> one token of 60, 0 where
        nothing was measured or found.
        """
        known = measured[..., None] & ~tokens.isnan()
        pooled = torch.where(known, (tokens - self.average) / self.spread, 0).flatten(1)
        return Features(sequence=pooled[:, None], pooled=pooled)


def build(weights: str | Path | None = None) -> SimpleFeatures:
    """The features; BadSetting for weights, of which there are none."""
    if weights is not None:
        raise BadSetting(
            f"simple features have no weights to take from {str(weights)!r}; leave them out"
        )
    return SimpleFeatures()
