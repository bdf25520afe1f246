"""A graph transformer under LAEF's embedder: scaled dot-product attention over a node's neighbours
(Shi et al., IJCAI 2021, arXiv:2009.03509, equations 3 and 4).
"""

from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.layers.grid import gathered, glorot, listening, slots
from ecgbench.models import laef
from ecgbench.models.laef import Laef, LaefConfig
from ecgbench.weights.load import loaded

CARD = replace(
    laef.CARD,
    title="LAEF, graph transformer",
    summary=("LAEF's embedder under two graph transformer blocks of width 512"),
    paper="Shi, Huang, Feng, Zhong, Wang and Sun, IJCAI 2021, arXiv:2009.03509",
    parameters=3_686_400,
    dim=512,
    weights=(),
    corpora=(),
    choices={
        "block": (
            "x <- Dropout(GELU(LayerNorm(x + attention(x)))): the skip of the block "
            "instead of the layer's own gated one"
        ),
        "blocks": ("two, for three would be half as large again as the budget"),
        "attention": (
            "queries, keys and values with bias, 8 heads concatenated, no map behind "
            "them; a node hears itself"
        ),
        "dropout": ("0.1 on the attention coefficients and behind each block"),
    },
)


class GraphTransformer(nn.Module):
    """softmax(q_i . k_j / sqrt(channels)) over a node's neighbours and itself, times v_j."""

    def __init__(self, config: LaefConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.query, self.key, self.value = (glorot(config.width, config.width) for _ in range(3))

    def forward(self, x: Tensor, dropped: Tensor | None = None) -> Tensor:
        """(batch, lead, time, width) -> the same shape; dropped as in `GATv2`."""
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)) for layer in (self.query, self.key, self.value)
        )
        scores = slots(_products(q, k), _products(q.transpose(1, 2), k.transpose(1, 2)))
        heard = listening(x, dropped, itself=True)
        share = (scores / q.shape[-1] ** 0.5).masked_fill(~heard, float("-inf")).softmax(-1)
        return gathered(F.dropout(share, self.dropout, self.training), v).flatten(-2)


def _products(q: Tensor, k: Tensor) -> Tensor:
    """(a, b, n, head, channel) each -> (a, b, head, n, n)."""
    return torch.matmul(q.transpose(2, 3), k.permute(0, 1, 3, 4, 2))


CONFIG = LaefConfig(width=512, blocks=2, attention=GraphTransformer)


def build(weights: str | Path | None = None, config: LaefConfig = CONFIG) -> Laef:
    """The network with random weights (torch's generator), or with those of a file."""
    return loaded(Laef(config), weights, CARD)
