"""xresnet1d101: the strong supervised baseline of PTB-XL, trained from scratch, no pre-training.

After Strodthoff, Wagner, Schaeffter and Samek 2021 (doi:10.1109/JBHI.2020.3022989), which found it
among the best of its networks, and the xresnet of He et al. 2019 (arXiv:1812.01187): a stem of
three convolutions, 3 + 4 + 23 + 3 bottleneck blocks, convolutions of kernel 5, a shortcut that
averages before it is projected, maximum and mean over time. Written new from these descriptions;
`choices` on the card says what differs.

Each set of leads gets a network of its own, which was trained on these leads alone:

    ecgbench run --models xresnet1d101 --weights random --protocol finetune --train-leads same \
        --leads I,II,I+II,12 --tasks ptbxl_super --set training.lr_groups=false \
        --set training.epochs=50

A step of 64 windows takes 2.5 s on one core of a CPU: 11 minutes for an epoch of PTB-XL (17,418
records) and 9 hours for each of the four networks. Add `--device cuda` where there is a GPU.
"""

from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn

from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.ecg.leads import LEADS
from ecgbench.models import Features
from ecgbench.weights.load import loaded

KERNEL, EXPANSION = 5, 4
STEM = (len(LEADS), 32, 32, 64)
BLOCKS = (3, 4, 23, 3)
WIDTHS = (64, 128, 256, 512)
"""Inside the blocks of a stage; they give `EXPANSION` times as many channels."""

CARD = ModelCard(
    title="xresnet1d101",
    summary="convolutional network of 101 layers, trained from scratch",
    paper="Strodthoff, Wagner, Schaeffter and Samek 2021, doi:10.1109/JBHI.2020.3022989",
    origin="this project, from the papers",
    licence="MIT",
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
    groups={"early": ("stem.", "stages.0.", "stages.1."), "late": ("stages.2.", "stages.3.")},
    choices={
        "normalisation": (
            "millivolts as they are; its authors standardise every sample by the mean and the "
            "standard deviation of the training data"
        ),
        "widths": (
            "those of the two-dimensional network, 64, 128, 256 and 512, expansion 4; the paper "
            "does not print them"
        ),
        "training": "a constant rate; its authors' rises to 0.01 and falls again in 50 epochs",
        "head": "one linear layer; its authors' has a hidden layer of 128 and dropout",
    },
)


def convolution(inside: int, out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Convolution without bias and batch normalisation; He's initialisation."""
    conv = nn.Conv1d(inside, out, kernel, stride, kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight)
    return nn.Sequential(conv, nn.BatchNorm1d(out))


class Block(nn.Module):
    """relu(shortcut(x) + 1, 5 and 1 samples wide convolutions); the last begins as 0."""

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        out = EXPANSION * width
        self.body = nn.Sequential(
            convolution(inside, width, 1),
            nn.ReLU(),
            convolution(width, width, KERNEL, stride),
            nn.ReLU(),
            convolution(width, out, 1),
        )
        nn.init.zeros_(self.body[-1][1].weight)
        pooled = [nn.AvgPool1d(2, ceil_mode=True)] if stride > 1 else []
        projected = [convolution(inside, out, 1)] if inside != out else []
        self.shortcut = nn.Sequential(*pooled, *projected)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channel, time) -> (batch, channel, time / stride)."""
        return (self.shortcut(x) + self.body(x)).relu()


class XResNet(nn.Module):
    """(batch, 12, 250) to 4,096 features."""

    def __init__(self) -> None:
        super().__init__()
        stem = [
            layer
            for i, (inside, out) in enumerate(pairwise(STEM))
            for layer in (convolution(inside, out, KERNEL, 1 if i else 2), nn.ReLU())
        ]
        self.stem = nn.Sequential(*stem, nn.MaxPool1d(3, 2, 1))
        self.stages, inside = nn.ModuleList(), STEM[-1]
        for stage, (width, blocks) in enumerate(zip(WIDTHS, BLOCKS)):
            strides = [2 if stage else 1] + [1] * (blocks - 1)
            layers = []
            for stride in strides:
                layers.append(Block(inside, width, stride))
                inside = EXPANSION * width
            self.stages.append(nn.Sequential(*layers))

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """signal (batch, 12, 250) mV; the network reads every row, whatever was measured."""
        x = self.stem(signal)
        for stage in self.stages:
            x = stage(x)
        return Features(x.transpose(1, 2), torch.cat([x.amax(2), x.mean(2)], 1))


def build(weights: str | Path | None = None) -> XResNet:
    """The network with random weights, or those of a file."""
    return loaded(XResNet(), weights, CARD)
