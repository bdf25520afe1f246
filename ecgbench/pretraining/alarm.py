"""Collapse, noticed while a stage trains: nodes become equal, and the network tells no code from
another.

All nodes of a window then point the same way (mean cosine near 1, within leads and between them),
and the loss stays at the entropy of the codes: what somebody reaches who knows how often each code
occurs and nothing of the ECG.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ecgbench.evaluate.gates import GateError
from ecgbench.pretraining.curve import Point
from ecgbench.pretraining.dynamics import edge_cosine, evaluating
from ecgbench.pretraining.objective import MaskedNodes, node_features

EVERY = 25
"""Steps between two looks, and until the first: nodes may be alike for a few steps before they
learn to differ. Each takes a pass of WINDOWS windows.
"""
WINDOWS = 8
ALIKE = 0.99
"""Mean cosine of nodes, within leads and between them, above which they are called equal. LAEF has
0.66 to 0.88 with new weights, and less when it has learnt.
"""
PATIENCE = 200
"""Steps, after a warm-up, until the loss must be below the entropy of the codes; it is compared as
the mean over the last PATIENCE / 2.
"""
NEAR = 0.995
"""Share of the entropy of the codes that a loss is called equal to from which on. Ten networks had
0.940 to 0.992 of it after 100 steps of batches of 24 (docs/pretraining.md, Collapse).
"""


class Collapse(GateError):
    """A pre-training whose network has stopped to tell nodes apart."""


def nodes_alike(model: MaskedNodes, signal: Tensor) -> str:
    """In words, what is equal behind the embedder or the last block of an encoder; empty where
    nothing is. signal (window, 12, time): all leads are looked at. The model keeps its mode.
    """
    encoder = model.encoder
    blocks = (0, encoder.depth)
    with evaluating(encoder):
        for block, nodes in zip(blocks, node_features(encoder, signal[:WINDOWS], blocks)):
            within, between = (float(c.mean()) for c in edge_cosine(nodes))
            if within > ALIKE and between > ALIKE:
                where = f"block {block}" if block else "the embedder"
                return (
                    f"the mean cosine of nodes behind {where} is {within:.4f} within leads and "
                    f"{between:.4f} between them"
                )
    return ""


def nothing_learnt(points: Sequence[Point], chance: float | None, warmup: int) -> str:
    """In words, that the loss of late is the entropy of the codes, `chance` in nats over all
    codebooks; empty where it is below, not known, or it is too early to tell.
    """
    if chance is None or len(points) < warmup + PATIENCE:
        return ""
    recent = points[-PATIENCE // 2 :]
    loss = sum(p.loss for p in recent) / len(recent)
    if not loss >= NEAR * chance:
        return ""
    return (
        f"the mean loss of the last {len(recent)} steps is {loss:.3f}, and {chance:.3f} is the "
        f"entropy of the codes, which needs no ECG"
    )


@torch.no_grad()
def look(
    model: MaskedNodes,
    signal: Tensor,
    points: Sequence[Point],
    chance: float | None,
    warmup: int,
) -> str:
    """Both signs; empty where there is none."""
    return nodes_alike(model, signal) or nothing_learnt(points, chance, warmup)
