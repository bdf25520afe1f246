"""Transfer-guided selection: of the encoders that a stage keeps, the earliest that serves as well
as any, as far as the probe can tell; the latest where the learning rate falls to 0.

Every k steps the encoder is kept, and measured on a development task by a linear probe on its
mean-pooled features of twelve leads, beside two signs of collapse (paper, "Transfer-guided
refinement" and "Training dynamics and checkpoint selection"). `kept_encoders` measures; what is
chosen follows here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecgbench.results import pretraining

if TYPE_CHECKING:  # it needs torch, and reports of finished pre-trainings choose without
    from ecgbench.pretraining.dynamics import Layer


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What was measured of one kept encoder."""

    step: int
    score: float
    """Macro AUROC of the linear probe on the development task."""
    parts: tuple[float, ...] = ()
    """What each patient adds to the error of the score; empty where an earlier version wrote it."""
    layers: "tuple[Layer, ...]"
    """Embedder and blocks."""
    encoder: str
    """Digest of its tensors."""
    mask: str
    """sha256 of the mask vector, which a second stage may start from."""
    seconds: float
    """Wall time of these measurements."""


def chosen(checkpoints: Sequence[Checkpoint], falling: bool) -> Checkpoint:
    """t*: of the checkpoints that are as good as the best the earliest, or the latest where the
    learning rate falls to 0.
    """
    ordered = sorted(checkpoints, key=lambda c: c.step)
    scores, parts = [c.score for c in ordered], [c.parts for c in ordered]
    return ordered[pretraining.chosen(scores, parts, falling)]
