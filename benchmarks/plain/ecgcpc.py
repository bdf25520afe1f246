"""ECG-CPC as one would first write it down: convolutions and S4 layers whose kernel is computed in
every call, from the state dict.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def features(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """x (batch, 12, time) -> (batch, 512), with the weights of the state dict of
    `ecgbench.models.ecgcpc.Cpc`.
    """
    for layer in range(4):
        x = conv_layer(state, f"encoder.layers.{layer}", x, stride=2 if layer == 0 else 1)
    for layer in range(4):
        x = x + s4_layer(state, f"predictor.predictor.s4_layers.{layer}", x)
        weight, bias = (
            state[f"predictor.predictor.norms.{layer}.{part}"] for part in ("weight", "bias")
        )
        x = F.layer_norm(x.transpose(1, 2), (512,), weight, bias, eps=1e-5).transpose(1, 2)
    return x.mean(dim=2)


def conv_layer(state: dict[str, Tensor], name: str, x: Tensor, stride: int) -> Tensor:
    weight = state[f"{name}.0.weight"]
    x = F.conv1d(x, weight, stride=stride, padding=(weight.shape[2] - 1) // 2)
    mean, var = state[f"{name}.1.running_mean"], state[f"{name}.1.running_var"]
    x = F.batch_norm(
        x, mean, var, state[f"{name}.1.weight"], state[f"{name}.1.bias"], training=False, eps=1e-5
    )
    return F.relu(x)


def s4_layer(state: dict[str, Tensor], name: str, u: Tensor) -> Tensor:
    """(batch, 512, token) -> the same shape."""
    length = u.shape[2]
    taps = kernel(
        {
            part: state[f"{name}.kernel.kernel.{part}"]
            for part in ("C", "log_dt", "B", "P", "Q", "w", "omega", "z")
        },
        length,
    )
    product = torch.fft.rfft(u, n=2 * length) * torch.fft.rfft(taps, n=2 * length)
    y = torch.fft.irfft(product, n=2 * length)[:, :, :length]
    y = y + state[f"{name}.D"][0, :, None] * u
    y = F.gelu(y)
    y = (
        torch.matmul(state[f"{name}.output_linear.0.weight"], y)
        + state[f"{name}.output_linear.0.bias"]
    )
    return y[:, :512] * torch.sigmoid(y[:, 512:])


def kernel(s: dict[str, Tensor], length: int) -> Tensor:
    """(512, length): the transfer function at the nodes, back to time, cut."""
    b, p, q, c = (torch.view_as_complex(s[part][0].contiguous()) for part in ("B", "P", "Q", "C"))
    w, omega, z = (torch.view_as_complex(s[part].contiguous()) for part in ("w", "omega", "z"))
    dt = torch.exp(s["log_dt"])

    def r(a1: Tensor, a2: Tensor) -> Tensor:
        numerator = (a1 * a2)[:, :, None]
        scaled = (dt[:, None] * w)[:, :, None]
        terms = numerator / (z - scaled) + numerator.conj() / (z - scaled.conj())
        return dt[:, None] * terms.sum(dim=1)

    spectrum = (r(b, c) - r(b, q) * r(p, c) / (1 + r(p, q))) * 2 / (1 + omega)
    longest = 2 * (len(omega) - 1)
    return torch.fft.irfft(spectrum, n=longest)[:, :length]
