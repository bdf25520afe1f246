"""Two signs of collapse, per layer of an encoder: the spread of its nodes over directions, and how
alike neighbours become.

Normalised spectral entropy falls where node features use fewer directions, edge-wise cosine rises
where message passing makes neighbours equal (paper, "Training dynamics and checkpoint selection").
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgbench.errors import BadSetting
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretraining.objective import node_features

WINDOWS = 2000
"""Windows of 12 leads that one measurement takes; the paper does not say its number."""


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
    `WINDOWS` of them in all. BadSetting: no window. The encoder is left in the mode in which it
    came.
    """
    blocks = range(encoder.depth + 1)
    spreads, seen = [Spread() for _ in blocks], 0
    cosines = torch.zeros(len(blocks), 2, dtype=torch.float64)
    with evaluating(encoder):
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


@contextmanager
def evaluating(encoder: NodeEncoder) -> Iterator[None]:
    """The encoder in evaluation mode, and then again in the mode in which it came."""
    training = encoder.training
    encoder.eval()
    try:
        yield
    finally:
        encoder.train(training)
