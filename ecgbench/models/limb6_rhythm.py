"""Limb6-rhythm: a small residual network in one dimension for the six limb leads of a hand-held
recorder, trained on PTB-XL to tell sinus rhythm, atrial fibrillation and the rest.

The encoder of the authors' ONNX file, in which batch norms are part of the convolutions. Its last
feature is the mean over time that their classifier of three classes reads.
"""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from torch import Tensor, nn

from ecgbench.cards.model import Classifier, InputContract, ModelCard, Weights
from ecgbench.ecg.leads import LIMB
from ecgbench.layers import paper_flop
from ecgbench.layers.features import Features, demand_all
from ecgbench.weights.load import loaded

WIDTHS = (24, 48, 96, 128, 128)
"""Channels of the stem and of each block; a block that makes more channels halves the length."""
STEM, KERNEL = 15, 9
"""Samples of the first convolution, which halves the length, and of those in blocks."""

_LICENCE = "Apache-2.0 or MIT"

_FED = InputContract(
    name="paper",
    fs=100,
    seconds=10,
    leads=LIMB,
    unit="mV",
    filter=None,
    normalisation="median-record",
    scope="window",
    fill="after",
    policy="einthoven",
    absent="what two measured limb leads determine; else 0 after the scaling, which is its median",
    short="edge",
)

CARD = ModelCard(
    title="Limb6-rhythm",
    summary="small residual 1-D CNN for the six limb leads, supervised on three rhythms",
    paper="none; the model card limb6-rhythm-v0.1.0 of the kardia-rs contributors",
    origin="github.com/ShaneBreazeale/kardia-rs at 1a4e6d5d",
    licence=_LICENCE,
    parameters=729_784,
    dim=WIDTHS[-1],
    contracts=(_FED, replace(_FED, name="upstream")),
    native=False,
    groups={"early": ("stem.", "blocks.0.", "blocks.1."), "late": ("blocks.2.", "blocks.3.")},
    weights=(
        Weights(
            name="released",
            url="models/limb6_rhythm/limb6_rhythm.safetensors",
            file="limb6_rhythm.safetensors",
            sha256="1a2a1b08ecfbcd5e337a3707e577fa41f37c059a913ab18ad2a9ed1f469b01df",
            licence=_LICENCE,
            drop=("classifier.",),
            classifier=Classifier(tensors="classifier.", table="limb6_rhythm", softmax=True),
            terms="for research, by its authors' card: no medical device, not for diagnosis",
        ),
    ),
    objective="sinus rhythm, atrial fibrillation or the rest, supervised",
    corpora=("PTB-XL (folds 1-9)",),
    choices={
        "corpora": "trained on folds 1-8; fold 9 set the temperature and the thresholds",
        "contract": "there is one; both names stand for the authors' own",
        "scale": "the 95th percentile of leads I and II together. Where one of them is absent, of "
        "the first two leads that are there: at I alone, of I alone",
        "missing leads": "two limb leads determine the six; of one lead, the five others are 0 "
        "after the scaling, which the network never saw in training",
        "resampling": "anti-aliased polyphase filter; the authors read PTB-XL's files at 100 Hz",
        "length": "a record shorter than 10 s goes on with its last samples",
        "missing samples": "an error, where the authors put 0",
        "parameters": "the authors' 731,267 count the classifier (387) and batch norms, which are "
        "in the convolutions here (1,096 fewer)",
        "initialisation": "torch's defaults for convolutions",
        "sequence": "output of the last block, 63 tokens of 10 s; the pooled feature is its mean",
        "groups": "ours: early are the stem and the first two blocks, late the others",
    },
)


class Block(nn.Module):
    """Two convolutions with a ReLU between them, added to the input (a 1x1 convolution of it where
    the width changes), and a ReLU.
    """

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        stride = 1 if channels == out else 2
        self.first = nn.Conv1d(channels, out, KERNEL, stride, KERNEL // 2)
        self.second = nn.Conv1d(out, out, KERNEL, padding=KERNEL // 2)
        self.skip = nn.Identity() if channels == out else nn.Conv1d(channels, out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, time) -> (batch, out, time or half of it)."""
        return (self.second(self.first(x).relu()) + self.skip(x)).relu()


class Limb6Rhythm(nn.Module):
    """The encoder: six limb leads in, 128 features out."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(len(LIMB), WIDTHS[0], STEM, 2, STEM // 2)
        self.blocks = nn.Sequential(*(Block(a, b) for a, b in pairwise(WIDTHS)))

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of a batch of windows: a token for every 16 samples.

        signal (batch, 6, time), scaled as the contract says, measured (batch, 6) all True, since
        the network reads all its rows. Anything else is a ValueError.
        """
        demand_all(CARD.title, signal, measured, len(LIMB))
        x = self.blocks(self.stem(signal).relu())
        return Features(x.transpose(1, 2), x.mean(2))


def build(weights: str | Path | None = None) -> Limb6Rhythm:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(Limb6Rhythm(), weights, CARD)


def paper_layers(network: nn.Module, samples: int, leads: int) -> paper_flop.Layout:
    """The layers by the paper's FLOP count; all rows are read whatever is measured."""
    n = -(-samples // 2)
    layers = [paper_flop.Layer(r"stem\.weight", n, first=True)]
    for i, (a, b) in enumerate(pairwise(WIDTHS)):
        n = n if a == b else -(-n // 2)
        layers.append(paper_flop.Layer(rf"blocks\.{i}\.\w+\.weight", n))
    return paper_flop.Layout(tuple(layers))
