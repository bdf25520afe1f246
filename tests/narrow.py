"""Narrow: LAEF with 64 features in place of 768, small enough for tests that pre-train.

Embedder, attention, dropout and depth are LAEF's, so whatever stops, resumes or shares a
pre-training meets the same tensors, only smaller ones. Enters as `--model tests/narrow.py`.
"""

from dataclasses import replace
from pathlib import Path

from ecgbench.models import laef
from ecgbench.weights.load import loaded

CONFIG = laef.LaefConfig(width=64)
CARD = replace(
    laef.CARD,
    title="Narrow",
    summary="LAEF with 64 features",
    paper="none",
    parameters=51_328,
    dim=64,
    weights=(),
    corpora=(),
)


def build(weights: str | Path | None = None) -> laef.Laef:
    """The network with random weights (torch's generator), or those of a file."""
    return loaded(laef.Laef(CONFIG), weights, CARD)
