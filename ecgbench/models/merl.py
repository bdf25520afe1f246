"""MERL: a 1-D ResNet18, trained to match ECGs of MIMIC-IV with their reports and with themselves
(Liu et al., ICML 2024).

The ECG encoder `res18_best_encoder.pth` without its `linear`, which its authors never use. There is
no max-pool after the stem. State-dict keys are those of the authors' files.
"""

from dataclasses import replace
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.cards.model import ModelCard, Weights, reference_feeding
from ecgbench.ecg.leads import LEADS, MIMIC_LEADS
from ecgbench.layers import paper_flop
from ecgbench.layers.features import Features, demand_all
from ecgbench.weights.load import loaded

WIDTH, STEM = 512, 64
LAYERS = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels and first stride of each layer of two blocks."""

_LICENCE = "MIT (repository); none is stated for the weights"

_PAPER = reference_feeding(fs=500, seconds=2.5, leads=LEADS)

CARD = ModelCard(
    title="MERL",
    summary="1-D ResNet18, pre-trained to align ECGs with their reports",
    paper=(
        "Liu, Wan, Ouyang, Shah, Bai and Arcucci, Zero-Shot ECG Classification with Multimodal "
        "Learning and Test-time Clinical "
        "Knowledge Enhancement, ICML 2024, arXiv:2403.06659"
    ),
    origin="github.com/cheliu-computation/MERL-ICML2024 at 38799b7",
    licence=_LICENCE,
    parameters=3_848_832,
    dim=WIDTH,
    contracts=(
        _PAPER,
        replace(
            _PAPER,
            name="upstream",
            seconds=10,
            leads=MIMIC_LEADS,
            normalisation="minmax-record",
            scope="window",
            fill="after",
            absent="0 after the scaling: the lowest value of the leads that are there",
            short="edge",
        ),
    ),
    native=False,
    groups={"early": ("conv1.", "bn1.", "layer1.", "layer2."), "late": ("layer3.", "layer4.")},
    weights=(
        Weights(
            name="released",
            url="https://drive.google.com/drive/folders/13wb4DppUciMn-Y_qC2JRWTbZdz3xX0w2",
            file="res18_best_encoder.pth",
            # stated by a third party; the authors publish none
            sha256="38ba669c2cc319670c4172d8c292f123e86b8e7106b1a68bb7e10dd89f09daf5",
            licence=_LICENCE,
            drop=("linear.",),
        ),
    ),
    objective="ECG aligned with its report, and with itself under dropout",
    corpora=("MIMIC-IV-ECG",),
    choices={
        "lead order": "upstream: aVF before aVL, as in the files that it was trained on. paper: "
        "aVL before aVF, as the reference benchmark "
        "feeds it, which exchanges the two for this network",
        "scaling": "upstream: to [0, 1] by the extremes of all leads that are there, without the "
        "authors' rounding to 1/1000. The authors "
        "do not say what an absent lead is; 0 mV before the scaling would be some value between 0 "
        "and 1 that differs from record to record",
        "short records": (
            "upstream: continued by the last samples; the authors keep 5 s of "
            "CPSC2018 and append zeros"
        ),
        "missing samples": (
            "an error, where the authors mean to interpolate and the reference benchmark puts 0"
        ),
        "length": "the network takes windows of any length",
        "initialisation": "torch's defaults for convolutions and batch norms",
        "sequence": "output of the last block; the pooled feature is its mean over time",
        "groups": "early: stem, layers 1 and 2; late: layers 3 and 4",
    },
)


class Block(nn.Module):
    """Two convolutions of 3 samples, each with batch norm, and the shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels, out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm1d(out)
        self.conv2 = nn.Conv1d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm1d(out)
        self.shortcut = nn.Sequential()
        if stride > 1 or channels != out:
            conv, norm = nn.Conv1d(channels, out, 1, stride, bias=False), nn.BatchNorm1d(out)
            self.shortcut = nn.Sequential(conv, norm)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channel, time) -> (batch, out, ceil(time / stride)): ReLU of the sum of both
        branches.
        """
        h = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(h + self.shortcut(x))


class ResNet18(nn.Module):
    """The encoder: 12 leads in, 512 features out."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(len(LEADS), STEM, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm1d(STEM)
        widths = (STEM, *(width for width, _ in LAYERS))
        for number, (channels, (out, stride)) in enumerate(zip(widths, LAYERS), 1):
            self.add_module(
                f"layer{number}", nn.Sequential(Block(channels, out, stride), Block(out, out, 1))
            )

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of a batch of windows: a token for every 16 samples begun.

        signal (batch, 12, time) float32 at 500 Hz, scaled and ordered as the contract says, of any
        length. Every row is read, so `measured` (batch, 12) bool must be all True: ValueError
        otherwise, and for any other number of leads.
        """
        demand_all("MERL", signal, measured, len(LEADS))
        x = F.relu(self.bn1(self.conv1(signal)))
        for number in range(1, len(LAYERS) + 1):
            x = self.get_submodule(f"layer{number}")(x)
        return Features(x.transpose(1, 2), x.mean(2))


def build(weights: str | Path | None = None) -> ResNet18:
    """The ResNet in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(ResNet18(), weights, CARD)


def paper_layers(network: nn.Module, samples: int, leads: int) -> paper_flop.Layout:
    """The layers of the ResNet by the paper's FLOP count; all leads are read whatever is
    measured.
    """
    n = paper_flop.halved(samples)
    layers = [paper_flop.Layer(r"conv1\.weight", n, first=True)]
    for stage in range(1, 1 + len(LAYERS)):
        n = n if stage == 1 else paper_flop.halved(n)
        weight = rf"layer{stage}\.\d\.(conv[12]|shortcut\.0)\.weight"
        layers.append(paper_flop.Layer(weight, n))
    return paper_flop.Layout(tuple(layers))
