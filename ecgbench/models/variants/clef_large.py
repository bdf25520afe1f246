"""CLEF L: the largest network of `clef_medium`, with weights of its own."""

from dataclasses import replace
from pathlib import Path

from ecgbench.models.clef_medium import CARD as MEDIUM
from ecgbench.models.clef_medium import FOLDER, Clef
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
CARD = replace(
    MEDIUM,
    name="",  # the room fills in the file's own
    title="CLEF L",
    parameters=296_623_360,
    dim=2048,
    groups={**MEDIUM.groups, "late": tuple(f"stage_list.{i}." for i in range(3, 9))},
    weights=tuple(
        replace(w, url=f"{FOLDER}/clef_largel.ckpt", file="clef_largel.ckpt")
        for w in MEDIUM.weights
    ),
)


def build(weights: str | Path | None = None) -> Clef:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(Clef(SHAPE), weights, CARD)
