"""CLEF S: the smallest network of `clef_medium`, with weights of its own."""

from pathlib import Path

from ecgbench.models.clef_medium import Clef, card_of
from ecgbench.models.clef_medium import paper_layers as paper_layers
from ecgbench.models.ecgfounder import Shape
from ecgbench.weights.load import loaded

SHAPE = Shape(
    stages=((32, 1), (64, 1), (64, 2), (128, 2), (128, 2), (256, 2)),
    stem=32,
    per_group=8,
    ratio=0.5,
)
CARD = card_of("CLEF S", SHAPE, "clef_small.ckpt", 447_792)


def build(weights: str | Path | None = None) -> Clef:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(Clef(SHAPE), weights, CARD)
