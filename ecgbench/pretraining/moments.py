"""Adam's moments in 8 bits, in blocks of their own scale (after Dettmers et al., ICLR 2022,
arXiv:2110.02861).

The mean keeps its size within a block to 1/127 of the block's largest. The mean square stands below
a root and a division, so there each value is kept to a share of itself, and none becomes zero.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgbench.errors import BadWeights

BLOCK = 256
"""Values of one scale."""
_MEAN = "exp_avg"
Codes = dict[str, NDArray[Any]]


def as_codes(values: NDArray[np.float32], kind: str) -> Codes:
    """kind: exp_avg or exp_avg_sq. `codes` (block, BLOCK), and the scales of the blocks."""
    flat = values.reshape(-1)
    if not np.isfinite(flat).all() or (kind != _MEAN and (flat < 0).any()):
        raise BadWeights("a moment of Adam is not finite: the pre-training has diverged")
    blocks = np.zeros((-(-len(flat) // BLOCK), BLOCK), np.float32)
    blocks.reshape(-1)[: len(flat)] = flat
    if kind == _MEAN:
        largest = np.abs(blocks).max(axis=1)
        codes = np.rint(blocks / _not_zero(largest)[:, None] * 127).astype(np.int8)
        return {"codes": codes, "largest": largest}
    positive = blocks > 0
    logs = np.log2(np.where(positive, blocks, 1)).astype(np.float32)
    low = np.where(positive, logs, np.inf).min(axis=1)
    high = np.where(positive, logs, -np.inf).max(axis=1)
    low, high = (np.where(np.isfinite(x), x, 0).astype(np.float32) for x in (low, high))
    step = _not_zero((high - low) / np.float32(254))
    codes = np.where(positive, 1 + np.rint((logs - low[:, None]) / step[:, None]), 0)
    return {"codes": codes.astype(np.uint8), "low": low, "step": step}


def as_moments(codes: Codes, kind: str, count: int) -> NDArray[np.float32]:
    """(count,) float32: what `as_codes` kept of as many values."""
    whole = codes["codes"].astype(np.float32)
    if kind == _MEAN:
        blocks = whole / 127 * codes["largest"][:, None]
    else:
        logs = codes["low"][:, None] + (whole - 1) * codes["step"][:, None]
        blocks = np.where(whole > 0, np.exp2(logs), 0)
    return blocks.reshape(-1)[:count].astype(np.float32)


def _not_zero(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.where(values > 0, values, np.float32(1))
