"""What every network returns, and what it refuses to be given."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Features(NamedTuple):
    """Representation of a batch of windows. `Features(pooled)` has no sequence."""

    sequence: Tensor = None  # type: ignore[assignment]
    """(batch, token, dim). Where windows of one batch have different numbers of leads, the shorter
    ones end in zeros.
    """
    pooled: Tensor = None  # type: ignore[assignment]
    """(batch, dim): what heads and probes read."""


def pooled_of(output: Any) -> Any:
    """What heads and probes read of the output of a network: `Features`, or a tensor alone."""
    if not hasattr(output, "pooled"):
        return output
    return output.sequence if output.pooled is None else output.pooled


def joined(groups: Sequence[Features], counts: Tensor) -> Features:
    """Features of windows in the order of `counts` (batch,), their numbers of leads.

    groups: the windows of each number of leads, fewest first.
    """
    longest = groups[-1].sequence.shape[1]
    padded = [F.pad(g.sequence, (0, 0, 0, longest - g.sequence.shape[1])) for g in groups]
    back = counts.argsort(stable=True).argsort()
    return Features(torch.cat(padded)[back], torch.cat([g.pooled for g in groups])[back])


def by_number_of_leads(
    signal: Tensor, measured: Tensor, encode: Callable[[Tensor, Tensor], Features]
) -> Features:
    """Features of windows from their measured leads alone; those with equally many are encoded
    together.

    signal (batch, lead, time), measured (batch, lead) bool. encode: (window, k, time) and the row
    numbers (window, k) of these leads -> their features.
    """
    counts, groups = measured.sum(1), []
    for k in counts.unique().tolist():
        rows = (counts == k).nonzero().squeeze(1)
        leads = measured[rows].nonzero()[:, 1].view(len(rows), k)
        # a gather, never a product with the mask: 0 x NaN is NaN
        groups.append(encode(signal[rows[:, None], leads], leads))
    return joined(groups, counts)


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


def demand_all(
    title: str, signal: Tensor, measured: Tensor, leads: int, time: int | None = None
) -> None:
    """`demand_windows`, and ValueError unless every lead counts as measured: the network has no
    mask.
    """
    demand_windows(title, signal, measured, leads, time)
    if not measured.all():
        raise ValueError(
            f"{title} has no mask and reads every row: fill absent leads before (policy zero), "
            f"and pass measured all True"
        )


def demand_some(
    title: str, signal: Tensor, measured: Tensor, leads: int, time: int | None = None
) -> None:
    """`demand_windows`, and ValueError unless every window has a measured lead."""
    demand_windows(title, signal, measured, leads, time)
    if not measured.any(1).all():
        raise ValueError(
            f"window {int((~measured.any(1)).nonzero()[0])} of the batch has no measured lead; "
            f"{title} needs one"
        )
