"""Nodes in a grid of leads and time steps: which node hears which, and what it gathers from them.

A node hears the nodes of its lead and the nodes of its time step in the other leads. All of them
together are its slots, an array (batch, lead, head, time, time + lead): first the nodes of its lead
by time, then those of its time step by lead. No edge list is built. `on_graph` lets the same layers
compute on other graphs: it lays the nodes out in another grid.
"""

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor, nn

Topology = Literal["spatiotemporal", "full", "none"]
"""Whom a node hears: its lead and its time step; every node of the recording; only itself."""
TOPOLOGIES: tuple[Topology, ...] = get_args(Topology)


def slots(within: Tensor, across: Tensor) -> Tensor:
    """within (batch, lead, head, time, time) and across (batch, time, head, lead, lead), rows
    hearing columns -> (batch, lead, head, time, time + lead).
    """
    return torch.cat([within, across.permute(0, 3, 2, 1, 4)], -1)


def sums(hearer: Tensor, heard: Tensor) -> Tensor:
    """One number per node and head, (batch, lead, time, head) each -> the sum of the two ends of
    every slot.
    """

    def of_pairs(rows: Tensor, columns: Tensor) -> Tensor:
        return rows.transpose(2, 3).unsqueeze(-1) + columns.transpose(2, 3).unsqueeze(-2)

    return slots(of_pairs(hearer, heard), of_pairs(hearer.transpose(1, 2), heard.transpose(1, 2)))


def listening(x: Tensor, dropped: Tensor | None = None, *, itself: bool) -> Tensor:
    """Which slots of the nodes of x (batch, lead, time, ...) are heard: bool (batch or 1, lead, 1,
    time, time + lead), no node twice.

    dropped (batch, lead, time, time) bool: edges within leads that are left out. itself: whether a
    node hears itself.
    """
    leads, times = x.shape[1:3]
    within = torch.ones(1, leads, 1, times, times, dtype=torch.bool, device=x.device)
    if dropped is not None:
        within = within & ~dropped.unsqueeze(2)
    if not itself:
        within = within & ~torch.eye(times, dtype=torch.bool, device=x.device)
    across = ~torch.eye(leads, dtype=torch.bool, device=x.device)
    return slots(within, across.expand(len(within), times, 1, leads, leads))


def gathered(weights: Tensor, message: Tensor) -> Tensor:
    """What each node sums up: weights in slots, message (batch, lead, time, head, channel) -> the
    shape of the message. Where there is one lead, slots of other leads are not read.
    """
    leads, times = message.shape[1:3]
    total = _weigh(weights[..., :times], message)
    if leads == 1:
        return total
    # the same grid with leads and time steps exchanged
    across = _weigh(weights[..., times:].permute(0, 3, 2, 1, 4), message.transpose(1, 2)).transpose(
        1, 2
    )
    if torch.is_grad_enabled():
        return total + across
    return torch.add(total, across, out=total.new_empty(total.shape))


def _weigh(weights: Tensor, message: Tensor) -> Tensor:
    """weights (a, b, head, n, n), message (a, b, n, head, channel) -> (a, b, n, head, channel)."""
    return torch.matmul(weights, message.transpose(2, 3)).transpose(2, 3)


def on_graph(
    topology: Topology,
    layer: Callable[..., Tensor],
    x: Tensor,
    maps: tuple[Tensor, ...] = (),
    dropped: Tensor | None = None,
) -> Tensor:
    """`layer(x, [maps], dropped=)` of x (batch, lead, time, width) on another graph.

    full: all nodes stand in one row, as the time steps of one lead do. none: each stands in a grid
    of its own. maps: of the shape of x, what the layer may take of it. dropped: edges within leads.
    """
    if topology == "spatiotemporal":
        return layer(x, *([maps] if maps else []), dropped=dropped)
    leads, times = x.shape[1:3]

    def placed(rows: Tensor) -> Tensor:
        nodes = rows.flatten(1, 2)
        return nodes.unsqueeze(1) if topology == "full" else nodes.reshape(-1, 1, 1, rows.shape[3])

    edges = None
    if topology == "full" and dropped is not None:
        edges = dropped.new_zeros(len(dropped), leads, times, leads, times)
        edges.diagonal(dim1=1, dim2=3).copy_(dropped.permute(0, 2, 3, 1))
        edges = edges.flatten(3).flatten(1, 2).unsqueeze(1)
    given = [tuple(map(placed, maps))] if maps else []
    return layer(placed(x), *given, dropped=edges).reshape(x.shape)


def glorot(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """A linear map with Glorot-uniform weights and zero biases."""
    layer = nn.Linear(inputs, outputs, bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
