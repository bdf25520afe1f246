"""Transfer-guided selection: of the encoders that a stage keeps, the earliest that serves as well
as any.

Every k steps the encoder is kept, and measured on a development task by a linear probe on its
mean-pooled features of twelve leads, beside two signs of collapse (paper, "Transfer-guided
refinement" and "Training dynamics and checkpoint selection"). `kept_encoders` measures; what is
chosen follows here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecgbench.results.pretraining import MARGIN

if TYPE_CHECKING:  # it needs torch, and reports of finished pre-trainings choose without
    from ecgbench.pretraining.dynamics import Layer


@dataclass(frozen=True)
class Checkpoint:
    """What was measured of one kept encoder."""

    step: int
    score: float
    """Macro AUROC of the linear probe on the development task's validation split."""
    layers: "tuple[Layer, ...]"
    """Embedder and blocks."""
    encoder: str
    """Digest of its tensors."""
    mask: str
    """sha256 of the mask vector, which a second stage may start from."""
    seconds: float
    """Wall time of these measurements."""


def earliest(checkpoints: Sequence[Checkpoint], margin: float = MARGIN) -> Checkpoint:
    """t*: the earliest checkpoint within `margin` of the best score."""
    best = max(c.score for c in checkpoints)
    return min((c for c in checkpoints if c.score >= best - margin), key=lambda c: c.step)
