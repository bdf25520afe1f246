"""LAEF from random weights under a name of its own, so that one run can hold it beside the released
weights and compare the two in pairs.

ecgbench run --models laef,./adapters/untrained_laef.py --weights
laef=released,untrained_laef=random ...
"""

from dataclasses import replace
from pathlib import Path

from ecgbench.models import laef

CARD = replace(laef.CARD, title="LAEF untrained", weights=(), corpora=())


def build(weights: str | Path | None = None) -> laef.Laef:
    """LAEF with random weights, or with those of a file."""
    return laef.build(weights)
