"""MERL's ResNet18 as one would first write it down: convolution, batch norm and ReLU one after the
other, from the state dict.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def features(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """x (batch, 12, time) -> (batch, 512), with the weights of the state dict of
    `ecgbench.models.merl.ResNet18`.
    """
    x = torch.relu(norm(state, "bn1", F.conv1d(x, state["conv1.weight"], stride=2, padding=3)))
    for layer in (1, 2, 3, 4):
        for block in (0, 1):
            x = basic(
                state, f"layer{layer}.{block}", x, stride=2 if layer > 1 and block == 0 else 1
            )
    return x.mean(2)


def basic(state: dict[str, Tensor], name: str, x: Tensor, stride: int) -> Tensor:
    """Two convolutions of three samples, and the shortcut."""
    out = F.conv1d(x, state[f"{name}.conv1.weight"], stride=stride, padding=1)
    out = torch.relu(norm(state, f"{name}.bn1", out))
    out = norm(state, f"{name}.bn2", F.conv1d(out, state[f"{name}.conv2.weight"], padding=1))
    if f"{name}.shortcut.0.weight" in state:
        x = norm(
            state,
            f"{name}.shortcut.1",
            F.conv1d(x, state[f"{name}.shortcut.0.weight"], stride=stride),
        )
    return torch.relu(out + x)


def norm(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """Batch norm with the stored statistics."""
    mean, variance = state[f"{name}.running_mean"][:, None], state[f"{name}.running_var"][:, None]
    return (x - mean) / torch.sqrt(variance + 1e-5) * state[f"{name}.weight"][:, None] + state[
        f"{name}.bias"
    ][:, None]
