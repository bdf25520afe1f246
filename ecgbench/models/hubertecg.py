"""HuBERT-ECG BASE: a speech model's network over the twelve leads laid end to end (Coppola et al.,
2024). Encoder only, our own code.

The leads of a window become one signal of 6000 samples. Five convolutions cut it into 93 tokens of
0.64 s, some of which straddle two leads; a convolution over the tokens tells them their places, and
twelve post-norm transformer layers follow. The network always reads twelve rows, and knows a lead
by its place among them. State-dict keys are those of the released file.
"""

import math
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from ecgbench.cards.model import Classifier, InputContract, ModelCard, Weights
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.leads import LEADS
from ecgbench.layers import paper_flop
from ecgbench.layers.blocks import gelu
from ecgbench.layers.features import Features, demand_all
from ecgbench.weights.load import loaded

WIDTH, DEPTH, HEADS, HIDDEN, CHANNELS = 768, 12, 12, 3072, 512
KERNELS, STRIDES = (10, 3, 3, 2, 2), (4, 2, 2, 2, 2)
TAPS, GROUPS = 128, 16
"""Of the convolution over the tokens; its taps stand at -64 to 63 tokens."""
DROPOUT, LAYERDROP = 0.1, 0.1
SHORTEST = 82
"""Samples that one token sees, over all leads."""

_RELEASED = Weights(
    name="released",
    url="https://huggingface.co/Edoardo-BS/hubert-ecg-base/resolve/main/model.safetensors",
    file="model.safetensors",
    sha256="05bc1b1317f8e3063811a03fb840f5bf8a85968191e209c0cfbaa0c52c8aa1ae",
    licence="CC BY-NC 4.0",
    drop=("final_proj.", "label_embedding."),
    aliases=(
        (".conv.weight_g", ".conv.parametrizations.weight.original0"),
        (".conv.weight_v", ".conv.parametrizations.weight.original1"),
    ),
    terms="no commercial use",
)

_PAPER = InputContract(
    name="paper",
    fs=100,
    seconds=5,
    leads=LEADS,
    unit="mV",
    filter=Filter(kind="firwin-filtfilt", low=0.05, high=47.0, where="window"),
    normalisation="minmax-per-lead",
    scope="window",
    fill="before",
    policy="zero",
    absent="-1: 0 mV is a constant lead, which the scaling takes for its own minimum",
)

