"""Sheaf attention under LAEF's embedder (Barbero et al., NeurReps workshop 2022): what neighbours
say is turned by the sheaf of their edge and weighed by attention.
"""

from dataclasses import replace
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor

from ecgbench.layers.gatv2 import SLOPE
from ecgbench.layers.grid import glorot, listening, sums
from ecgbench.layers.sheaf import Sheaf
from ecgbench.models import laef
from ecgbench.models.laef import Laef, LaefConfig
from ecgbench.weights.load import loaded

CARD = replace(
    laef.CARD,
    title="LAEF, sheaf attention",
    summary=("LAEF's embedder under three blocks of sheaf attention, width 512"),
    paper=(
        "Barbero, Bodnar, Sáez de Ocáriz Borde and Liò, Sheaf Attention Networks, NeurReps "
        "workshop at NeurIPS 2022"
    ),
    parameters=3_706_876,
    dim=512,
    weights=(),
    corpora=(),
    choices={
        "block": (
            "x <- Dropout(GELU(LayerNorm(x + lower(ELU(attended(lift(x))))))): each "
            "block lifts nodes into their stalks and lowers them again"
        ),
        "version": (
            "the LAEF paper prints two, V1 and V2, and defines neither; this one is the "
            "network of the citation, and V2 is not reproduced"
        ),
        "maps": (
            "rotations of a plane, learned from both ends of an edge in every block, as "
            "in laef_sheaf_diffusion"
        ),
        "attention": (
            "one head: LeakyReLU 0.2 of a linear score of both ends before they are "
            "turned; a node hears itself"
        ),
        "channels": ("29 planes for each 64 of the width, so that the parameters fit the budget"),
        "dropout": ("0.1 on the attention coefficients and behind each block"),
    },
)


class SheafAttention(Sheaf):
    """lower(ELU((attention * turned adjacency) (1 x W1) X W2)) with X = lift(x)."""

    def __init__(self, config: LaefConfig) -> None:
        super().__init__(config.width, 29 * config.width // 64)
        self.dropout = config.dropout
        dim = self.lift.out_features
        self.hearer, self.heard = (glorot(dim, 1, bias=False) for _ in range(2))

    def forward(self, x: Tensor, dropped: Tensor | None = None) -> Tensor:
        """(batch, lead, time, width) -> the same shape; dropped as in `GATv2`."""
        x = self.lift(x)
        scores = F.leaky_relu(sums(self.hearer(x), self.heard(x)), SLOPE)
        heard = listening(x, dropped, itself=True)
        share = scores.masked_fill(~heard, float("-inf")).softmax(-1)
        share = F.dropout(share, self.dropout, self.training)
        out: Tensor = self.lower(F.elu(self.carried(share, self.turns(x), self.mixed(x))))
        return out


CONFIG = LaefConfig(width=512, blocks=3, attention=SheafAttention)


def build(weights: str | Path | None = None, config: LaefConfig = CONFIG) -> Laef:
    """The network with random weights (torch's generator), or with those of a file."""
    return loaded(Laef(config), weights, CARD)
