"""One block: LAEF's embedder, narrow, under a single block that averages neighbours instead of
attending to them.

A variant of an encoder is one such file; it runs as `--models` and is pre-trained as `--model`.
"""

from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from ecgbench.models import laef
from ecgbench.weights.load import loaded

CARD = replace(
    laef.CARD,
    title="One block",
    summary="LAEF's embedder under one block that averages the neighbours of a node",
    paper="none",
    parameters=42_624,
    dim=64,
    weights=(),
    corpora=(),
    choices={
        "block": "own node and mean of its lead and of its time step, each through a linear map"
    },
)


class Neighbours(nn.Module):
    """What a node says itself, and what its lead and its time step say on average."""

    def __init__(self, config: laef.LaefConfig) -> None:
        super().__init__()
        self.own = nn.Linear(config.width, config.width)
        self.others = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, dropped: Tensor | None = None) -> Tensor:
        """(batch, lead, node, width) -> the same shape; means know no edges, so none is dropped."""
        out: Tensor = self.own(x) + self.others(
            (x.mean(2, keepdim=True) + x.mean(1, keepdim=True)) / 2
        )
        return out


CONFIG = laef.LaefConfig(width=64, blocks=1, attention=Neighbours)


def build(weights: str | Path | None = None) -> laef.Laef:
    """The network with random weights (torch's generator), or those of a file."""
    return loaded(laef.Laef(CONFIG), weights, CARD)
