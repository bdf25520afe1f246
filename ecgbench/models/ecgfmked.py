"""ECGFM-KED: the ECG encoder of KED, an xresnet1d101 with narrow stages (Tian et al., Cell Reports
Medicine 2024). Our own code.

Three convolutions, a max-pool and 33 bottlenecks turn twelve leads into a map of 768 channels at a
32nd of the rate; the feature is its mean over time. KED pre-trains it beside a language model at
100 Hz, which is not part of this network. State-dict keys are those of the authors' `ecg_model`,
where the conv path of a block is listed under two names: we keep `convs.`, and `convpath.0.` is its
alias.
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

WIDTH = 768
STAGES = ((3, 64, 1), (4, 128, 2), (23, 128, 2), (3, 192, 2))
"""Bottlenecks, width inside, and stride of the first one, of modules 4 to 7."""

_LICENCE = (
    "none stated: the repository has no LICENSE file; the Zenodo record of the weights "
    "states its own"
)

_PAPER = reference_feeding(fs=500, seconds=10, leads=LEADS)

CARD = ModelCard(
    title="ECGFM-KED",
    summary=(
        "xresnet1d101 with narrow stages over twelve leads, pre-trained against the words of "
        "reports"
    ),
    paper=(
        "Tian, Li, Jin, Wang, Wei, Zhao, Liu, Liu and Liu, Foundation model of ECG diagnosis: "
        "Diagnostics and explanations of any form and "
        "rhythm on ECG, Cell Reports Medicine 2024, doi 10.1016/j.xcrm.2024.101875"
    ),
    origin="github.com/control-spiderman/ECGFM-KED at e42f1de",
    licence=_LICENCE,
    parameters=7_865_984,
    dim=WIDTH,
    contracts=(
        _PAPER,
        replace(
            _PAPER,
            name="upstream",
            fs=100,
            leads=MIMIC_LEADS,
            fill="after",
            resampler="fft",
            short="edge",
        ),
    ),
    native=False,
    groups={"early": ("0.", "1.", "2."), "late": ("4.", "5.", "6.", "7.")},
    objective=(
        "signals matched with report texts enriched by a language model, and labels queried "
        "from the signal"
    ),
    corpora=("MIMIC-IV-ECG",),
    weights=(
        Weights(
            name="released",
            url="https://zenodo.org/records/14881564/files/best_valid_all_increase_with_augment_epoch_3.pt",
            file="best_valid_all_increase_with_augment_epoch_3.pt",
            sha256=None,
            licence=_LICENCE,
            container=("ecg_model",),
            aliases=(("convpath.0.", "convs."),),
            terms=(
                "its authors state no licence in the repository: ask them before any use beyond "
                "reading"
            ),
        ),
    ),
    choices={
        "initialisation": (
            "Kaiming-normal convolutions (fan-in, ReLU); the last batch norm of each block's conv "
            "path starts at weight 0, so that an "
            "untrained encoder is close to a pooled stem"
        ),
        "sequence": (
            "the last map over time, 157 tokens of 5000 samples; the pooled feature is its mean"
        ),
        "groups": (
            "early: the three convolutions of the stem; late: the bottlenecks (modules 4 to 7)"
        ),
        "rate": (
            "paper: 500 Hz as the reference benchmark feeds it, five times the rate of "
            "pre-training; upstream: 100 Hz"
        ),
        "leads": (
            "upstream: aVF before aVL, as in the files of MIMIC-IV-ECG and so in pre-training; "
            "the authors fed their downstream sets in "
            "the standard order"
        ),
        "normalisation": (
            "upstream: none, as in pre-training; for PTB-XL the authors standardised by one mean "
            "and deviation of the training split"
        ),
        "windows": (
            "upstream: windows of 10 s follow one another and a shorter record is continued by "
            "its last samples; the authors cut to the "
            "first 10 s and pad with zeros on both sides"
        ),
    },
)


class ConvUnit(nn.Sequential):
    """Convolution without bias, batch norm and, where asked for, ReLU: (batch, channel, time) ->
    (batch, leaving, time / stride).
    """

    def __init__(
        self, entering: int, leaving: int, kernel: int, stride: int = 1, relu: bool = True
    ) -> None:
        conv = nn.Conv1d(entering, leaving, kernel, stride, padding=kernel // 2, bias=False)
        super().__init__(conv, nn.BatchNorm1d(leaving), *([nn.ReLU()] if relu else []))


class Bottleneck(nn.Module):
    """Convolutions of kernel 1, 5 and 1 beside a shortcut: (batch, channel, time) -> (batch, 4
    inside, time / stride).
    """

    def __init__(self, entering: int, inside: int, stride: int) -> None:
        super().__init__()
        leaving = 4 * inside
        self.convs = nn.Sequential(
            ConvUnit(entering, inside, 1),
            ConvUnit(inside, inside, 5, stride),
            ConvUnit(inside, leaving, 1, relu=False),
        )
        # a last window of one sample (odd lengths) is that sample, not half of it
        pool = [nn.AvgPool1d(2, ceil_mode=True)] if stride == 2 else []
        self.idpath = nn.Sequential(
            *pool, *([ConvUnit(entering, leaving, 1, relu=False)] if entering != leaving else [])
        )

    def forward(self, x: Tensor) -> Tensor:
        """ReLU of the sum of both paths."""
        return F.relu(self.convs(x) + self.idpath(x))


class Ked(nn.Module):
    """The encoder: twelve leads in, 768 features out. Its modules are numbered as in the authors'
    file.
    """

    def __init__(self) -> None:
        super().__init__()
        width = 64
        modules: list[nn.Module] = [
            ConvUnit(12, 32, 5, stride=2),
            ConvUnit(32, 32, 5),
            ConvUnit(32, width, 5),
            nn.MaxPool1d(3, 2, 1),
        ]
        for blocks, inside, stride in STAGES:
            stage = [
                Bottleneck(width if i == 0 else 4 * inside, inside, stride if i == 0 else 1)
                for i in range(blocks)
            ]
            modules.append(nn.Sequential(*stage))
            width = 4 * inside
        for number, module in enumerate(modules):
            self.add_module(str(number), module)
        self._initialise()

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of a batch of windows.

        signal (batch, 12, time) float32, mV, leads in the order of the contract; measured (batch,
        12) bool, all True: the network reads every row. Another shape, or a lead that is not
        measured, is a ValueError.
        """
        demand_all("ECGFM-KED", signal, measured, len(LEADS))
        x = signal
        for module in self.children():
            x = module(x)
        sequence = x.transpose(1, 2)
        return Features(sequence, sequence.mean(1))

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv1d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if isinstance(module, Bottleneck):
                nn.init.zeros_(module.convs.get_parameter("2.1.weight"))


def build(weights: str | Path | None = None) -> Ked:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(Ked(), weights, CARD)


def paper_layers(network: nn.Module, samples: int, leads: int) -> paper_flop.Layout:
    """The layers by the paper's FLOP count; all leads are read whatever is measured."""
    n = paper_flop.halved(samples)
    layers = [
        paper_flop.Layer(r"0\.0\.weight", n, first=True),
        paper_flop.Layer(r"[12]\.0\.weight", n),
    ]
    n = paper_flop.halved(n)  # the max-pooling is module 3
    for stage in (4, 5, 6, 7):
        before, n = n, n if stage == 4 else paper_flop.halved(n)
        last = rf"{stage}\.\d+\.convs\.[12]\.0\.weight|{stage}\.\d+\.idpath\.[01]\.0\.weight"
        layers += [
            paper_flop.Layer(rf"{stage}\.0\.convs\.0\.0\.weight", before),
            paper_flop.Layer(rf"{stage}\.[1-9]\d*\.convs\.0\.0\.weight", n),
            paper_flop.Layer(last, n),
        ]
    return paper_flop.Layout(tuple(layers))
