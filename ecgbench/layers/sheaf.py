"""A cellular sheaf on the grid of nodes: every node holds vectors of a plane, and every edge says
how the plane of one end is turned to meet that of the other.

The maps of a sheaf may be any matrices (Bodnar et al., NeurIPS 2022, arXiv:2202.04579, section 5);
here they are rotations of the plane, the smallest kind that is orthogonal, so that what travels
along an edge keeps its length and a node's own block of the Laplacian is its number of neighbours.
"""

import math

import torch
from torch import Tensor, nn

from ecgbench.layers.grid import gathered, glorot, slots

PLANE = 2
"""Numbers of a stalk."""


class Sheaf(nn.Module):
    """Learns the map of each end of each edge from the nodes of both ends, and mixes stalks and
    channels.
    """

    def __init__(self, width: int, channels: int) -> None:
        """width: of the nodes outside; channels: vectors of the plane that a node holds."""
        super().__init__()
        dim = PLANE * channels
        self.lift, self.lower = glorot(width, dim), glorot(dim, width)
        self.own, self.other = glorot(dim, 1, bias=False), glorot(dim, 1, bias=False)
        self.stalks = nn.Parameter(torch.eye(PLANE))
        self.channels = glorot(channels, channels, bias=False)

    def planes(self, x: Tensor) -> Tensor:
        """(batch, lead, time, dim) -> (batch, lead, time, PLANE, channel)."""
        return x.unflatten(-1, (PLANE, -1))

    def mixed(self, x: Tensor) -> Tensor:
        """(1 x W1) X W2: of the shape of x (batch, lead, time, dim)."""
        out: Tensor = self.channels(self.stalks @ self.planes(x))
        return out.flatten(-2)

    def turns(self, x: Tensor) -> Tensor:
        """x (batch, lead, time, dim) -> (batch, lead, 1, time, time + lead): by which angle what
        comes from a slot is turned on its way; 0 from a node to itself.

        The map of an end turns by pi tanh(own end + other end). Without the tanh all turns around a
        circle would add up to 0, and the sheaf would say nothing that the nodes do not.
        """
        own, other = self.own(x), self.other(x)

        def between(own: Tensor, other: Tensor) -> Tensor:
            angle = math.pi * torch.tanh(own + other.transpose(-1, -2))
            return (angle.transpose(-1, -2) - angle).unsqueeze(2)

        return slots(between(own, other), between(own.transpose(1, 2), other.transpose(1, 2)))

    def carried(self, weights: Tensor, turns: Tensor, x: Tensor) -> Tensor:
        """What reaches each node of x (batch, lead, time, dim), turned, times the weights of the
        slots.
        """
        real, imaginary = self.planes(x).unsqueeze(-3).unbind(-2)
        cos, sin = weights * turns.cos(), weights * turns.sin()
        along = gathered(cos, real) - gathered(sin, imaginary)
        turned = gathered(sin, real) + gathered(cos, imaginary)
        return torch.cat([along, turned], -1).squeeze(-2)
