"""Heads: what turns a pooled feature into logits."""

import math

import torch
from torch import nn

from ecgbench.core.seeds import seed_of


def linear(dim: int, labels: int, seed: int) -> nn.Linear:
    """One Linear on the pooled feature; weights and bias uniform in +-1/sqrt(dim), drawn from the
    training seed.
    """
    head = nn.Linear(dim, labels)
    generator = torch.Generator().manual_seed(seed_of("head", seed) % 2**63)
    bound = 1 / math.sqrt(dim)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return head
