"""ECG-JEPA: a ViT-B over 0.2 s patches of eight leads, whose tokens see their lead and their time
(Kim, 2024). Encoder only, our own code.

A token attends to the 50 tokens of its lead and to the tokens of the same time in the other leads,
and is told its time and its lead anew before every block. A lead that was not measured may arrive
as zeros (`measured` all True) or not at all: then it has no tokens, which is how the authors' code
reads subsets. State-dict keys are those of the authors' encoder checkpoint.
"""

import math
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.cards.model import ModelCard, Weights, reference_feeding
from ecgbench.layers import paper_flop
from ecgbench.layers.blocks import gelu
from ecgbench.layers.features import Features, by_number_of_leads, demand_some
from ecgbench.weights.load import loaded

LEADS = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")
WIDTH, DEPTH, HEADS, HIDDEN = 768, 12, 16, 3072
PATCH, PATCHES = 50, 50
"""Samples of one patch (0.2 s at 250 Hz), and patches of one lead."""

_LICENCE = "MIT"

_PAPER = replace(
    reference_feeding(fs=250, seconds=10, leads=LEADS),
    absent="0 mV; III, aVR, aVL and aVF are never read",
)

CARD = ModelCard(
    title="ECG-JEPA",
    summary=(
        "ViT-B over the 0.2 s patches of 8 leads, attention within a lead and within a time, "
        "pre-trained by predicting latents"
    ),
    paper=(
        "Kim, Learning General Representation of 12-Lead Electrocardiogram with a Joint-Embedding "
        "Predictive Architecture, arXiv:2410.08559"
    ),
    origin="github.com/sehunfromdaegu/ECG_JEPA at d937ad2",
    licence=_LICENCE,
    parameters=85_374_720,
    dim=WIDTH,
    contracts=(
        _PAPER,
        replace(_PAPER, name="upstream", resampler="fft", fill="after", short="edge"),
    ),
    native=True,
    objective="predicting the latents of masked stretches of time from the rest",
    corpora=("Chapman-Shaoxing", "Ningbo", "CODE-15"),
    groups={
        "early": ("pos_embed", "W_P.", *(f"encoder_blocks.blocks.{i}." for i in range(3))),
        "late": (*(f"encoder_blocks.blocks.{i}." for i in range(3, DEPTH)), "norm."),
    },
    fixed=("pos_embed",),
    weights=(
        Weights(
            name="released",
            url="https://drive.google.com/file/d/1gMOT4xjQQg0GZkY1iE6NuDzua4ALw00l/view",
            file="multiblock_epoch100.pth",
            sha256="61334869f905a7d6de32bc573c60024eaf6efba7c35c0e45fc2ea7d52b6ff66e",
            licence=_LICENCE,
            container=("encoder",),
        ),
        Weights(
            name="released-random",
            url="https://drive.google.com/file/d/1mh-XL0XOvvhFbhvuZ9c2KnTHa9B4F3Wx/view",
            file="random_epoch100.pth",
            sha256=None,
            licence=_LICENCE,
            container=("encoder",),
        ),
    ),
    choices={
        "initialisation": (
            "random weights: normal of standard deviation 0.02 cut at 2, zero biases; the last "
            "map of either branch of block i "
            "(from 1) divided by sqrt(2 i)"
        ),
        "sequence": (
            "the tokens after the final LayerNorm, lead after lead; the pooled feature is "
            "their mean"
        ),
        "groups": (
            "early: patch projection, blocks 0-2 (and the position table, which is never "
            "trained); late: the rest"
        ),
        "drop path": "none: its authors use 0.1 in pre-training only",
        "policy": (
            "zero under both contracts, as the reference benchmark; `--policy native` reads "
            "the measured ones of the 8 leads alone"
        ),
        "resampling": "paper: polyphase over the record; it and the reference benchmark's "
        "(resampy on each crop) differ by 0.7 % of the "
        "signal's rms on 200 PTB-XL records (95th percentile 1.7 %); upstream: FFT over the record",
        "windows": "consecutive windows of 10 s; the authors read the first 10 s of a record alone",
        "sha256": "of `released`: stated by a third party",
    },
)


