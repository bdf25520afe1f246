"""ECG-FM: wav2vec 2.0 with contrastive segments and random lead masking, a transformer of
BERT-Base's size over tokens of all twelve leads (McKeen et al. 2024).

Convolutions mix the leads in the first layer and make a token of every 16 samples; positions come
from a convolution over the tokens, and twelve post-norm layers follow. State-dict keys are those of
the authors' files without what only pre-training reads.
"""

from dataclasses import replace
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.cards.model import Classifier, InputContract, ModelCard, Weights
from ecgbench.ecg.leads import LEADS
from ecgbench.layers import paper_flop
from ecgbench.layers.blocks import gelu
from ecgbench.layers.features import Features, demand_all
from ecgbench.models.hubertecg import GROUPS, Attention, placing_conv
from ecgbench.weights.load import loaded

WIDTH, DEPTH, HIDDEN, CHANNELS, CONVOLUTIONS = 768, 12, 3072, 256, 4
DROPOUT = 0.1
SHORTEST = 2**CONVOLUTIONS
"""Samples of one token."""

_CONV = ".parametrizations.weight.original"
_RELEASED = Weights(
    name="released",
    url="https://huggingface.co/wanglab/ecg-fm/resolve/main/mimic_iv_ecg_physionet_pretrained.pt",
    file="mimic_iv_ecg_physionet_pretrained.pt",
    sha256=None,
    licence="MIT",
    container=("model",),
    drop=("mask_emb", "quantizer.", "project_q.", "final_proj."),
    aliases=((".0.weight_g", f".0{_CONV}0"), (".0.weight_v", f".0{_CONV}1")),
)

