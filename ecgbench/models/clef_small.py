"""CLEF S: the smallest network of `clef_medium`, with weights of its own."""

from dataclasses import replace
from pathlib import Path

from ecgbench.models.clef_medium import CARD as MEDIUM
from ecgbench.models.clef_medium import FOLDER, Clef
from ecgbench.models.clef_medium import paper_layers as paper_layers
from ecgbench.models.ecgfounder import Shape
from ecgbench.weights.load import loaded

SHAPE = Shape(
    stages=((32, 1), (64, 1), (64, 2), (128, 2), (128, 2), (256, 2)),
    stem=32,
    per_group=8,
    ratio=0.5,
)
CARD = replace(
    MEDIUM,
    name="",  # the room fills in the file's own
    title="CLEF S",
    parameters=447_792,
    dim=256,
    groups={**MEDIUM.groups, "late": tuple(f"stage_list.{i}." for i in range(3, 6))},
    weights=tuple(
        replace(w, url=f"{FOLDER}/clef_small.ckpt", file="clef_small.ckpt") for w in MEDIUM.weights
    ),
)


def build(weights: str | Path | None = None) -> Clef:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(Clef(SHAPE), weights, CARD)
