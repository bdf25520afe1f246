"""ECGFounder: a 1-D RegNet-like network of grouped convolutions, trained on 150 labels of 10.7
million ECGs (Li et al., NEJM AI 2025).

A strided stem, then seven stages of bottlenecks: 1x1, a convolution of 16 samples in groups of 16
channels, 1x1, squeeze and excitation. The authors switch batch norm and dropout off; the norms'
parameters are in their file, so they are here, and nothing reads them. State-dict keys are those of
the authors' file without `dense.*`, the layer of 150 labels. `ecgfounder1lead` is the same network
for lead I.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.cards.model import Classifier, ModelCard, Weights, reference_feeding
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.leads import LEADS
from ecgbench.layers import paper_flop
from ecgbench.layers.features import Features, demand_all
from ecgbench.weights.load import loaded

WIDTH, KERNEL = 1024, 16

_LICENCE = "MIT (code); see the page of the weights for theirs"

_PAPER = reference_feeding(fs=500, seconds=2.5, leads=LEADS)

CARD = ModelCard(
    title="ECGFounder",
    summary="1-D CNN of grouped convolutions with squeeze and excitation, supervised on 150 labels",
    paper=(
        "Li, Aguirre, Moura Junior et al., An Electrocardiogram Foundation Model Built on over 10 "
        "Million Recordings, NEJM AI 2025, arXiv:2410.04133"
    ),
    origin="github.com/PKUDigitalHealth/ECGFounder at 04edac7",
    licence=_LICENCE,
    parameters=30_665_264,
    dim=WIDTH,
    contracts=(
        _PAPER,
        replace(
            _PAPER,
            name="upstream",
            seconds=10,
            # of the authors' data set, over the whole record at 500 Hz
            filter=Filter(kind="notch-butterworth-median", low=0.67, high=40, where="record"),
            normalisation="standardise-record",
            scope="window",
            fill="after",
            absent="0 after the standardisation: the mean of the leads that are there",
            short="edge",
        ),
    ),
    native=False,
    groups={
        "early": ("first_conv.", "first_bn.", "stage_list.0.", "stage_list.1.", "stage_list.2."),
        "late": tuple(f"stage_list.{i}." for i in range(3, 7)),
    },
    weights=(
        Weights(
            name="released",
            url="https://huggingface.co/PKUDigitalHealth/ECGFounder/resolve/main/12_lead_ECGFounder.pth",
            file="12_lead_ECGFounder.pth",
            sha256=None,
            licence=_LICENCE,
            container=("state_dict",),
            drop=("dense.",),
            classifier=Classifier(tensors="dense.", table="ecgfounder"),
        ),
    ),
    objective="150 diagnostic labels, supervised",
    corpora=("HEEDB",),
    choices={
        "filter": "upstream: as in the authors' data set; their script for 150 labels on PTB-XL "
        "does not filter, and their paper names a third pipeline. paper: none, as in the "
        "reference benchmark",
        "standardisation": "upstream: one mean and one population deviation for all samples of "
        "the leads that are there. The authors do not say what an absent lead is; filled in "
        "afterwards, it does not shift the scale of the others",
        "resampling": "anti-aliased polyphase filter; the authors interpolate linearly where they "
        "resample at all",
        "missing samples": "an error, where the authors and the reference benchmark put 0",
        "length": "the network takes windows of any length",
        "initialisation": "torch's defaults for convolutions and linear maps",
        "sequence": "output of the last block; the pooled feature is its mean over time",
        "groups": "early: stem, stages 0-2; late: stages 3-6. Batch norms count in them, but no "
        "gradient reaches them",
    },
)


@dataclass(frozen=True)
class Shape:
    """Of a Net1D."""

    stages: tuple[tuple[int, int], ...]
    """Channels and blocks of each stage; the first block of each halves the length."""
    stem: int
    """Channels of the first convolution."""
    per_group: int
    """Channels of a block's output for one group of its convolution in groups."""
    ratio: float = 1.0
    """Channels inside a block, as a part of those of its output."""


SHAPE = Shape(
    stages=((64, 2), (160, 2), (160, 2), (400, 3), (400, 3), (1024, 4), (1024, 4)),
    stem=64,
    per_group=16,
)


