"""CLEF L: the largest network of `clef_medium`, with weights of its own."""

from pathlib import Path

from ecgbench.models.clef_medium import Clef, card_of
from ecgbench.models.clef_medium import paper_layers as paper_layers
from ecgbench.models.ecgfounder import Shape
from ecgbench.weights.load import loaded

SHAPE = Shape(
    stages=(
        *((128, 2), (256, 3), (256, 3), (512, 4), (512, 4)),
        *((1024, 5), (1024, 5), (2048, 6), (2048, 6)),
    ),
    stem=128,
    per_group=32,
    ratio=1.5,
)
CARD = card_of("CLEF L", SHAPE, "clef_largel.ckpt", 296_623_360)


def build(weights: str | Path | None = None) -> Clef:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(Clef(SHAPE), weights, CARD)
