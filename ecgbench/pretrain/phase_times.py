"""What the six phases of a pre-training took, beside what the paper's took, and what they would
take on its 9.2 million ECGs.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

ECGS = 9_200_000
"""The paper's corpora; it clusters and describes each once."""
HOUR = 3600.0
PAPER = {
    "stage 1: extraction": 30 * 24 * HOUR,
    "stage 1: clustering": HOUR,
    "stage 1: training": 3 * HOUR,
    "stage 2: extraction": 30 * 24 * HOUR,
    "stage 2: clustering": 4.5 * HOUR,
    "stage 2: training": 3 * HOUR,
}
"""Seconds (paper, "Computational resources and experiment duration": 1 month, 1 h, 3 h, 1 month,
4.5 h, 3 h), on a DGX A100 of 8 GPUs; how many of them a phase took it does not say.
"""


@dataclass(frozen=True)
class Phase:
    """One phase, measured."""

    phase: str
    """A key of PAPER."""
    seconds: float
    records: int
    """Recordings that went through it, each as often as it did."""
    device: str
    """On which, in words; several where it was interrupted and went on elsewhere."""


def table(phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """One row per phase: what was measured, the paper's seconds, and the projection to its scale on
    the same device.

    Extraction and clustering grow with the number of recordings: each of the ECGS once, one window
    of 5 s and 12 leads. Training grows with steps and batch: the paper's 80,000 and 75,000 steps of
    448 recordings, in which the labels of each window are made anew, since nothing is stored.
    """
    # with torch, which a report of finished phases does without
    from ecgbench.pretrain.stage import STAGES

    rows = []
    for phase in phases:
        stage = STAGES[int(phase.phase[len("stage ")]) - 1]
        records = stage.steps * stage.batch if phase.phase.endswith("training") else ECGS
        projected = {
            "projected_records": records,
            "projected_seconds": phase.seconds / phase.records * records,
            "paper_seconds": PAPER[phase.phase],
        }
        rows.append(asdict(phase) | projected)
    return rows
