"""The pairwise scores of GATv2 as one compiled loop: the maximum of two nodes is weighed and summed
without being stored.

One compilation per process and device serves every batch and any number of leads or time steps. It
has to be asked for (`models.laef.choose_path`): its sums run in another order than the eager ones,
so which of the two computes must never depend on how much of a run is left.
"""

import functools
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

Kernel = Callable[[Tensor, Tensor, Tensor], Tensor]


def _pairs(column: Tensor, row: Tensor, vector: Tensor) -> Tensor:
    highest = torch.maximum(
        column.unflatten(-1, vector.shape).unsqueeze(1),
        row.unflatten(-1, vector.shape).unsqueeze(2),
    )
    return (highest * vector).sum(-1).permute(0, 3, 1, 2)


@functools.cache
def training_kernel(heads: int, channels: int, device: str) -> Kernel | None:
    """As `kernel`, with gradients: neither pass stores a (pair, channel) value.

    Of two equal values each gets half of the gradient, where the eager passes give it to the row.
    None, with a warning that says why, where nothing can be compiled.
    """
    try:
        compiled: Kernel = torch.compile(_pairs, fullgraph=True)
        column, row = (
            torch.zeros(24, 20, heads * channels, device=device, requires_grad=True)
            for _ in range(2)
        )
        for x in (column, row):
            torch._dynamo.mark_dynamic(x, (0, 1))
        vector = torch.zeros(heads, channels, device=device, requires_grad=True)
        compiled(column, row, vector).sum().backward()
    except Exception as error:  # as in `kernel`
        warnings.warn(f"LAEF trains uncompiled: {_reason(error)}", stacklevel=2)
        return None
    return compiled


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


@functools.cache
def kernel(heads: int, channels: int, device: str) -> Kernel | None:
    """column, row (group, n, heads * channels), vector (heads, channels) -> (group, heads, n, n) as
    `_gatv2` defines them.

    For float32 in inference mode, two groups and two nodes or more. None, with a warning that says
    why, where nothing can be compiled: no C++ compiler, or none that works.
    """
    try:
        compiled: Kernel = torch.compile(_pairs, fullgraph=True)
        with torch.inference_mode():
            # one example for every process: what is generated must not depend on which record comes
            # first
            column, row = (torch.zeros(24, 20, heads * channels, device=device) for _ in range(2))
            for x in (column, row):
                torch._dynamo.mark_dynamic(x, (0, 1))
            compiled(column, row, torch.zeros(heads, channels, device=device))
    except Exception as error:  # a compiler fails in many ways, none of which should end a run
        warnings.warn(f"LAEF runs uncompiled, about a tenth slower: {_reason(error)}", stacklevel=2)
        return None
    return compiled
