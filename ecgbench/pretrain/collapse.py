"""Signs of collapse: nodes become equal, and the network tells no code from another.

Two are measured of every kept encoder, per layer (paper, "Training dynamics and checkpoint
selection"): normalised spectral entropy, which falls where node features use fewer directions, and
edge-wise cosine, which rises where message passing makes neighbours equal. The alarm looks while a
stage trains: all nodes of a window point the same way (mean cosine near 1, within leads and between
them), or the loss stays at the entropy of the codes, which somebody reaches who knows how often
each code occurs and nothing of the ECG.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgbench.errors import BadSetting
from ecgbench.evaluate.gates import GateError
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretrain.curve import Point
from ecgbench.pretrain.objective import MaskedNodes, node_features

WINDOWS = 2000
"""Windows of 12 leads that one measurement takes; the paper does not say its number."""
EVERY = 25
"""Steps between two looks, and until the first: nodes may be alike for a few steps before they
learn to differ. Each takes a pass of LOOKED_AT windows.
"""
LOOKED_AT = 8
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
0.940 to 0.992 of it after 100 steps of batches of 24 (docs/howto/pretrain.md, Collapse).
"""


@dataclass(frozen=True)
class Layer:
    """Dynamics of one layer."""

    block: int
    """1, 2, ..., after norm and GELU; 0 is the embedder."""
    entropy: float
    """Normalised spectral entropy of all nodes of all windows: 0 one direction, 1 all alike."""
    intra: float
    """Mean cosine of two different nodes of a lead."""
    inter: float
    """Mean cosine of two leads at the same time step; NaN where windows have one lead."""


def measure(encoder: NodeEncoder, windows: Iterable[Tensor]) -> list[Layer]:
    """Dynamics of the embedder and of each block, in evaluation mode, from batches of windows.

    windows: (batch, lead, time) float32 with all leads measured, equally many in all batches;
    `WINDOWS` of them in all. BadSetting: no window.
    """
    blocks = range(encoder.depth + 1)
    spreads, seen = [Spread() for _ in blocks], 0
    cosines = torch.zeros(len(blocks), 2, dtype=torch.float64)
    for signal in windows:
        for block, nodes in enumerate(node_features(encoder, signal, blocks)):
            spreads[block].add(nodes)
            cosines[block] += torch.stack([c.double().sum() for c in edge_cosine(nodes)]).cpu()
        seen += len(signal)
    if not seen:
        raise BadSetting(f"dynamics of no window; give batches of windows, {WINDOWS} in all")
    pairs = (cosines / seen).tolist()
    return [Layer(block, spreads[block].entropy(), *pairs[block]) for block in blocks]


class Spread:
    """Covariance of nodes that come in batches, in double precision and about the first of them:
    equal nodes give exactly 0.
    """

    def __init__(self) -> None:
        self._count = 0
        self._origin = self._sum = self._square = torch.empty(0)

    def add(self, nodes: Tensor) -> None:
        """nodes (..., dim)."""
        x = nodes.reshape(-1, nodes.shape[-1]).double()
        if not self._count:
            self._origin = x[0].clone()
            self._sum, self._square = torch.zeros_like(x[0]), x.new_zeros(x.shape[1], x.shape[1])
        x = x - self._origin
        self._count += len(x)
        self._sum += x.sum(0)
        self._square += x.T @ x

    def covariance(self) -> Tensor:
        """(dim, dim) float64, over n."""
        mean = self._sum / self._count
        return self._square / self._count - mean.outer(mean)

    def entropy(self) -> float:
        """-sum p log p / log dim over the shares p of the eigenvalues; 0 where all nodes are
        equal.
        """
        values = torch.linalg.eigvalsh(self.covariance()).clamp(min=0)
        total = float(values.sum())
        if not total:
            return 0.0
        return float(torch.special.entr(values / total).sum()) / math.log(len(values))


def edge_cosine(nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cosine over the edges of each graph, (batch,) within leads and (batch,) across leads;
    NaN where there are none.

    nodes (batch, lead, node, dim). Edges as in LAEF's graph, without those of a node to itself. The
    squared length of the sum of n unit vectors holds their n own products and those of all ordered
    pairs.
    """
    unit = F.normalize(nodes.float(), dim=-1)
    own = unit.square().sum(-1)

    def between(axis: int) -> Tensor:
        n = nodes.shape[axis]
        pairs = unit.sum(axis).square().sum(-1) - own.sum(axis)
        return pairs.mean(1) / (n * (n - 1)) if n > 1 else pairs.mean(1) * math.nan

    return between(2), between(1)


class Collapse(GateError):
    """A pre-training whose network no longer tells nodes apart."""


def nodes_alike(model: MaskedNodes, signal: Tensor) -> str:
    """In words, what is equal behind the embedder or the last block of an encoder; empty where
    nothing is. signal (window, 12, time): all leads are looked at.
    """
    encoder = model.encoder
    blocks = (0, encoder.depth)
    for block, nodes in zip(blocks, node_features(encoder, signal[:LOOKED_AT], blocks)):
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


def warning(
    model: MaskedNodes,
    signal: Tensor,
    points: Sequence[Point],
    chance: float | None,
    warmup: int,
) -> str:
    """Both signs; empty where there is none."""
    return nodes_alike(model, signal) or nothing_learnt(points, chance, warmup)
