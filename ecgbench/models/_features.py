"""What every network returns."""

from typing import NamedTuple

from torch import Tensor


class Features(NamedTuple):
    """Representation of a batch of windows."""

    sequence: Tensor
    """(batch, token, dim). Where windows of one batch have different numbers of leads, the shorter ones end in zeros."""
    pooled: Tensor
    """(batch, dim): what heads and probes read."""