CARD = ModelCard(
    title="HuBERT-ECG",
    summary=(
        "HuBERT-BASE (transformer over convolutional tokens) on the twelve leads laid end to "
        "end at 100 Hz"
    ),
    paper=(
        "Coppola, Savardi, Massussi, Adamo, Metra and Signoroni, HuBERT-ECG as a self-supervised "
        "foundation model for broad and "
        "scalable cardiac applications, medRxiv 2024, doi 10.1101/2024.11.14.24317328"
    ),
    origin="github.com/Edoar-do/HuBERT-ECG at affe1f9",
    licence=_RELEASED.licence,
    parameters=92_798_848,
    dim=WIDTH,
    contracts=(
        _PAPER,
        replace(
            _PAPER,
            name="upstream",
            fs=500,
            filter=Filter(kind="firwin-filtfilt", low=0.05, high=47.0),
            resampler="fft",
            scope="record",
            decimate=5,
            fill="after",
            absent=(
                "0 after the scaling, but for a few samples at its ends that mix with the next "
                "leads (all are decimated as one signal)"
            ),
            short="edge",
        ),
    ),
    native=False,
    objective="predicting the cluster of masked tokens",
    corpora=(
        "CODE",
        "CODE-15",
        "MIMIC-IV-ECG",
        "CPSC2018",
        "CPSC-Extra",
        "PTB",
        "PTB-XL",
        "Georgia",
        "Chapman-Shaoxing",
        "Ningbo",
        "Hefei",
        "SPH",
    ),
    groups={
        "early": (
            "masked_spec_embed",
            "feature_extractor.",
            "feature_projection.",
            "encoder.pos_conv_embed.",
            "encoder.layer_norm.",
            *(f"encoder.layers.{i}." for i in range(6)),
        ),
        "late": tuple(f"encoder.layers.{i}." for i in range(6, DEPTH)),
    },
    weights=(
        _RELEASED,
        replace(
            _RELEASED,
            name="released-ssl",
            url="https://huggingface.co/Edoardo-BS/HuBERT-ECG-SSL-Pretrained/resolve/main/hubert_ecg_base.pt",
            file="hubert_ecg_base.pt",
            sha256=None,
            container=("model_state_dict",),
        ),
        replace(
            _RELEASED,
            name="released-cardio",
            url="https://huggingface.co/Edoardo-BS/HuBERT-ECG-SFT-CardioLearning-base/resolve/main/model.safetensors",
            sha256=None,
            prefix="hubert_ecg.",
            drop=(*_RELEASED.drop, "classifier."),
            classifier=Classifier(tensors="classifier.", table="hubertecg"),
        ),
    ),
    choices={
        "weights": "released and released-ssl: pre-trained; released-cardio: fine-tuned on the 164 "
        "labels of Cardio-Learning, PTB-XL's among them, with its classifier (no file was at hand: "
        "its names are those that the authors' code gives)",
        "initialisation": (
            "random weights: normal of standard deviation 0.02 for linear maps (the released "
            "configuration), Kaiming normal for the "
            "front end, normal of sqrt(4 / (128 x 768)) for the convolution over tokens, zero "
            "biases, the unused mask vector uniform"
        ),
        "sequence": "the 93 tokens after the last layer; the pooled feature is their mean",
        "groups": (
            "the reference benchmark's: late are layers 6-11, early all before; its authors "
            "freeze the front end and use one rate"
        ),
        "dropout": (
            "0.1 on hidden states, activations and attention, and LayerDrop 0.1, in "
            "training mode: the released configuration"
        ),
        "masking": (
            "none: fine-tuning sets the probability of masked tokens to 0, as its authors "
            "do, so the mask vector is never used"
        ),
        "head": (
            "one linear map on the mean, without the dropout of 0.1 that its authors put before it"
        ),
        "resampling": "paper: polyphase over the record; it and the reference benchmark's "
        "(resampy on each crop) differ by 2.5 % of the "
        "signal's rms on 200 PTB-XL records (95th percentile 5.1 %)",
        "feeding, paper": (
            "filter and scaling see each window at 100 Hz, as in the reference benchmark"
        ),
        "feeding, upstream": (
            "filter first, then resampling: the order of the code since "
            "2025-12-26; the weights are older"
        ),
        "windows": (
            "consecutive ones of 5 s, probabilities averaged; authors: the first 5 s, or "
            "the largest over random crops"
        ),
        "records": "CODE-15 is named among the corpora as a part of CODE",
    },
)


class ConvLayer(nn.Module):
    """Convolution without bias, exact GELU; the first has a norm per channel over the whole signal
    between them.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(
            CHANNELS if number else 1, CHANNELS, KERNELS[number], STRIDES[number], bias=False
        )
        self.layer_norm = None if number else nn.GroupNorm(CHANNELS, CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channel, time) -> (batch, 512, less time)."""
        x = self.conv(x)
        return gelu(x if self.layer_norm is None else self.layer_norm(x))


class FrontEnd(nn.Module):
    """One signal to tokens: (batch, 1, time) -> (batch, token, 512), a token every 64 samples."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_layers = nn.ModuleList(ConvLayer(i) for i in range(len(KERNELS)))

    def forward(self, x: Tensor) -> Tensor:
        """The tokens."""
        for layer in self.conv_layers:
            x = layer(x)
        return x.transpose(1, 2)


class Projection(nn.Module):
    """LayerNorm and linear map: (batch, token, 512) -> (batch, token, 768)."""

    def __init__(self) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(CHANNELS)
        self.projection = nn.Linear(CHANNELS, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """The projected tokens."""
        return self.projection(self.layer_norm(x))


def placing_conv() -> nn.Module:
    """A convolution over tokens in 16 groups, its weight normalised per tap, as wav2vec 2.0 has
    it.
    """
    conv = nn.Conv1d(WIDTH, WIDTH, TAPS, padding=TAPS // 2, groups=GROUPS)
    nn.init.normal_(conv.weight, std=math.sqrt(4 / (TAPS * WIDTH)))
    nn.init.zeros_(conv.bias)  # type: ignore[arg-type]
    return weight_norm(conv, dim=2)


class PositionalConv(nn.Module):
    """What places the tokens: a convolution over them in 16 groups, its weight normalised per tap,
    then exact GELU.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv = placing_conv()

    def forward(self, x: Tensor) -> Tensor:
        """(batch, token, 768) -> the same shape, to be added; the convolution's last output of
        token + 1 is left out.
        """
        return F.gelu(self.conv(x.transpose(1, 2))[:, :, :-1]).transpose(1, 2)


