"""ST-MEM: a ViT-B over patches of 75 samples that keeps the lead axis (Na et al., ICLR 2024).
Encoder only, our own code.

Each lead is cut into patches of 0.3 s, every patch becomes one token, each lead is framed by two
SEP tokens and marked by its own lead embedding, and all tokens of all leads attend to one another.
A lead that was not measured may arrive as zeros (`measured` all True: the ordinary 12-lead network)
or not at all: then it has no tokens, which is how its authors meant it. State-dict keys are those
of the authors' encoder checkpoint.
"""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ecgbench.cards.model import ModelCard, Weights, reference_feeding
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.leads import LEADS
from ecgbench.layers import paper_flop
from ecgbench.layers.blocks import Block
from ecgbench.layers.features import Features, by_number_of_leads, demand_some
from ecgbench.weights.load import loaded

WIDTH, DEPTH, HEADS, HIDDEN = 768, 12, 12, 3072
PATCH = 75
"""Samples of one patch (0.3 s at 250 Hz)."""
MOST_PATCHES = 30
"""Patches of the longest window, 9 s."""

_LICENCE = "CC BY-NC 4.0 (LICENSE file); the README reserves all rights of VUNO Inc."
_TERMS = (
    "no commercial use, and no redistribution: its authors reserve all rights outside CC BY-NC 4.0"
)
_DECODER = (
    "mask_embedding",
    "decoder_pos_embed",
    "to_patch_embedding.",  # aliases of encoder.to_patch_embedding.*
    "to_decoder_embedding.",
    "decoder_blocks.",
    "decoder_norm.",
    "decoder_head.",
)

_PAPER = reference_feeding(fs=250, seconds=2.4, leads=LEADS)

CARD = ModelCard(
    title="ST-MEM",
    summary=(
        "ViT-B/75 over the patches of all leads, pre-trained by masking patches in time and lead"
    ),
    paper=(
        "Na, Park, Tae and Joo, Guiding Masked Representation Learning to Capture Spatio-Temporal "
        "Relationship of "
        "Electrocardiogram, ICLR 2024, arXiv:2402.09450"
    ),
    origin="github.com/bakqui/ST-MEM at 69ec702",
    licence=_LICENCE,
    parameters=85_150_614,
    dim=WIDTH,
    contracts=(
        _PAPER,
        replace(
            _PAPER,
            name="upstream",
            seconds=9,
            filter=Filter(kind="butterworth-sosfiltfilt", low=0.67, high=40, where="window"),
            normalisation="standardise-record",
            fill="after",
            absent="0, the mean of the window's measured leads, which were standardised without it",
            resampler="fft",
            scope="window",
            stride=0.5,
            short="edge",
        ),
    ),
    native=True,
    groups={
        "early": (
            "to_patch_embedding.",
            "sep_embedding",
            "lead_embeddings.",
            "pos_embedding",
            "block0.",
            "block1.",
            "block2.",
        ),
        "late": (*(f"block{i}." for i in range(3, DEPTH)), "norm."),
    },
    weights=(
        Weights(
            name="released",
            url="https://drive.google.com/file/d/14nScwPk35sFi8wc-cuLJLqudVwynKS0n/view",
            file="st_mem_vit_base_full.pth",
            sha256=None,
            licence=_LICENCE,
            terms=_TERMS,
            container=("model",),
            prefix="encoder.",
            drop=_DECODER,
        ),
        Weights(
            name="released-encoder",
            url="https://drive.google.com/file/d/1E7J-A1HqWa2f08T6Sfk5uWk-_CFJhOYQ/view",
            file="st_mem_vit_base_encoder.pth",
            sha256="6f63d370fd1a2ccf2fbddd681571adf985eeae3f652973f0071342a39b7793d6",
            licence=_LICENCE,
            terms=_TERMS,
            container=("model",),
        ),
    ),
    objective="masked patches of all leads reconstructed, lead by lead",
    corpora=("Chapman-Shaoxing", "Ningbo", "CODE-15"),
    choices={
        "windows": (
            "upstream: three of 9 s that begin every 0.5 s of a 10 s record, as the "
            "authors evaluate; probabilities averaged"
        ),
        "resampling": "paper: polyphase over the record; it and the reference benchmark's "
        "(resampy on each crop) differ by 0.9 % of the "
        "signal's rms on 200 PTB-XL records (95th percentile 2.7 %)",
        "initialisation": (
            "random weights: normal of standard deviation 0.02 for linear maps and "
            "embeddings, zero biases"
        ),
        "sequence": (
            "patch tokens before the final LayerNorm; the pooled feature is the LayerNorm "
            "of their mean"
        ),
        "groups": (
            "early: patch embedding, SEP, lead embeddings, positions, blocks 0-2; late: the rest"
        ),
    },
)


