"""An MLP under LAEF's embedder: every node alone, the same two linear maps for all."""

from dataclasses import replace
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.layers.grid import glorot
from ecgbench.models import laef
from ecgbench.models.laef import Laef, LaefConfig
from ecgbench.weights.load import loaded

CARD = replace(
    laef.CARD,
    title="LAEF, MLP",
    summary=("LAEF's embedder under three blocks of an MLP per node, width 512"),
    paper="none",
    parameters=3_687_424,
    dim=512,
    weights=(),
    corpora=(),
    choices={
        "block": ("x <- Dropout(GELU(LayerNorm(x + MLP(x)))), as LAEF's around its attention"),
        "MLP": ("two linear maps of the node's width with exact GELU between them, as in laef_gin"),
        "topology": ("none: whatever the configuration says, no node hears another"),
    },
)


class NodeMlp(nn.Module):
    """Linear, exact GELU, linear."""

    def __init__(self, config: LaefConfig) -> None:
        super().__init__()
        self.first, self.second = (glorot(config.width, config.width) for _ in range(2))

    def forward(self, x: Tensor, dropped: Tensor | None = None) -> Tensor:
        """(batch, lead, time, width) -> the same shape; there are no edges to drop."""
        out: Tensor = self.second(F.gelu(self.first(x)))
        return out


CONFIG = LaefConfig(width=512, blocks=3, attention=NodeMlp, topology="none")


def build(weights: str | Path | None = None, config: LaefConfig = CONFIG) -> Laef:
    """The network with random weights (torch's generator), or with those of a file."""
    return loaded(Laef(config), weights, CARD)
