"""What every network returns, and what it refuses to be given."""

from typing import NamedTuple

import torch
from torch import Tensor


class Features(NamedTuple):
    """Representation of a batch of windows."""

    sequence: Tensor
    """(batch, token, dim). Where windows of one batch have different numbers of leads, the shorter
    ones end in zeros.
    """
    pooled: Tensor
    """(batch, dim): what heads and probes read."""


def demand_windows(
    title: str, signal: Tensor, measured: Tensor, leads: int, time: int | None = None
) -> None:
    """ValueError unless signal is (batch, leads, time) of floats and measured (batch, leads) of
    bool, none of them empty.
    """
    whole = (
        signal.ndim == 3
        and signal.numel() > 0
        and signal.shape[1] == leads
        and measured.shape == signal.shape[:2]
    )
    if not whole or signal.shape[2] != (time or signal.shape[2]):
        shapes = f"{tuple(signal.shape)} and {tuple(measured.shape)}"
        raise ValueError(
            f"{title} reads signal (batch, {leads}, {time or 'time'}) and measured (batch, "
            f"{leads}), not {shapes}"
        )
    if not signal.is_floating_point() or measured.dtype != torch.bool:
        raise ValueError(
            f"{title} reads a signal of floats and measured of bool, not {signal.dtype} and "
            f"{measured.dtype}"
        )


def demand_all(title: str, measured: Tensor) -> None:
    """ValueError unless every lead counts as measured: the network has no mask."""
    if not bool(measured.all()):
        raise ValueError(
            f"{title} has no mask and reads every row: fill absent leads before (policy zero), "
            f"and pass measured all True"
        )


def demand_some(title: str, measured: Tensor) -> None:
    """ValueError unless every window has a measured lead."""
    if not bool(measured.any(1).all()):
        raise ValueError(
            f"window {int((~measured.any(1)).nonzero()[0])} of the batch has no measured lead; "
            f"{title} needs one"
        )
