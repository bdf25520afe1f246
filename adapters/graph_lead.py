"""Graph of leads: a model of its own written with torch_geometric, for people who think in graphs.

A node is 0.5 s of one measured lead. It is joined to the segments before and after it in its lead,
and to the same segment of every other measured lead; a lead that was not measured has no node, so
any subset of the leads can be read. Three GATv2 layers pass messages, and the mean over the nodes
is the feature. It has random weights until it is trained:

    pip install 'ecgbench-leads[graph]'
    ecgbench check model graph_lead
    ecgbench run --models graph_lead --weights random --protocol finetune --leads 1,2,12 \
        --set training.lr_groups=false --train-leads random
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATv2Conv, global_mean_pool
from torch_geometric.utils import to_dense_batch

from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.ecg.leads import LEADS
from ecgbench.models import Features
from ecgbench.weights.load import loaded

SAMPLES = 50
"""Of a segment: 0.5 s at 100 Hz."""
WIDTH, HEADS, LAYERS = 64, 4, 3

CARD = ModelCard(
    title="Graph of leads",
    summary="GATv2 layers of torch_geometric over segments of the measured leads",
    paper="none; the layer is of Brody, Alon and Yahav 2022, arXiv:2105.14491",
    origin="this project",
    licence="MIT",
    contracts=(
        InputContract(
            name="paper",
            fs=100,
            seconds=5,
            leads=LEADS,
            unit="mV",
            filter=None,
            normalisation="standardise-per-lead",
            fill="before",
            policy="native",
            absent="nothing: it has no node",
        ),
    ),
    native=True,
    groups={"early": ("segment.", "lead."), "late": ("layers.", "norms.")},
)


def edges(record: Tensor, segments: int) -> Tensor:
    """(2, edge) source and target. record (measured lead,): the window that each lead belongs to;
    segment s of lead r is node r * segments + s.
    """
    node = torch.arange(len(record) * segments, device=record.device).view(len(record), segments)
    before, after = node[:, :-1].flatten(), node[:, 1:].flatten()
    one, other = ((record[:, None] == record) & (node[:, :1] != node[:, 0])).nonzero().T
    across = torch.stack([node[one].flatten(), node[other].flatten()])
    along = torch.stack([torch.cat([before, after]), torch.cat([after, before])])
    return torch.cat([along, across], 1)  # GATv2Conv itself joins each node to itself


class GraphLead(nn.Module):
    """(batch, 12, 500) and what was measured to 64 features."""

    def __init__(self) -> None:
        super().__init__()
        self.segment = nn.Sequential(
            nn.Conv1d(1, 16, 7, padding=3), nn.GELU(), nn.Flatten(), nn.Linear(16 * SAMPLES, WIDTH)
        )
        self.lead = nn.Embedding(len(LEADS), WIDTH)
        self.layers = nn.ModuleList(
            GATv2Conv(WIDTH, WIDTH // HEADS, heads=HEADS) for _ in range(LAYERS)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS))

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """signal (batch, 12, 500), NaN in rows that were not measured; measured (batch, 12)."""
        record, lead = measured.nonzero().T
        pieces = signal[measured].unflatten(-1, (-1, SAMPLES))  # (measured lead, segment, samples)
        segments = pieces.shape[1]
        x = self.segment(pieces.reshape(-1, 1, SAMPLES)) + self.lead(lead).repeat_interleave(
            segments, 0
        )
        joined = edges(record, segments)
        for layer, norm in zip(self.layers, self.norms):
            x = x + layer(norm(x), joined).relu()
        window = record.repeat_interleave(segments)
        sequence, _ = to_dense_batch(x, window, batch_size=len(signal))
        return Features(sequence, global_mean_pool(x, window, len(signal)))


def build(weights: str | Path | None = None) -> GraphLead:
    """The network with random weights, or those of a file."""
    return loaded(GraphLead(), weights, CARD)