CARD = ModelCard(
    title="ECG-FM",
    summary="wav2vec 2.0 on twelve leads: a transformer over convolutional tokens",
    paper=(
        "McKeen, Masood, Toma, Rubin and Wang, ECG-FM: An Open Electrocardiogram Foundation Model, "
        "arXiv:2408.05178 (2024)"
    ),
    origin="github.com/Jwoo5/fairseq-signals at 6b9e137; github.com/bowang-lab/ecg-fm at 37a5137",
    licence="MIT",
    parameters=90_373_248,
    dim=WIDTH,
    contracts=(
        InputContract(
            name="paper",
            fs=500,
            seconds=5,
            leads=LEADS,
            unit="mV",
            filter=None,
            normalisation="standardise-per-lead",
            resampler="linear",
            fill="after",
            policy="zero",
            absent="0 after the standardisation, as in pre-training",
        ),
    ),
    native=False,
    groups={
        "early": (
            *("feature_extractor.", "layer_norm.", "post_extract_proj.", "conv_pos."),
            "encoder.layer_norm.",
            *(f"encoder.layers.{i}." for i in range(DEPTH // 2)),
        ),
        "late": tuple(f"encoder.layers.{i}." for i in range(DEPTH // 2, DEPTH)),
    },
    weights=(
        _RELEASED,
        replace(
            _RELEASED,
            name="released-mimic",
            url=_RELEASED.url.replace(_RELEASED.file, "mimic_iv_ecg_finetuned.pt"),
            file="mimic_iv_ecg_finetuned.pt",
            prefix="encoder.",
            drop=("proj.",),
            classifier=Classifier(tensors="proj.", table="ecgfm"),
        ),
    ),
    objective="masked tokens told from others, segments of one recording alike, leads masked",
    corpora=(
        "MIMIC-IV-ECG",
        "CPSC2018",
        "CPSC-Extra",
        "Georgia",
        "PTB-XL",
        "Chapman-Shaoxing",
        "Ningbo",
    ),
    choices={
        "weights": "released: the pre-trained file; released-mimic: the one that its authors "
        "fine-tuned on labels of MIMIC-IV-ECG",
        "corpora": "parts of the Challenge 2021, divided at random by recording and not by "
        "PTB-XL's folds, so its test records were met, without labels",
        "standardisation": "each lead by its own mean and population deviation over the whole "
        "record after resampling and before windows are cut, as its authors do",
        "missing leads": "0 after the standardisation: what random lead masking did",
        "windows": "consecutive ones of 5 s, probabilities averaged; its authors take the largest "
        "probability for five of their 17 labels",
        "short records": "below 5 s they are left out; its authors pad with zeros and mask tokens",
        "dropout": "0.1 on hidden states and attention in training mode, as in pre-training",
        "initialisation": "torch's defaults for convolutions and linear maps; normal of "
        "sqrt(4 / (128 x 768)) and zero bias for the convolution over tokens",
        "sequence": "the tokens after the last layer; the pooled feature is their mean",
        "groups": "ours: late are layers 6-11, early all before",
    },
)


class FrontEnd(nn.Module):
    """(batch, 12, time) -> (batch, token, 256): four convolutions of two samples, the first with a
    norm per channel over the whole window.
    """

    def __init__(self) -> None:
        super().__init__()

        def layer(number: int) -> nn.Sequential:
            inputs = CHANNELS if number else len(LEADS)
            conv = nn.Conv1d(inputs, CHANNELS, 2, 2, bias=False)
            # the places are those of the authors' names: dropout stands at 1 and does nothing
            norm = [] if number else [nn.Identity(), nn.GroupNorm(CHANNELS, CHANNELS)]
            return nn.Sequential(conv, *norm)

        self.conv_layers = nn.ModuleList(layer(number) for number in range(CONVOLUTIONS))

    def forward(self, x: Tensor) -> Tensor:
        """The tokens."""
        for layer in self.conv_layers:
            x = gelu(layer(x))
        return x.transpose(1, 2)


class Positions(nn.Module):
    """What places the tokens: a convolution over them in 16 groups, its weight normalised per tap,
    then exact GELU.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pos_conv = nn.Sequential(placing_conv())

    def forward(self, x: Tensor) -> Tensor:
        """(batch, token, 768) -> the same shape, to be added; the convolution's last output of
        token + 1 is left out.
        """
        return F.gelu(self.pos_conv(x.transpose(1, 2))[:, :, :-1]).transpose(1, 2)


class Layer(nn.Module):
    """One post-norm transformer layer: (batch, token, 768) -> the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn = Attention()
        self.self_attn_layer_norm = nn.LayerNorm(WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.final_layer_norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Attention, then feed-forward, each added to its input and normed."""
        x = self.self_attn_layer_norm(x + F.dropout(self.self_attn(x), DROPOUT, self.training))
        added = F.dropout(self.fc2(gelu(self.fc1(x))), DROPOUT, self.training)
        return self.final_layer_norm(x + added)


class Encoder(nn.Module):
    """A norm and twelve layers: (batch, token, 768) -> the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        """The tokens after the last layer."""
        x = F.dropout(self.layer_norm(x), DROPOUT, self.training)
        for layer in self.layers:
            x = layer(x)
        return x


class EcgFm(nn.Module):
    """The encoder: twelve leads in, 768 features out."""

    def __init__(self) -> None:
        super().__init__()
        self.feature_extractor = FrontEnd()
        self.layer_norm = nn.LayerNorm(CHANNELS)
        self.post_extract_proj = nn.Linear(CHANNELS, WIDTH)
        self.conv_pos = Positions()
        self.encoder = Encoder()

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of a batch of windows: a token for every 16 samples.

        signal (batch, 12, time) at 500 Hz, each lead standardised, of 16 samples or more; measured
        (batch, 12) all True, since the network reads all its rows. Anything else is a ValueError.
        """
        demand_all(CARD.title, signal, measured, len(LEADS))
        if signal.shape[2] < SHORTEST:
            raise ValueError(
                f"{CARD.title} reads windows of {SHORTEST} samples or more, not {signal.shape[2]}"
            )
        x = self.post_extract_proj(self.layer_norm(self.feature_extractor(signal)))
        sequence = self.encoder(x + self.conv_pos(x))
        return Features(sequence, sequence.mean(1))


def build(weights: str | Path | None = None) -> EcgFm:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(EcgFm(), weights, CARD)


def paper_layers(network: nn.Module, samples: int, leads: int) -> paper_flop.Layout:
    """The layers by the paper's FLOP count, without the attention products; all rows are read
    whatever is measured.
    """
    n, layers = samples, []
    for number in range(CONVOLUTIONS):
        n //= 2
        weight = rf"feature_extractor\.conv_layers\.{number}\.0\.weight"
        layers.append(paper_flop.Layer(weight, n, first=number == 0))
    layers += [
        paper_flop.Layer(r"post_extract_proj\.weight", n),
        # it gives one token more, which is left out
        paper_flop.Layer(r"conv_pos\..*original1", n + 1, groups=GROUPS),
        paper_flop.Layer(r"encoder\.layers\.\d+\.(self_attn\.\w+|fc[12])\.weight", n),
    ]
    return paper_flop.Layout(tuple(layers), other=r"conv_pos\..*original0")
