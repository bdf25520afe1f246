"""GATv2 attention (Brody, Alon and Yahav, ICLR 2022, arXiv:2105.14491) on LAEF's graph, computed
from its block structure.

Nodes stand in a grid of leads and time steps. The neighbours of a node are all nodes of its lead
(itself once) and the nodes of the same time step in the other leads, so its scores are one row of a
(time, time) block and one row of a (lead, lead) block, joined by a single softmax. No edge index is
built and no (pair, channel) array outlives its turn in the cache. `EdgeListGATv2` computes the same
with torch_geometric's GATv2Conv on explicit edges.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ecgbench.errors import BadSetting
from ecgbench.layers.cached import CachedTensors
from ecgbench.layers.grid import gathered, slots

SLOPE = 0.2
"""Negative slope of the LeakyReLU inside the score."""
_CPU_CHUNK, _GPU_CHUNK = 5 << 19, 1 << 27
"""Bytes of (pair, channel) values computed at once: what two cores keep in their own cache; what
fills a GPU.
"""


class GATv2(nn.Module):
    """One GATv2 layer over (batch, lead, time, dim): heads concatenated, output bias, neither skip
    nor norm.

    The score of source j for target i is vector . LeakyReLU(target(x_i) + source(x_j)), the message
    source(x_j). Glorot-uniform maps and score vector, zero biases.
    """

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self._cached = CachedTensors()
        self.source = nn.Linear(dim, dim)
        self.target = nn.Linear(dim, dim)
        self.vector = nn.Parameter(torch.empty(1, heads, dim // heads))
        self.bias = nn.Parameter(torch.zeros(dim))
        for weight in (self.source.weight, self.target.weight, self.vector):
            nn.init.xavier_uniform_(weight[0] if weight is self.vector else weight)
        nn.init.zeros_(self.source.bias)
        nn.init.zeros_(self.target.bias)

    def maps(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What each node gives as a source, and the negative of what it gives as a target: of the
        shape of x.
        """
        target = self.target(x)
        return self.source(x), -target if torch.is_grad_enabled() else target.neg_()

    def forward(
        self, x: Tensor, maps: tuple[Tensor, Tensor] | None = None, dropped: Tensor | None = None
    ) -> Tensor:
        """(batch, lead, time, dim) -> the same shape; `maps` of x where they are known already.

        dropped (batch, lead, time, time) bool: edges within leads that are left out, True at [b, l,
        t, s] where node t does not hear node s; False where t = s.
        """
        source, row = maps or self.maps(x)
        attention = self._attention(source, row, dropped)
        total = gathered(attention, source.unflatten(-1, (self.heads, -1))).flatten(-2)
        separate = torch.is_grad_enabled() or total.dtype != self.bias.dtype
        return total + self.bias if separate else total.add_(self.bias)

    def _attention(self, source: Tensor, row: Tensor, dropped: Tensor | None = None) -> Tensor:
        """(batch, lead, head, time, time + lead): for each node its share of attention, within its
        lead and across leads.

        The score of source s and target t is needed up to a constant per target, which the softmax
        cannot see. With m = max(s, -t), LeakyReLU_0.2(t + s) = t + 0.2 s + 0.8 m. Only m belongs to
        pairs (one pass, where the sum and its LeakyReLU take two); t is the constant that is left
        out.
        """
        precise = torch.promote_types(source.dtype, torch.float32)
        with torch.autocast(source.device.type, enabled=False):
            source, row, vector = source.to(precise), row.to(precise), self.vector[0].to(precise)
            weighed = (1 - SLOPE) * vector
            (matrix,) = self._cached([self.vector], lambda: [torch.block_diag(*vector)])
            alone = SLOPE * F.linear(source, matrix)  # (batch, lead, time, head)
            scores = _PairMaximum.apply(source, row, weighed) + alone.transpose(2, 3).unsqueeze(-2)
            if dropped is not None:
                scores = scores.masked_fill(dropped.unsqueeze(2), float("-inf"))
            if source.shape[1] > 1:
                across = _PairMaximum.apply(
                    source.transpose(1, 2), row.transpose(1, 2), weighed
                ) + alone.permute(0, 2, 3, 1).unsqueeze(-2)
                # it is its own neighbour within the lead already
                across.diagonal(dim1=-2, dim2=-1).fill_(float("-inf"))
                scores = slots(scores, across)
            return F.dropout(scores.softmax(-1), self.dropout, self.training)