class StMem(nn.Module):
    """The encoder: any subset of the twelve leads in, 768 features out."""

    def __init__(self) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(position_table())
        self.sep_embedding = nn.Parameter(torch.empty(WIDTH))
        self.lead_embeddings = nn.ParameterList([nn.Parameter(torch.empty(WIDTH)) for _ in LEADS])
        self.to_patch_embedding = nn.ModuleDict(
            {"1": nn.LayerNorm(PATCH), "2": nn.Linear(PATCH, WIDTH), "3": nn.LayerNorm(WIDTH)}
        )
        for i in range(DEPTH):
            self.add_module(f"block{i}", Block(WIDTH, HEADS, HIDDEN))
        self.norm = nn.LayerNorm(WIDTH)
        self._initialise()

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of a batch of windows.

        signal (batch, 12, time) float32, mV at 250 Hz, time a multiple of 75 and at most 2250; rows
        that `measured` (batch, 12) bool leaves out are never read and may hold NaN. Any other
        length, or a window without a measured lead, is a ValueError.
        """
        demand_some("ST-MEM", signal, measured, len(LEADS))
        time = signal.shape[2]
        if time % PATCH or time > MOST_PATCHES * PATCH:
            raise ValueError(
                f"ST-MEM reads windows of a multiple of {PATCH} samples, at most "
                f"{MOST_PATCHES * PATCH}, not {time}"
            )
        table = torch.stack(list(self.lead_embeddings))
        if measured.all():
            return self._encode(signal, table[None])
        return by_number_of_leads(
            signal, measured, lambda some, leads: self._encode(some, table[leads])
        )

    def _encode(self, signal: Tensor, lead: Tensor) -> Features:
        """signal (batch, c, time) of present leads only, lead (batch or 1, c, 768) their
        embeddings.
        """
        batch, c, time = signal.shape
        x = self._tokens(signal, lead)
        for i in range(DEPTH):
            x = self.get_submodule(f"block{i}")(x)
        x = x.view(batch, c, time // PATCH + 2, WIDTH)[:, :, 1:-1].reshape(batch, -1, WIDTH)
        return Features(x, self.norm(x.mean(1)))

    def _tokens(self, signal: Tensor, lead: Tensor) -> Tensor:
        """(batch, c, time) -> (batch, c (n + 2), 768): SEP, n patches, SEP of each lead in turn."""
        batch, c, time = signal.shape
        n = time // PATCH
        embed = self.to_patch_embedding
        x = embed["3"](embed["2"](embed["1"](signal.reshape(batch, c, n, PATCH))))
        x = x + self.pos_embedding[0, 1 : n + 1]
        # the last row whatever n is
        left, right = self.sep_embedding + self.pos_embedding[0, [0, -1]]
        ends = [end.expand(batch, c, 1, WIDTH) for end in (left, right)]
        x = torch.cat([ends[0], x, ends[1]], 2) + lead[:, :, None]
        return x.view(batch, c * (n + 2), WIDTH)

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        for vector in (self.sep_embedding, *self.lead_embeddings):
            nn.init.normal_(vector, std=0.02)


def position_table() -> Tensor:
    """(1, 32, 768): row p + 1 is [sin(p w_k) | cos(p w_k)], w_k = 10000^(-k/384); the rows of the
    SEP tokens (first and last) are 0.
    """
    half = WIDTH // 2
    angle = torch.arange(MOST_PATCHES, dtype=torch.float64)[:, None] * 10000.0 ** (
        -torch.arange(half, dtype=torch.float64) / half
    )
    table = torch.zeros(1, MOST_PATCHES + 2, WIDTH)
    table[0, 1:-1] = torch.cat([angle.sin(), angle.cos()], 1).float()
    return table


def build(weights: str | Path | None = None) -> StMem:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(StMem(), weights, CARD)


def paper_layers(network: nn.Module, samples: int, leads: int) -> paper_flop.Layout:
    """The layers by the paper's FLOP count; all twelve leads are read whatever is measured."""
    patches = samples // PATCH
    tokens = len(LEADS) * (patches + 2)
    linear = r"block\d+\.(attn\.fn\.to_(qkv|out\.0)|ff\.fn\.net\.[03])\.weight"
    layers = (
        # not first: a LayerNorm with weights precedes it
        paper_flop.Layer(r"to_patch_embedding\.2\.weight", len(LEADS) * patches),
        paper_flop.Layer(linear, tokens),
    )
    products = DEPTH * 2 * paper_flop.product(tokens, tokens, WIDTH)
    return paper_flop.Layout(layers, products, other="pos_embedding")