class SameConv(nn.Module):
    """A convolution to ceil(time / stride) samples: (batch, channel, time) -> the same layout.

    Zeros are added as TensorFlow's SAME does: of an odd number the extra one stands on the right.
    """

    def __init__(
        self, channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, out, kernel, stride, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        """The convolved signal, in memory that nobody else holds."""
        conv = self.conv
        (kernel,), (stride,), time = conv.kernel_size, conv.stride, x.shape[2]
        zeros = max(0, (-(-time // stride) - 1) * stride + kernel - time)
        left, right = zeros // 2, zeros - zeros // 2
        if left != right or conv.groups == 1:
            # the stem always: what conv1d pads itself comes out wrong there under bfloat16 on CPUs
            # with AMX (torch 2.13: 12 inputs, 16 samples, off by more than the signal)
            x, left = F.pad(x, (left, right)), 0
        return F.conv1d(x, conv.weight, conv.bias, stride, left, groups=conv.groups)


class Bottleneck(nn.Module):
    """Swish, 1x1, Swish, grouped convolution, Swish, 1x1, squeeze and excitation; added to the
    shortcut without an activation.
    """

    def __init__(self, channels: int, out: int, stride: int, first: bool, shape: Shape) -> None:
        super().__init__()
        self.stride, self.first, inner = stride, first, int(out * shape.ratio)
        # in the file, never called
        self.bn1 = nn.BatchNorm1d(channels)
        self.bn2, self.bn3 = nn.BatchNorm1d(inner), nn.BatchNorm1d(inner)
        self.conv1 = SameConv(channels, inner, 1)
        self.conv2 = SameConv(inner, inner, KERNEL, stride, groups=out // shape.per_group)
        self.conv3 = SameConv(inner, out, 1)
        self.se_fc1, self.se_fc2 = nn.Linear(out, out // 2), nn.Linear(out // 2, out)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channel, time) -> (batch, out, ceil(time / stride))."""
        # the stem's Swish has just been applied to what the first block reads
        h = x if self.first else F.silu(x)
        h = self.conv3(_swish(self.conv2(_swish(self.conv1(h)))))
        gate = self.se_fc2(_swish(self.se_fc1(h.mean(2)))).sigmoid()[:, :, None]
        if self.stride == 2:
            x = halved(x)
        more = h.shape[1] - x.shape[1]  # the channels that the shortcut lacks are 0
        return torch.addcmul(F.pad(x, (0, 0, more // 2, more - more // 2)), h, gate)


class Stage(nn.Module):
    """Bottlenecks of one width, the first with stride 2."""

    def __init__(self, channels: int, out: int, blocks: int, first: bool, shape: Shape) -> None:
        super().__init__()
        self.block_list = nn.ModuleList(
            Bottleneck(out if i else channels, out, 1 if i else 2, first and i == 0, shape)
            for i in range(blocks)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channel, time) -> (batch, out, ceil(time / 2))."""
        for block in self.block_list:
            x = block(x)
        return x


class Net1D(nn.Module):
    """The encoder, for `leads` rows of a signal: a feature for each channel of the last stage."""

    def __init__(self, leads: int, shape: Shape = SHAPE) -> None:
        super().__init__()
        self.leads, self.shape = leads, shape
        self.first_conv = SameConv(leads, shape.stem, KERNEL, stride=2)
        self.first_bn = nn.BatchNorm1d(shape.stem)  # in the file, never called
        widths = (shape.stem, *(width for width, _ in shape.stages))
        self.stage_list = nn.ModuleList(
            Stage(channels, out, blocks, i == 0, shape)
            for i, (channels, (out, blocks)) in enumerate(zip(widths, shape.stages))
        )

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of a batch of windows: a token for every 256 samples begun.

        signal (batch, lead, time) float32 at 500 Hz, scaled as the contract says, of any length.
        Every row is read, so `measured` (batch, lead) bool must be all True: ValueError otherwise,
        and for any other number of leads.
        """
        demand_all("ECGFounder", signal, measured, self.leads)
        x = self.tokens(signal)
        return Features(x.transpose(1, 2), x.mean(2))

    def tokens(self, signal: Tensor) -> Tensor:
        """(batch, lead, time) -> (batch, channel, token): what the last stage gives."""
        x = _swish(self.first_conv(signal))
        for stage in self.stage_list:
            x = stage(x)
        return x


def halved(x: Tensor) -> Tensor:
    """The larger of every two samples along the last axis; an odd last one is compared with 0,
    which the authors pad with.
    """
    time = x.shape[-1]
    pairs = torch.maximum(x[..., 0 : time - 1 : 2], x[..., 1::2])
    return torch.cat([pairs, x[..., -1:].clamp_min(0)], -1) if time % 2 else pairs


def _swish(x: Tensor) -> Tensor:
    """x sigmoid(x) of an array that nobody else holds: in its own memory where no gradient needs
    it.
    """
    return F.silu(x, inplace=not torch.is_grad_enabled())


def build(weights: str | Path | None = None) -> Net1D:
    """The encoder of 12 leads in torch's training mode, with random weights or those of a file or
    name (see `load.load`).
    """
    return loaded(Net1D(len(LEADS)), weights, CARD)


def paper_layers(network: nn.Module, samples: int, leads: int) -> paper_flop.Layout:
    """The layers by the paper's FLOP count; all rows are read whatever is measured."""
    n = paper_flop.halved(samples)
    layers = [
        paper_flop.Layer(r"first_conv\.conv\.weight", n, first=True),
        paper_flop.Layer(r".*\.se_fc[12]\.weight", 1),
    ]
    shape: Shape = network.shape  # type: ignore[assignment]
    for stage, (width, _) in enumerate(shape.stages):
        before, n = n, paper_flop.halved(n)
        here = rf"stage_list\.{stage}\.block_list\."
        layers += [
            paper_flop.Layer(here + r"0\.conv1\.conv\.weight", before),
            paper_flop.Layer(here + r"[1-9]\.conv1\.conv\.weight", n),
            paper_flop.Layer(here + r"\d\.conv2\.conv\.weight", n, groups=width // shape.per_group),
            paper_flop.Layer(here + r"\d\.conv3\.conv\.weight", n),
        ]
    return paper_flop.Layout(tuple(layers))
