"""How a network declares its layers for the FLOP count of the paper that introduced LAEF.

The paper's column is what torch's FlopCounterMode shows for the authors' code, 2 FLOP per
multiply-add: linear maps and convolutions, plus attention products where the authors spell them as
matrix products (ST-MEM, ECG-JEPA) and not where a fused operator hides them from that counter
(HuBERT-ECG); no FFT, kernel, norm, activation, bias or message passing (LAEF, ECG-CPC). A layer
with a weight of n numbers that yields p results costs 2 n p, so what a network's `paper_layers`
declares is how many results each weight yields. `profile/paper.py` adds them up.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """Linear maps or convolutions whose weights match a pattern."""

    weight: str
    """Regular expression of the whole name of the weight."""
    results: int
    """Per window: time steps of a convolution's output, tokens of a linear map."""
    groups: int = 1
    """Of a convolution."""
    first: bool = False
    """Whether it reads the signal itself, so that no gradient of its input is computed."""


@dataclass(frozen=True)
class Layout:
    """One network on one input."""

    layers: tuple[Layer, ...]
    products: int = 0
    """FLOP of attention products that the paper's counter sees."""
    other: str = "(?!)"
    """Regular expression of arrays that are parameters but no layer: embeddings, position
    tables.
    """


def product(rows: int, columns: int, depth: int) -> int:
    """FLOP of a product of (rows, depth) and (depth, columns)."""
    return 2 * rows * columns * depth


def halved(n: int) -> int:
    """Time steps behind a layer of stride 2 that pads its input."""
    return math.ceil(n / 2)