class _PairMaximum(torch.autograd.Function):
    """sum_c vector[h, c] * max(column[j, h, c], row[i, h, c]) for all pairs (i, j) of a group.

    column, row (a, b, n, head * channel) -> (a, b, head, n, n). Forward and backward go through the
    groups in chunks and keep only the nodes: training holds no (pair, channel) array either.
    """

    @staticmethod
    def forward(ctx: Any, column: Tensor, row: Tensor, vector: Tensor) -> Tensor:
        """Scores of all pairs."""
        ctx.save_for_backward(column, row, vector)
        heads, n = vector.shape[0], column.shape[2]
        # one matrix product for all heads: row h of the matrix holds the vector of head h at its
        # own channels
        matrix = torch.block_diag(*vector)
        scores = column.new_empty(*column.shape[:2], heads, n, n)
        for a, b in _chunks(column):
            highest = torch.maximum(column[a, b].unsqueeze(-3), row[a, b].unsqueeze(-2))
            scores[a, b] = (matrix @ highest.flatten(-3, -2).transpose(-1, -2)).unflatten(
                -1, (n, n)
            )
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Each pair passes its gradient to the larger of its two values; a tie (a LeakyReLU at 0)
        goes to the row.
        """
        column, row, vector = ctx.saved_tensors
        to_column, to_row = torch.empty_like(column), torch.empty_like(row)
        n, dim = column.shape[2:]
        pairs = column.new_empty(0)
        for a, b in _chunks(column):
            # 0 and 1 in the type of the gradient, in memory that every chunk uses again: eight
            # times faster than `where` on a CPU
            here = len(column[a, b])
            pairs = pairs if len(pairs) >= here else column.new_empty(here, n, n, dim)
            larger = torch.gt(column[a, b].unsqueeze(-3), row[a, b].unsqueeze(-2), out=pairs[:here])
            share = grad[a, b].movedim(-3, -1).unsqueeze(-1)  # (..., row, column, head, 1)
            won = larger.unflatten(-1, vector.shape).mul_(share)
            to_column[a, b] = won.sum(-4).flatten(-2)
            to_row[a, b] = (share.sum(-3) - won.sum(-3)).flatten(-2)
        flat = vector.flatten()
        to_vector = (column * to_column + row * to_row).sum((0, 1, 2)).view_as(vector)
        return to_column * flat, to_row * flat, to_vector


def _chunks(nodes: Tensor) -> list[tuple[int, slice]]:
    """Slices of the groups of (a, b, n, dim) whose pairs fit the cache."""
    a, b, n, dim = nodes.shape
    size = max(
        1,
        (_CPU_CHUNK if nodes.device.type == "cpu" else _GPU_CHUNK)
        // (n * n * dim * nodes.element_size()),
    )
    return [(i, slice(j, j + size)) for i in range(a) for j in range(0, b, size)]


class EdgeListGATv2(nn.Module):
    """The same layer by torch_geometric's GATv2Conv on the explicit edge list, with the parameters
    of `layer` themselves. BadSetting where torch_geometric is not installed.
    """

    def __init__(self, layer: GATv2) -> None:
        super().__init__()
        try:
            from torch_geometric.nn import GATv2Conv
        except ModuleNotFoundError:
            needed = "torch_geometric is not installed: pip install 'ecgbench-leads[graph]'"
            raise BadSetting(needed) from None
        dim = layer.bias.shape[0]
        self.conv = GATv2Conv(
            dim,
            dim // layer.heads,
            layer.heads,
            dropout=layer.dropout,
            negative_slope=SLOPE,
            add_self_loops=False,
            share_weights=False,
        )
        for ours, theirs in ((layer.source, self.conv.lin_l), (layer.target, self.conv.lin_r)):
            theirs.weight, theirs.bias = ours.weight, ours.bias
        self.conv.att, self.conv.bias = layer.vector, layer.bias

    def forward(self, x: Tensor, dropped: Tensor | None = None) -> Tensor:
        """(batch, lead, time, dim) -> the same shape; dropped as in `GATv2`."""
        batch, leads, times, dim = x.shape
        listed = edges(batch, leads, times).to(x.device)
        if dropped is not None:
            source, target = listed
            within = source // times == target // times
            listed = listed[:, ~(within & dropped.flatten()[target * times + source % times])]
        result: Tensor = self.conv(x.reshape(-1, dim), listed)
        return result.view_as(x)


def edges(batch: int, leads: int, times: int) -> Tensor:
    """(2, edge) source and target of every edge of `batch` graphs; node (b, l, s) has number (b *
    leads + l) * times + s.

    Per lead a complete graph with self-loops, across leads only the same time step.

    >>> edges(1, leads=2, times=1).T.tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    lead, time = torch.arange(leads * times) // times, torch.arange(leads * times) % times
    joined = (lead[:, None] == lead) | (time[:, None] == time)
    pairs = joined.nonzero().T
    return (pairs[:, None] + torch.arange(batch)[:, None] * leads * times).flatten(1)
