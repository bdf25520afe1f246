"""ECG-JEPA read plainly from its tables of layers: torch's own functions, one after another,
nothing kept between calls.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

PATCHES, PATCH = 50, 50
HEADS, LAYERS = 16, 12


def features(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """x (batch, 8, 2500) mV at 250 Hz -> (batch, 768), with the parameters of `state`."""
    leads = x.shape[1]
    mask = allowed(leads)
    x = linear(state, "W_P", x.reshape(len(x), leads * PATCHES, PATCH))
    for i in range(LAYERS):
        x = block(state, f"encoder_blocks.blocks.{i}.", x + state["pos_embed"], mask)
    return norm(state, "norm", x).mean(1)


def allowed(leads: int) -> Tensor:
    """(token, token) bool: whether the token of a row attends to that of a column, which shares its
    lead or its time.
    """
    mask = torch.zeros(leads * PATCHES, leads * PATCHES, dtype=torch.bool)
    for a in range(leads):
        for s in range(PATCHES):
            mask[a * PATCHES + s, a * PATCHES : (a + 1) * PATCHES] = True
            mask[a * PATCHES + s, s::PATCHES] = True
    return mask


def block(state: dict[str, Tensor], name: str, x: Tensor, mask: Tensor) -> Tensor:
    """One pre-norm transformer block."""
    x = x + attention(state, name + "attn.", norm(state, name + "norm1", x), mask)
    hidden = F.gelu(linear(state, name + "mlp.fc1", norm(state, name + "norm2", x)))
    return x + linear(state, name + "mlp.fc2", hidden)


def attention(state: dict[str, Tensor], name: str, x: Tensor, mask: Tensor) -> Tensor:
    """16 heads of 48 under the mask."""
    q, k, v = (
        F.linear(x, state[name + "qkv.weight"]).unflatten(-1, (3, HEADS, 48)).permute(2, 0, 3, 1, 4)
    )
    scores = q @ k.transpose(-1, -2) / math.sqrt(48)
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)
    return linear(state, name + "proj", (weights @ v).transpose(1, 2).flatten(2))


def linear(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """The linear map called `name`."""
    return F.linear(x, state[name + ".weight"], state[name + ".bias"])


def norm(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """The LayerNorm called `name`."""
    return F.layer_norm(x, (768,), state[name + ".weight"], state[name + ".bias"], 1e-5)
