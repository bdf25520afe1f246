"""One lead at a time to nodes: convolutions, each with LayerNorm over the channels of a time step
and exact GELU.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.layers.blocks import gelu
from ecgbench.layers.cached import CachedTensors

_LEADS_AT_ONCE = 16
"""Without gradients on a CPU: larger batches of leads leave the cache and gain nothing."""


class LeadEmbedder(nn.Module):
    """Convolutions of `kernels` and `strides` to `width` channels, spelled as matrix products.

    Their layout is (lead, time, channel), which LayerNorm wants too. A kernel behind the first is
    as long as its stride or up to twice that.
    """

    def __init__(self, width: int, kernels: Sequence[int], strides: Sequence[int]) -> None:
        super().__init__()
        self.kernels, self.strides = tuple(kernels), tuple(strides)
        channels = (1, *[width] * (len(kernels) - 1))
        shapes = zip(channels, kernels, strides, strict=True)
        self.convs = nn.ModuleList(nn.Conv1d(c, width, k, s) for c, k, s in shapes)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in kernels)
        self._rows = CachedTensors()

    def forward(self, signal: Tensor) -> Tensor:
        """(lead, time) -> (lead, node, width)."""
        small = signal.device.type == "cpu" and not torch.is_grad_enabled()
        parts = signal.split(_LEADS_AT_ONCE) if small else (signal,)
        weights = self._by_window()
        tokens = [self._embed(part, weights) for part in parts]
        return tokens[0] if len(tokens) == 1 else torch.cat(tokens)

    def _by_window(self) -> list[Tensor]:
        """Weights as (out, kernel * channel), the order in which a window lies in memory."""
        weights: list[Tensor] = [conv.weight for conv in self.convs]  # type: ignore[misc]
        return self._rows(weights, lambda: [w.permute(0, 2, 1).flatten(1) for w in weights])

    def _embed(self, signal: Tensor, weights: list[Tensor]) -> Tensor:
        leads, times = signal.shape
        x = signal.unfold(1, self.kernels[0], self.strides[0]).reshape(-1, self.kernels[0])
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms)):
            kernel, stride, bias = self.kernels[i], self.strides[i], conv.bias
            assert isinstance(bias, Tensor)
            given, weight = x, weights[i]
            x = (
                _strided(given, times, stride, weight, bias)
                if i
                else F.linear(given, weight, bias).unflatten(0, (leads, -1))
            )
            x, times = gelu(norm(x)), (times - kernel) // stride + 1
        return x[:, :times]


def _strided(x: Tensor, times: int, stride: int, weight: Tensor, bias: Tensor) -> Tensor:
    """A convolution whose kernel is as long as its stride or up to twice that, without copying
    overlapping windows.

    x (lead, row, channel), of which the first `times` rows count; weight (out, kernel * channel).
    Time is cut into frames of `stride` rows: a window is one frame and the head of the next, hence
    two products over all frames of all leads. The last frame of a lead meets the first of the next
    lead; what it gives lies behind the rows that count.
    """
    leads, rows, channels = x.shape
    kernel = weight.shape[1] // channels
    spare = rows % stride
    if spare:
        needed = (times - kernel) // stride * stride + kernel
        x = F.pad(x, (0, 0, 0, -spare if rows - spare >= needed else stride - spare))
    frames = x.reshape(-1, stride * channels)
    whole, rest = weight.split([stride * channels, (kernel - stride) * channels], 1)
    out = torch.addmm(bias, frames, whole.T)
    if kernel > stride:
        total, head = out[:-1], frames[1:, : rest.shape[1]]
        if torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type):
            total += F.linear(head, rest)
        else:
            torch.addmm(total, head, rest.T, out=total)
    return out.unflatten(0, (leads, -1))


class PlainLeadEmbedder(nn.Module):
    """The embedder spelled with torch's convolutions, on the parameters of `fast` themselves."""

    def __init__(self, fast: LeadEmbedder) -> None:
        super().__init__()
        self.convs, self.norms = fast.convs, fast.norms

    def forward(self, signal: Tensor) -> Tensor:
        """(lead, time) -> (lead, node, width)."""
        x = signal.unsqueeze(1)
        for conv, norm in zip(self.convs, self.norms):
            x = F.gelu(norm(conv(x).transpose(1, 2))).transpose(1, 2)
        return x.transpose(1, 2)
