"""Whether bf16 gains time on this processor: some multiply it faster than float32, some slower."""

from collections.abc import Iterable
from functools import partial

import torch

from ecgbench.profiling.clock import milliseconds

ROWS, WIDTH, SECONDS = 512, 768, 0.05
"""A product of LAEF's width, 0.6 GFLOP, and for how long it is repeated."""
WORTH = 1.2
"""How many times as long a product must take before it is worth a line."""


def warning(device: str, precisions: Iterable[str]) -> str:
    """A line where one of the precisions is bf16 and slower than float32 here; else empty. Measured
    on a CPU with the threads that torch has now, in about 0.2 s.
    """
    if device != "cpu" or "bf16" not in precisions:
        return ""
    rough, exact = (_milliseconds(kind) for kind in (torch.bfloat16, torch.float32))
    if rough < WORTH * exact:
        return ""
    return (
        f"products in bf16 take {rough / exact:.1f} times as long as in float32 on this processor "
        f"(measured just now): --precision float32 is faster here, in an --out of its own"
    )


def _milliseconds(kind: torch.dtype) -> float:
    left, right = (torch.full((n, WIDTH), 0.5, dtype=kind) for n in (ROWS, WIDTH))
    return milliseconds(partial(torch.mm, left, right), "cpu", SECONDS)
