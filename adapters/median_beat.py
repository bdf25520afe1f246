"""Median beat: of each lead the shape of its usual beat. Nothing is learned, and each lead is taken
by itself, so it shows what one lead holds (docs/explanation/lead_importance.md has the command).

Beats are maxima of the slope's energy (after Pan and Tompkins 1985, doi:10.1109/TBME.1985.325532,
with one threshold). A lead's shape is the median over its whole beats, 0.7 s long, divided by its
own largest value: voltage is not in it. What was not measured, a flat lead, and a lead without a
whole beat are 0.
"""

from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import uniform_filter1d
from scipy.signal import find_peaks
from torch import Tensor, nn

from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting
from ecgbench.models import Features

FS = 250
"""Hz."""
BEFORE, AFTER = 60, 116
"""Samples of a beat before and after the middle of its QRS: 0.24 and 0.46 s."""
STEP = 4
"""Samples that are averaged to one number."""
SHAPE = (BEFORE + AFTER) // STEP
"""Numbers of a lead."""

CARD = ModelCard(
    title="Median beat",
    summary="shape of the usual beat of each lead; nothing is learned",
    paper="none",
    origin="this project",
    licence="MIT",
    parameters=0,
    dim=len(LEADS) * SHAPE,
    contracts=(
        InputContract(
            name="paper",
            fs=FS,
            seconds=10,
            leads=LEADS,
            unit="mV",
            filter=Filter(kind="butterworth-sosfiltfilt", low=0.67, high=40),
            normalisation="none",
            fill="before",
            policy="native",
            absent="nothing: its shape is 0",
        ),
    ),
    native=True,
    groups={},
    choices={"scale": "each lead by its own largest value: voltage is not in it"},
)


def shape(lead: np.ndarray) -> np.ndarray:
    """(time,) mV at `FS` Hz -> (SHAPE,) float64 between -1 and 1; 0 without a whole beat."""
    energy = uniform_filter1d(np.gradient(lead) ** 2, FS // 10, mode="constant")
    usual = np.median([part.max() for part in np.array_split(energy, 5)])
    if not usual > 0:
        return np.zeros(SHAPE)
    at = find_peaks(energy, height=0.3 * usual, distance=FS * 3 // 10)[0]
    at = at[(at >= BEFORE) & (at <= len(lead) - AFTER)]
    if not len(at):
        return np.zeros(SHAPE)
    beat = np.median(lead[at[:, None] + np.arange(-BEFORE, AFTER)], axis=0)
    largest = np.abs(beat).max()
    return np.asarray(beat.reshape(SHAPE, STEP).mean(axis=1) / (largest if largest > 0 else 1.0))


class MedianBeat(nn.Module):
    """(batch, 12, time) to 12 shapes, lead by lead; no parameter."""

    none: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("none", torch.zeros(1))

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """signal (batch, 12, time) mV, measured (batch, 12) bool; rows that were not measured are
        not touched.
        """
        tokens = self.none.new_zeros((*measured.shape, SHAPE))
        tokens[measured] = self.embed_leads(signal[measured])
        return self.encode(tokens, measured)

    def embed_leads(self, signal: Tensor) -> Tensor:
        """(..., time) -> (..., SHAPE), in float64 on the CPU until then."""
        rows = signal.detach().reshape(-1, signal.shape[-1]).cpu().numpy().astype(np.float64)
        shapes = np.array([shape(row) for row in rows]).reshape(-1, SHAPE)
        return torch.from_numpy(shapes).to(self.none).unflatten(0, signal.shape[:-1])

    def encode(self, tokens: Tensor, measured: Tensor) -> Features:
        """tokens (batch, 12, SHAPE) of `embed_leads`, measured (batch, 12) -> one token of all."""
        pooled = torch.where(measured[..., None], tokens, 0).flatten(1)
        return Features(sequence=pooled[:, None], pooled=pooled)


def build(weights: str | Path | None = None) -> MedianBeat:
    """The shapes; BadSetting for weights, of which there are none."""
    if weights is not None:
        raise BadSetting(
            f"the median beat has no weights to take from {str(weights)!r}; leave them out"
        )
    return MedianBeat()
