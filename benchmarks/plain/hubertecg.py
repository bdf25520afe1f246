"""HuBERT-ECG BASE read plainly from its tables of layers: torch's own functions, one after another,
nothing kept between calls.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

STRIDES = (4, 2, 2, 2, 2)
HEADS, LAYERS = 12, 12


def features(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """x (batch, 12, time), filtered and scaled -> (batch, 768), with the parameters of `state`, in
    evaluation.
    """
    x = project(state, front_end(state, x))
    x = x + positions(state, x)
    x = norm(state, "encoder.layer_norm", x)
    for i in range(LAYERS):
        x = layer(state, f"encoder.layers.{i}.", x)
    return x.mean(1)


def front_end(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """(batch, 12, time) -> (batch, 512, token): five convolutions over the leads laid end to
    end.
    """
    x = x.reshape(len(x), 1, -1)
    for i, stride in enumerate(STRIDES):
        name = f"feature_extractor.conv_layers.{i}."
        x = F.conv1d(x, state[name + "conv.weight"], stride=stride)
        if i == 0:
            x = F.group_norm(
                x, 512, state[name + "layer_norm.weight"], state[name + "layer_norm.bias"], 1e-5
            )
        x = F.gelu(x)
    return x


def project(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """(batch, 512, token) -> (batch, token, 768)."""
    x = F.layer_norm(
        x.transpose(1, 2),
        (512,),
        state["feature_projection.layer_norm.weight"],
        state["feature_projection.layer_norm.bias"],
        1e-5,
    )
    return linear(state, "feature_projection.projection", x)


def positions(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """(batch, token, 768) -> the same shape, to be added: a convolution in 16 groups whose kernel
    has a norm per tap.
    """
    name = "encoder.pos_conv_embed.conv."
    size, direction = (
        state[name + "parametrizations.weight.original0"],
        state[name + "parametrizations.weight.original1"],
    )
    kernel = size * direction / direction.norm(dim=(0, 1), keepdim=True)
    y = F.conv1d(x.transpose(1, 2), kernel, state[name + "bias"], padding=64, groups=16)
    return F.gelu(y[:, :, :-1]).transpose(1, 2)


def layer(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """One post-norm transformer layer."""
    x = norm(state, name + "layer_norm", x + attention(state, name + "attention.", x))
    hidden = F.gelu(linear(state, name + "feed_forward.intermediate_dense", x))
    return norm(
        state,
        name + "final_layer_norm",
        x + linear(state, name + "feed_forward.output_dense", hidden),
    )


def attention(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """Every token attends to every token, in 12 heads of 64."""
    q, k, v = (
        linear(state, f"{name}{part}_proj", x).unflatten(-1, (HEADS, 64)).transpose(1, 2)
        for part in "qkv"
    )
    weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(64), -1)
    return linear(state, name + "out_proj", (weights @ v).transpose(1, 2).flatten(2))


def linear(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """The linear map called `name`."""
    return F.linear(x, state[name + ".weight"], state[name + ".bias"])


def norm(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """The LayerNorm called `name`."""
    return F.layer_norm(x, (768,), state[name + ".weight"], state[name + ".bias"], 1e-5)
