"""ECGFounder's Net1D as one would first write it down: torch's convolutions on padded copies, block
by block, from the state dict.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def features(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """x (batch, lead, time) -> (batch, 1024), with the weights of the state dict of
    `ecgbench.models.ecgfounder.Net1D`.
    """
    x = swish(same_conv(state, "first_conv", x, stride=2))
    stages = 1 + max(int(key.split(".")[1]) for key in state if key.startswith("stage_list."))
    for stage in range(stages):
        prefix = f"stage_list.{stage}.block_list."
        blocks = 1 + max(
            int(key.removeprefix(prefix).split(".")[0]) for key in state if key.startswith(prefix)
        )
        for block in range(blocks):
            x = bottleneck(
                state,
                f"{prefix}{block}",
                x,
                stride=2 if block == 0 else 1,
                first=stage == block == 0,
            )
    return x.mean(2)


def bottleneck(state: dict[str, Tensor], name: str, x: Tensor, stride: int, first: bool) -> Tensor:
    """1x1, grouped 16, 1x1, squeeze and excitation, and the shortcut."""
    out = x if first else swish(x)
    out = swish(same_conv(state, f"{name}.conv1", out, stride=1))
    out = swish(same_conv(state, f"{name}.conv2", out, stride=stride))
    out = same_conv(state, f"{name}.conv3", out, stride=1)

    squeezed = out.mean(2)
    squeezed = swish(
        F.linear(squeezed, state[f"{name}.se_fc1.weight"], state[f"{name}.se_fc1.bias"])
    )
    gate = torch.sigmoid(
        F.linear(squeezed, state[f"{name}.se_fc2.weight"], state[f"{name}.se_fc2.bias"])
    )
    out = out * gate[:, :, None]

    if stride == 2:
        # one zero on the right, whatever the length
        x = F.max_pool1d(F.pad(x, (0, 1)), kernel_size=2, stride=2)
    more = out.shape[1] - x.shape[1]
    if more:
        batch, _, time = x.shape
        before = torch.zeros(batch, more // 2, time, dtype=x.dtype)
        after = torch.zeros(batch, more - more // 2, time, dtype=x.dtype)
        x = torch.cat([before, x, after], dim=1)
    return out + x


def same_conv(state: dict[str, Tensor], name: str, x: Tensor, stride: int) -> Tensor:
    """A convolution to ceil(n / stride) samples; of an odd number of zeros the extra one is on the
    right.
    """
    weight, bias = state[f"{name}.conv.weight"], state[f"{name}.conv.bias"]
    n, kernel = x.shape[2], weight.shape[2]
    length = -(-n // stride)
    zeros = max(0, (length - 1) * stride + kernel - n)
    padded = F.pad(x, (zeros // 2, zeros - zeros // 2))
    return F.conv1d(padded, weight, bias, stride=stride, groups=x.shape[1] // weight.shape[1])


def swish(x: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return x * torch.sigmoid(x)
