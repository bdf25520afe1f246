"""ECGFM-KED's encoder as one would first write it down: convolution, batch norm, ReLU, block by
block, from the state dict.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def features(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """x (batch, 12, time) -> (batch, 768), with the weights of the state dict of
    `ecgbench.models.ecgfmked.Ked`.
    """
    x = F.relu(conv_norm(state, "0", x, stride=2))
    x = F.relu(conv_norm(state, "1", x))
    x = F.relu(conv_norm(state, "2", x))
    x = F.max_pool1d(x, 3, stride=2, padding=1)
    for stage, blocks in ((4, 3), (5, 4), (6, 23), (7, 3)):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 4 else 1
            x = bottleneck(state, f"{stage}.{block}", x, stride)
    return x.mean(dim=2)


def bottleneck(state: dict[str, Tensor], name: str, x: Tensor, stride: int) -> Tensor:
    """1x1, 5 with the stride, 1x1; the shortcut is pooled where there is a stride and convolved
    where the width changes.
    """
    out = F.relu(conv_norm(state, f"{name}.convs.0", x))
    out = F.relu(conv_norm(state, f"{name}.convs.1", out, stride))
    out = conv_norm(state, f"{name}.convs.2", out)
    shortcut = halved(x) if stride == 2 else x
    position = "1" if stride == 2 else "0"
    if f"{name}.idpath.{position}.0.weight" in state:
        shortcut = conv_norm(state, f"{name}.idpath.{position}", shortcut)
    return F.relu(out + shortcut)


def conv_norm(state: dict[str, Tensor], name: str, x: Tensor, stride: int = 1) -> Tensor:
    weight = state[f"{name}.0.weight"]
    x = F.conv1d(x, weight, stride=stride, padding=(weight.shape[2] - 1) // 2)
    mean, var = state[f"{name}.1.running_mean"], state[f"{name}.1.running_var"]
    return F.batch_norm(
        x, mean, var, state[f"{name}.1.weight"], state[f"{name}.1.bias"], training=False, eps=1e-5
    )


def halved(x: Tensor) -> Tensor:
    """Means of two neighbours; a last sample without neighbour stays."""
    pairs = x.shape[2] // 2 * 2
    means = (x[:, :, 0:pairs:2] + x[:, :, 1:pairs:2]) / 2
    return torch.cat([means, x[:, :, pairs:]], dim=2)
