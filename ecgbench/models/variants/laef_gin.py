"""GIN under LAEF's embedder: a node adds up its neighbours and reads the sum with an MLP (Xu et
al., ICLR 2019, arXiv:1810.00826, equation 4.1).
"""

from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.layers.grid import gathered, glorot, listening
from ecgbench.models import laef
from ecgbench.models.laef import Laef, LaefConfig
from ecgbench.weights.load import loaded

CARD = replace(
    laef.CARD,
    title="LAEF, GIN",
    summary=("LAEF's embedder under three GIN blocks of width 512"),
    paper="Xu, Hu, Leskovec and Jegelka, ICLR 2019, arXiv:1810.00826",
    parameters=3_687_427,
    dim=512,
    weights=(),
    corpora=(),
    choices={
        "block": ("x <- Dropout(GELU(LayerNorm(x + GIN(x)))), as LAEF's around its attention"),
        "MLP": ("two linear maps of the node's width with exact GELU between them"),
        "own node": (
            "counted by 1 + eps alone, eps learned from 0; self-loops of the graph are left out"
        ),
        "dropout": ("of the block only"),
    },
)


class Gin(nn.Module):
    """MLP((1 + eps) x_i + sum over the neighbours x_j)."""

    def __init__(self, config: LaefConfig) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.first, self.second = (glorot(config.width, config.width) for _ in range(2))

    def forward(self, x: Tensor, dropped: Tensor | None = None) -> Tensor:
        """(batch, lead, time, width) -> the same shape; dropped as in `GATv2`."""
        heard = listening(x, dropped, itself=False).to(x.dtype)
        total = gathered(heard, x.unsqueeze(-2)).squeeze(-2)
        out: Tensor = self.second(F.gelu(self.first((1 + self.eps) * x + total)))
        return out


CONFIG = LaefConfig(width=512, blocks=3, attention=Gin)


def build(weights: str | Path | None = None, config: LaefConfig = CONFIG) -> Laef:
    """The network with random weights (torch's generator), or with those of a file."""
    return loaded(Laef(config), weights, CARD)
