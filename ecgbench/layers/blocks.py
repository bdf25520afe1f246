"""Blocks that several transformers share."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def gelu(x: Tensor) -> Tensor:
    """Exact GELU of an array that nobody else holds: in its own memory where no gradient needs
    it.
    """
    return F.gelu(x) if torch.is_grad_enabled() else torch.ops.aten.gelu_(x)


class Attention(nn.Module):
    """Self-attention over all tokens, without a mask: (batch, token, width) -> the same shape."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.to_qkv = nn.Linear(width, 3 * width)
        self.to_out = nn.Sequential(nn.Linear(width, width))
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        """The attended tokens, before the skip connection."""
        qkv = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(*qkv)
        return self.to_out(heads.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """Linear, exact GELU, linear. The indices 0 and 3 are those of the checkpoints' names."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.net = nn.ModuleDict({"0": nn.Linear(width, hidden), "3": nn.Linear(hidden, width)})

    def forward(self, x: Tensor) -> Tensor:
        """(batch, token, width) -> the same shape, before the skip connection."""
        return self.net["3"](gelu(self.net["0"](x)))


class PreNorm(nn.Module):
    """`fn` of the LayerNormed tokens."""

    def __init__(self, width: int, fn: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fn = fn

    def forward(self, x: Tensor) -> Tensor:
        """(batch, token, width) -> the same shape, before the skip connection."""
        return self.fn(self.norm(x))


class Block(nn.Module):
    """One pre-norm block of ST-MEM and of MERL's ViT, under their checkpoints' names: (batch,
    token, width) -> the same shape.
    """

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attn = PreNorm(width, Attention(width, heads))
        self.ff = PreNorm(width, Mlp(width, hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Attention, then MLP, each added to its input."""
        x = x + self.attn(x)
        return x + self.ff(x)
