"""Tiny: two strided convolutions over twelve filled leads, small enough for tests. Enters as
`--models tests/tiny.py`.

A whole plug-in: a docstring, a card, a network and `build`. It learns the demo a little and says
nothing about hearts.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.ecg.leads import LEADS
from ecgbench.models import Features
from ecgbench.weights import load

NARROW, WIDE = 24, 48

CARD = ModelCard(
    title="Tiny",
    summary="two strided convolutions, then mean and spread over time",
    paper="none",
    origin="this project",
    licence="MIT",
    parameters=8_616,
    dim=2 * WIDE,
    contracts=(
        InputContract(
            name="paper",
            fs=100,
            seconds=2.5,
            leads=LEADS,
            unit="mV",
            filter=None,
            normalisation="none",
            fill="before",
            policy="zero",
            absent="0 mV",
        ),
    ),
    native=False,
    groups={"early": ("first.",), "late": ("second.", "norm.")},
)


class Tiny(nn.Module):
    """Twelve filled leads to tokens of 0.12 s; the pooled feature is their normalised mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(len(LEADS), NARROW, 9, stride=4)
        self.second = nn.Conv1d(NARROW, WIDE, 5, stride=3)
        self.norm = nn.LayerNorm(2 * WIDE)
        for conv in (self.first, self.second):
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """signal (batch, 12, time) mV, measured (batch, 12), which a padded network does not read
        -> Features.
        """
        x = F.gelu(self.second(F.gelu(self.first(signal)))).transpose(1, 2)
        tokens = torch.cat([x, (x - x.mean(1, keepdim=True)).abs()], 2)
        return Features(tokens, self.norm(tokens.mean(1)))


def build(weights: str | Path | None = None) -> Tiny:
    """The network with random weights (torch's generator), or those of a file."""
    network = Tiny()
    if weights is not None:
        load.load(network, weights, CARD)
    return network
