"""LAEF's own attention in the budget of its ablations: three GATv2 blocks of width 512."""

from dataclasses import replace
from pathlib import Path

from ecgbench.models import laef
from ecgbench.models.laef import Laef, LaefConfig, paper_layers, reference
from ecgbench.weights.load import loaded

__all__ = ["CARD", "CONFIG", "build", "paper_layers", "reference"]

CARD = replace(
    laef.CARD,
    title="LAEF, GAT",
    summary=("LAEF's embedder and attention, three blocks of width 512"),
    paper="Brody, Alon and Yahav, ICLR 2022, arXiv:2105.14491",
    parameters=3_690_496,
    dim=512,
    weights=(),
    corpora=(),
    choices={
        "attention": ("as LAEF's: GATv2, 8 heads"),
    },
)
CONFIG = LaefConfig(width=512, blocks=3)


def build(weights: str | Path | None = None, config: LaefConfig = CONFIG) -> Laef:
    """The network with random weights (torch's generator), or with those of a file."""
    return loaded(Laef(config), weights, CARD)
