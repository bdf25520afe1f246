"""Whether bf16 gains time on this processor: some multiply it faster than float32, some slower."""

import time
from collections.abc import Iterable

import torch

ROWS, WIDTH, TIMES = 512, 768, 5
"""A product of LAEF's width, 0.6 GFLOP, and how often it is tried."""
WORTH = 1.2
"""How many times as long a product must take before it is worth a line."""


def warning(device: str, precisions: Iterable[str]) -> str:
    """A line where one of the precisions is bf16 and slower than float32 here; else empty. Measured
    on a CPU with the threads that torch has now, in about 0.1 s; the best of some times, because
    other work on the machine only adds.
    """
    if device != "cpu" or "bf16" not in precisions:
        return ""
    rough, exact = (_seconds(kind) for kind in (torch.bfloat16, torch.float32))
    if rough < WORTH * exact:
        return ""
    return (
        f"products in bf16 take {rough / exact:.1f} times as long as in float32 on this processor "
        f"(measured just now): --set training.precision=float32 (pretrain, ablate: --set "
        f"precision=float32) is faster here, in an --out of its own"
    )


def _seconds(kind: torch.dtype) -> float:
    left, right = (torch.full((n, WIDTH), 0.5, dtype=kind) for n in (ROWS, WIDTH))
    spent = []
    for _ in range(1 + TIMES):
        began = time.perf_counter()
        torch.mm(left, right)
        spent.append(time.perf_counter() - began)
    return min(spent[1:])  # the first one loads kernels
