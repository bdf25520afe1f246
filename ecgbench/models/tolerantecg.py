"""TolerantECG: a ConvNeXt V2 in one dimension, distilled from teachers that see fewer leads or
noise, and matched to texts of MIMIC-IV-ECG (ACM MM 2025).

The student's encoder of the authors' file. The feature is a LayerNorm of the mean over time, not a
mean of normed tokens: their scripts and their strict loading agree on it. State-dict keys are those
of the authors' file.
"""

from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn

from ecgbench.cards.model import InputContract, ModelCard, Weights
from ecgbench.ecg.leads import LEADS
from ecgbench.layers import paper_flop
from ecgbench.layers.blocks import gelu
from ecgbench.layers.features import Features, demand_all
from ecgbench.weights.load import loaded

WIDTHS, DEPTHS = (96, 192, 384, 768), (3, 3, 9, 3)
"""Channels and blocks of each stage; a stage behind the first begins at half the length."""
PATCH, KERNEL, EPS = 4, 7, 1e-6
SHORTEST = PATCH * 8
"""Samples of which the last stage has one token."""

_LICENCE = "CC BY-NC-SA 4.0 (weights); none is stated for the code"

CARD = ModelCard(
    title="TolerantECG",
    summary="ConvNeXt V2 in one dimension, taught to bear missing leads and noise",
    paper=(
        "Dang, Pham, Le and Nguyen, TolerantECG: A Foundation Model for Imperfect "
        "Electrocardiogram, ACM Multimedia 2025, arXiv:2507.09887"
    ),
    origin="github.com/Fsoft-AIC/TolerantECG at f38ad82",
    licence=_LICENCE,
    parameters=26_814_144,
    dim=WIDTHS[-1],
    contracts=(
        InputContract(
            name="paper",
            fs=500,
            seconds=10,
            leads=LEADS,
            unit="mV",
            filter=None,
            normalisation="none",
            resampler="fft",
            fill="before",
            policy="zero",
            absent="0 mV",
            short="edge",
        ),
    ),
    native=False,
    groups={
        "early": ("downsample_layers.0.", "stages.0.", "downsample_layers.1.", "stages.1."),
        "late": (
            *("downsample_layers.2.", "stages.2.", "downsample_layers.3.", "stages.3."),
            "norm.",
        ),
    },
    weights=(
        Weights(
            name="released",
            url="https://huggingface.co/ndhuynh02/TolerantECG/resolve/main/TolerantECG_encoder.pth",
            file="TolerantECG_encoder.pth",
            sha256=None,
            licence="CC BY-NC-SA 4.0",
            drop=("head.",),
            terms="no commercial use, and what is made of them under the same licence",
        ),
    ),
    objective="distillation from teachers with other leads and noise, and text contrastive",
    # its students heard noise of NSTDB: under bw, em and ma it has met the noise
    corpora=("MIMIC-IV-ECG", "NSTDB"),
    choices={
        "contract": "the authors': millivolts as they are, no filter and no mean removed, so an "
        "offset of a lead counts as signal",
        "missing leads": "0 mV in all samples, as in training, where 1 to 12 leads were kept",
        "feature": "LayerNorm of the mean over time, with epsilon 1e-5; all other norms have 1e-6",
        "missing samples": "an error; the authors do not treat them for PTB-XL",
        "initialisation": "torch's defaults for convolutions and linear maps; 0 for both "
        "parameters of the response normalisation",
        "sequence": "what the last stage gives, before mean and LayerNorm",
        "groups": "ours: early are the stem and stages 0-1, late the others",
    },
)


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of (batch, channel, time)."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class ResponseNorm(nn.Module):
    """Global response normalisation over time: (batch, time, channel) -> the same shape."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1, 1, width))
        self.beta = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """What stands out of a channel, over the mean of all channels."""
        size = x.norm(dim=1, keepdim=True)
        share = size / (size.mean(dim=-1, keepdim=True) + EPS)
        return self.gamma * (x * share) + self.beta + x


class Block(nn.Module):
    """Depthwise convolution, LayerNorm, linear map to four times the width, exact GELU, response
    normalisation, linear map back; added to its input.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2, groups=width)
        self.norm = nn.LayerNorm(width, EPS)
        self.pwconv1 = nn.Linear(width, 4 * width)
        self.grn = ResponseNorm(4 * width)
        self.pwconv2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, time) -> the same shape."""
        h = self.norm(self.dwconv(x).transpose(1, 2))
        return x + self.pwconv2(self.grn(gelu(self.pwconv1(h)))).transpose(1, 2)


class TolerantEcg(nn.Module):
    """The encoder: twelve leads in, 768 features out."""

    def __init__(self) -> None:
        super().__init__()
        first = nn.Conv1d(len(LEADS), WIDTHS[0], PATCH, PATCH)
        later = (
            nn.Sequential(ChannelNorm(a, EPS), nn.Conv1d(a, b, 2, 2)) for a, b in pairwise(WIDTHS)
        )
        stem = nn.Sequential(first, ChannelNorm(WIDTHS[0], EPS))
        self.downsample_layers = nn.ModuleList([stem, *later])
        self.stages = nn.ModuleList(
            nn.Sequential(*(Block(width) for _ in range(depth)))
            for width, depth in zip(WIDTHS, DEPTHS)
        )
        self.norm = nn.LayerNorm(WIDTHS[-1])

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of a batch of windows: a token for every 32 samples.

        signal (batch, 12, time) mV at 500 Hz, of 32 samples or more; measured (batch, 12) all True,
        since the network reads all its rows. Anything else is a ValueError.
        """
        demand_all(CARD.title, signal, measured, len(LEADS))
        if signal.shape[2] < SHORTEST:
            raise ValueError(
                f"{CARD.title} reads windows of {SHORTEST} samples or more, not {signal.shape[2]}"
            )
        x = signal
        for down, stage in zip(self.downsample_layers, self.stages):
            x = stage(down(x))
        return Features(x.transpose(1, 2), self.norm(x.mean(2)))


def build(weights: str | Path | None = None) -> TolerantEcg:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(TolerantEcg(), weights, CARD)


def paper_layers(network: nn.Module, samples: int, leads: int) -> paper_flop.Layout:
    """The layers by the paper's FLOP count; all rows are read whatever is measured."""
    n = samples // PATCH
    layers = [paper_flop.Layer(r"downsample_layers\.0\.0\.weight", n, first=True)]
    for stage, width in enumerate(WIDTHS):
        if stage:
            n //= 2
            layers.append(paper_flop.Layer(rf"downsample_layers\.{stage}\.1\.weight", n))
        here = rf"stages\.{stage}\.\d\."
        layers += [
            paper_flop.Layer(here + r"dwconv\.weight", n, groups=width),
            paper_flop.Layer(here + r"pwconv[12]\.weight", n),
        ]
    return paper_flop.Layout(tuple(layers), other=r".*\.grn\.(gamma|beta)")
