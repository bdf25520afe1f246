"""LAEF's two graph layers against the number of leads L and of segments S: nodes, edges, cost by
formula, by count and by the clock. One window, random weights.

`python benchmarks/complexity.py [--no-timing]` prints a row for each. Edges within and between
leads are as the paper counts them, undirected and without self-loops, and as the network has them,
directed with self-loops. `cost_paper` is L S^2 + S L^2, `cost_complete_graph` (L S)^2, both up to
the number of channels. FLOP of message passing (scores, softmax, sums) apart from the linear maps;
milliseconds a window. The paper's formula holds if `flop_per_cost` hardly moves.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pandas as pd
import torch
from timer import machine

from ecgbench.models import laef
from ecgbench.profile import clock
from ecgbench.profile.flop import FlopCounter, plain_kernels

LEADS = range(1, 13)
SECONDS = (2.5, 5.0, 10.0)
"""Windows at 100 Hz, which give 9, 20 and 41 segments; the paper's is 5 s."""
_BRIEFLY = 0.3
"""Seconds of timed passes of one point: there are two for each of 36."""


def edges(leads: int, segments: int) -> dict[str, int]:
    """Nodes and edges of one window's graph.

    >>> edges(12, 20)
    {'nodes': 240, 'edges_intra': 2280, 'edges_inter': 1320, 'edges_directed': 7440}
    """
    intra, inter = leads * segments * (segments - 1) // 2, segments * leads * (leads - 1) // 2
    nodes = leads * segments
    return {
        "nodes": nodes,
        "edges_intra": intra,
        "edges_inter": inter,
        "edges_directed": 2 * (intra + inter) + nodes,
    }


def measure(device: str, batch: int, timed: bool) -> pd.DataFrame:
    """Counts and, if `timed`, times of the layers of LAEF."""
    clock.ready(device)
    torch.manual_seed(0)
    network = laef.build().eval().requires_grad_(False).to(device)
    rows = []
    for seconds in SECONDS:
        segments = network.embed_leads(torch.zeros(1, round(100 * seconds), device=device)).shape[1]
        rows += [
            _row(network, leads, segments, device, batch if timed else None) | {"seconds": seconds}
            for leads in LEADS
        ]
    return pd.DataFrame(rows)


def _row(network: Any, leads: int, segments: int, device: str, batch: int | None) -> dict[str, Any]:
    layers = [block.attention for block in network.blocks]
    x = torch.randn(batch or 1, leads, segments, network.width, device=device)
    with torch.no_grad():
        maps = [layer.maps(x[:1]) for layer in layers]
        with plain_kernels(), FlopCounter() as passing:
            for layer, given in zip(layers, maps):
                layer(x[:1], given)
        with plain_kernels(), FlopCounter() as mapping:
            for layer in layers:
                layer.maps(x[:1])
    graph = edges(leads, segments)
    row = {
        "leads": leads,
        "segments": segments,
        **graph,
        "cost_paper": leads * segments**2 + segments * leads**2,
        "cost_complete_graph": (leads * segments) ** 2,
        "flop_message_passing": passing.total,
        "flop_per_cost": passing.total / (leads * segments**2 + segments * leads**2),
        "flop_maps": mapping.total,
        "ms_message_passing": None,
        "ms_layers": None,
    }
    if batch is not None:
        computed = [layer.maps(x) for layer in layers]
        whole = clock.milliseconds(lambda: [layer(x) for layer in layers], device, _BRIEFLY)
        alone = clock.milliseconds(
            lambda: [layer(x, given) for layer, given in zip(layers, computed)], device, _BRIEFLY
        )
        row |= {"ms_layers": whole / batch, "ms_message_passing": alone / batch}
    return row


if __name__ == "__main__":
    timed = "--no-timing" not in sys.argv[1:]
    print(machine())
    print(measure("cuda" if torch.cuda.is_available() else "cpu", 4, timed).to_string(index=False))