class Attention(nn.Module):
    """Self-attention of 16 heads of 48 between the tokens of a lead and those of a time: (batch,
    lead, 50, 768) -> the same shape.
    """

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """The attended tokens, before the skip connection."""
        leads, times = x.shape[1:3]
        q, k, v = self.qkv(x.flatten(1, 2)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mask = None if leads == 1 else allowed(leads, times, x.device)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.proj(heads.transpose(1, 2).flatten(2)).unflatten(1, (leads, times))


@lru_cache(maxsize=32)
def allowed(leads: int, times: int, device: torch.device) -> Tensor:
    """(token, token) bool: whether two tokens share their lead or their time; tokens run over the
    times of one lead first.

    >>> allowed(2, 2, torch.device("cpu")).int().tolist()
    [[1, 1, 1, 0], [1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 1]]
    """
    with torch.inference_mode(False):
        token = torch.arange(leads * times, device=device)
        lead, time = token // times, token % times
        return (lead[:, None] == lead) | (time[:, None] == time)


class Mlp(nn.Module):
    """Linear, exact GELU, linear: (..., 768) -> the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(WIDTH, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """What is added to x."""
        return self.fc2(gelu(self.fc1(x)))


class Block(nn.Module):
    """One pre-norm transformer block: (batch, lead, 50, 768) -> the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = Mlp()

    def forward(self, x: Tensor) -> Tensor:
        """Attention, then MLP, each added to its input."""
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Blocks(nn.Module):
    """Twelve blocks, each told where the tokens stand: (batch, lead, 50, 768) -> the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        """The tokens after the last block; `places`, which broadcasts to x, is added to the
        residual stream itself, twelve times.
        """
        for block in self.blocks:
            x = block(x + places)
        return x


class EcgJepa(nn.Module):
    """The encoder: any subset of its eight leads in, 768 features out."""

    def __init__(self) -> None:
        super().__init__()
        self.pos_embed = nn.Parameter(position_table(), requires_grad=False)
        self.W_P = nn.Linear(PATCH, WIDTH)
        self.encoder_blocks = Blocks()
        self.norm = nn.LayerNorm(WIDTH)
        self._initialise()

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of a batch of windows.

        signal (batch, 8, 2500) float32, mV at 250 Hz, leads I, II, V1 to V6; rows that `measured`
        (batch, 8) bool leaves out are never read and may hold NaN. Another shape, or a window
        without a measured lead, is a ValueError.
        """
        demand_some("ECG-JEPA", signal, measured, len(LEADS), PATCH * PATCHES)
        places = self.pos_embed.view(len(LEADS), PATCHES, WIDTH)
        if measured.all():
            return self._encode(signal, places[None])
        return by_number_of_leads(
            signal, measured, lambda some, leads: self._encode(some, places[leads])
        )

    def _encode(self, signal: Tensor, places: Tensor) -> Features:
        """signal (batch, k, 2500) of measured leads only, places (batch or 1, k, 50, 768) their
        rows of the position table.
        """
        x = self.encoder_blocks(self.W_P(signal.unflatten(2, (PATCHES, PATCH))), places)
        sequence = self.norm(x).flatten(1, 2)
        return Features(sequence, sequence.mean(1))

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        with torch.no_grad():
            for i, block in enumerate((m for m in self.modules() if isinstance(m, Block)), 1):
                block.attn.proj.weight.div_(math.sqrt(2 * i))
                block.mlp.fc2.weight.div_(math.sqrt(2 * i))


def position_table() -> Tensor:
    """(400, 768): of token (lead a, patch s) the first half encodes s, the second a.

    Each half is [sin(p w_k) | cos(p w_k)], w_k = 10000^(-k/192), k = 0..191.
    """
    quarter = WIDTH // 4
    rates = 10000.0 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
    angles = torch.arange(PATCHES, dtype=torch.float64)[:, None] * rates
    wave = torch.cat([angles.sin(), angles.cos()], 1)
    time, lead = wave.repeat(len(LEADS), 1), wave[: len(LEADS)].repeat_interleave(PATCHES, 0)
    return torch.cat([time, lead], 1).float()


def build(weights: str | Path | None = None) -> EcgJepa:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(EcgJepa(), weights, CARD)


def paper_layers(network: nn.Module, samples: int, leads: int) -> paper_flop.Layout:
    """The layers by the paper's FLOP count; all eight leads are read whatever is measured."""
    tokens = len(LEADS) * (samples // PATCH)
    linear = r"encoder_blocks\.blocks\.\d+\.(attn\.(qkv|proj)|mlp\.fc[12])\.weight"
    layers = (
        paper_flop.Layer(r"W_P\.weight", tokens, first=True),
        paper_flop.Layer(linear, tokens),
    )
    # dense: the authors mask the scores of all pairs of tokens, of which 57 in 400 survive
    products = DEPTH * 2 * paper_flop.product(tokens, tokens, WIDTH)
    return paper_flop.Layout(layers, products, other="pos_embed")
