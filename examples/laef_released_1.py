"""LAEF with the weights that were shipped first, under a name of its own, so that one run can hold
it beside the weights that are shipped now and compare the two in pairs.

ecgbench run --models laef,./examples/laef_released_1.py --weights laef_released_1=released-1 ...
"""

from dataclasses import replace
from pathlib import Path

from ecgbench.models import laef

CARD = replace(
    laef.CARD,
    title="LAEF released-1",
    weights=tuple(w for w in laef.CARD.weights if w.name == "released-1"),
)
choose_path = laef.choose_path


def build(weights: str | Path | None = None) -> laef.Laef:
    """LAEF with the weights called `released-1`, or with those of a file."""
    return laef.build(weights)
