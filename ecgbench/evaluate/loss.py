"""The loss of the protocols that train step by step: binary cross-entropy of logits, over the
labels that are known.
"""

import torch.nn.functional as F
from torch import Tensor


def summed(logits: Tensor, target: Tensor, masked: bool) -> Tensor:
    """Its sum over records and labels, (record, label) both; `masked`: whether `target` may hold -1
    where a label is not known, which then adds nothing and moves no weight.
    """
    if not masked:
        return F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
    weight = (target >= 0).to(logits.dtype)
    # a logit whose loss has the weight 0 has the gradient 0
    return F.binary_cross_entropy_with_logits(
        logits, target.clamp(min=0), weight=weight, reduction="sum"
    )


def mean(logits: Tensor, target: Tensor) -> Tensor | None:
    """Its mean over what is known of (record, label); None where nothing is."""
    known = int((target >= 0).sum())
    if known == target.numel():
        return F.binary_cross_entropy_with_logits(logits, target)
    return summed(logits, target, masked=True) / known if known else None
