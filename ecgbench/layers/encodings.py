"""What a network may add to its nodes to tell leads and times apart; LAEF as released adds
nothing.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from ecgbench.ecg.leads import LEADS

Encoding = Literal["lead", "position"]


class LeadEncoding(nn.Module):
    """A learned vector for each of the twelve leads."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(len(LEADS), width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, leads: Tensor, nodes: int) -> Tensor:
        """leads (row,), numbers in clinical order -> (row, 1, width)."""
        table: Tensor = self.table(leads)
        return table.unsqueeze(1)


class PositionEncoding(nn.Module):
    """Sines and cosines of a node's place in time (Vaswani et al., 2017, section 3.5), of any
    length.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, leads: Tensor, nodes: int) -> Tensor:
        """(node, width), the same for every lead."""
        rates = 10_000 ** (-torch.arange(0, self.width, 2, device=leads.device) / self.width)
        angle = torch.arange(nodes, device=leads.device).unsqueeze(1) * rates
        return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


ENCODINGS = {"lead": LeadEncoding, "position": PositionEncoding}
