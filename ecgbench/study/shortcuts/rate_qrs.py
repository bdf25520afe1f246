"""Heart rate and QRS duration in place of the recording: two numbers that any device prints.

Both are measured in the leads that are there (`ecg.beats`). Each enters as it is, squared, as a
product, and in bands; where too few beats stand out, "not known" is a value of its own.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ecgbench.cards.model import ModelCard
from ecgbench.ecg.beats import measured as measure
from ecgbench.layers.features import Features
from ecgbench.study.shortcuts import contract

FS = 250.0
RATES = (50, 60, 70, 80, 90, 100, 120)
"""Beats a minute at which a band ends."""
DURATIONS = (0.04, 0.06, 0.08, 0.1, 0.12, 0.14)
"""Seconds."""
DIM = 5 + 2 + len(RATES) + 1 + len(DURATIONS) + 1

CARD = ModelCard(
    title="Heart rate and QRS duration",
    summary="heart rate and QRS duration in the measured leads, and nothing else",
    paper="none",
    origin="this project",
    licence="MIT",
    parameters=0,
    dim=DIM,
    contracts=(contract(fs=FS),),
    native=True,
    groups={"early": (), "late": ()},
)


class RateAndDuration(nn.Module):
    """(batch, 12, time) mV, and which leads are measured -> DIM numbers of two measurements."""

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of each window; hidden leads are not read."""
        rows = [_row(x[there]) for x, there in zip(signal.numpy(), measured.numpy())]
        pooled = torch.from_numpy(np.stack(rows))
        return Features(pooled[:, None], pooled)


def _row(signal: np.ndarray) -> np.ndarray:
    """(DIM,) float32 of (lead, time) mV."""
    seen = measure(signal, FS)
    known = np.isfinite(seen.heart_rate), np.isfinite(seen.qrs)
    x = seen.heart_rate / 40 - 2 if known[0] else 0.0
    y = seen.qrs / 0.03 - 3 if known[1] else 0.0
    bands = [_band(seen.heart_rate, RATES), _band(seen.qrs, DURATIONS)]
    return np.concatenate([[x, x * x, y, y * y, x * y], known, *bands]).astype(np.float32)


def _band(value: float, ends: tuple[float, ...]) -> np.ndarray:
    """(band,) which one a value lies in; none where it is not known."""
    at = np.searchsorted(ends, value, side="right") if np.isfinite(value) else -1
    return np.arange(len(ends) + 1) == at


def build(weights: str | Path | None = None) -> nn.Module:
    """A module without a parameter."""
    return RateAndDuration()