class Attention(nn.Module):
    """Self-attention of 12 heads of 64 over all tokens: (batch, token, 768) -> the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.k_proj = nn.Linear(WIDTH, WIDTH)
        self.v_proj = nn.Linear(WIDTH, WIDTH)
        self.q_proj = nn.Linear(WIDTH, WIDTH)
        self.out_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """The attended tokens, before the skip connection."""
        projections = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (p(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in projections)
        heads = F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT if self.training else 0.0)
        return self.out_proj(heads.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Linear, exact GELU, linear: (batch, token, 768) -> the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.intermediate_dense = nn.Linear(WIDTH, HIDDEN)
        self.output_dense = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """What is added to x."""
        hidden = F.dropout(gelu(self.intermediate_dense(x)), DROPOUT, self.training)
        return self.output_dense(hidden)


class Layer(nn.Module):
    """One post-norm transformer layer: (batch, token, 768) -> the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.layer_norm = nn.LayerNorm(WIDTH)
        self.feed_forward = FeedForward()
        self.final_layer_norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Attention, then feed-forward, each added to its input and normed."""
        x = self.layer_norm(x + F.dropout(self.attention(x), DROPOUT, self.training))
        return self.final_layer_norm(x + F.dropout(self.feed_forward(x), DROPOUT, self.training))


class Encoder(nn.Module):
    """Positions and twelve layers: (batch, token, 768) -> the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.pos_conv_embed = PositionalConv()
        self.layer_norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        """The tokens after the last layer; in training each layer is left out of a pass with
        probability 0.1.
        """
        x = F.dropout(self.layer_norm(x + self.pos_conv_embed(x)), DROPOUT, self.training)
        for layer in self.layers:
            if not self.training or float(torch.rand(())) >= LAYERDROP:
                x = layer(x)
        return x


class HubertEcg(nn.Module):
    """The encoder: twelve leads in, 768 features out."""

    def __init__(self) -> None:
        super().__init__()
        # stands for masked tokens in pre-training only
        self.masked_spec_embed = nn.Parameter(torch.rand(WIDTH))
        self.feature_extractor = FrontEnd()
        self.feature_projection = Projection()
        self.encoder = Encoder()
        self._initialise()

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of a batch of windows.

        signal (batch, 12, time) float32 at 100 Hz, each lead scaled to [-1, 1], 500 samples for its
        authors; measured (batch, 12) all True, since the network reads all its rows. Anything else
        is a ValueError.
        """
        demand_all("HuBERT-ECG", signal, measured, len(LEADS))
        if signal.shape[1] * signal.shape[2] < SHORTEST:
            raise ValueError(
                f"HuBERT-ECG reads windows of {SHORTEST} samples over all leads or more, not 12 x "
                f"{signal.shape[2]}"
            )
        tokens = self.feature_extractor(signal.reshape(len(signal), 1, -1))
        sequence = self.encoder(self.feature_projection(tokens))
        return Features(sequence, sequence.mean(1))

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
            elif isinstance(module, ConvLayer):
                nn.init.kaiming_normal_(module.conv.weight)


def build(weights: str | Path | None = None) -> HubertEcg:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(HubertEcg(), weights, CARD)


def paper_layers(network: nn.Module, samples: int, leads: int) -> paper_flop.Layout:
    """The layers by the paper's FLOP count; all leads are read whatever is measured."""
    n, layers = len(LEADS) * samples, []
    for i, (kernel, stride) in enumerate(zip(KERNELS, STRIDES)):
        n = (n - kernel) // stride + 1
        weight = rf"feature_extractor\.conv_layers\.{i}\.conv\.weight"
        layers.append(paper_flop.Layer(weight, n, first=i == 0))
    conv = r"encoder\.pos_conv_embed\.conv\.(parametrizations\.weight\.original1|weight_v)"
    attention = r"attention\.[kvq]_proj|attention\.out_proj"
    linear = rf"encoder\.layers\.\d+\.({attention}|feed_forward\.\w+_dense)\.weight"
    layers += [
        paper_flop.Layer(r"feature_projection\.projection\.weight", n),
        paper_flop.Layer(conv, n + 1, groups=GROUPS),
        paper_flop.Layer(linear, n),
    ]
    other = r".*\.(original0|weight_g)|final_proj\..*|label_embedding\..*"
    return paper_flop.Layout(tuple(layers), other=other)
