"""ECG-CPC: four convolutions and four causal state-space (S4) layers, trained to predict what comes
(Al-Masud et al., ICLR 2026).

Our own code. One token of 512 channels stands for two samples; each S4 layer is a causal
convolution over all earlier tokens, its kernel made from a few numbers per channel (Gu, Goel and
Re, Efficiently Modeling Long Sequences with Structured State Spaces, ICLR 2022). The feature is the
mean over tokens. State-dict keys are those of the authors' checkpoint behind `ts_encoder.`; the
head of the pre-training is not part of the network.
"""

import math
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.cards.model import ModelCard, Weights, reference_feeding
from ecgbench.ecg.leads import LEADS
from ecgbench.layers import paper_flop
from ecgbench.layers.cached import CachedTensors
from ecgbench.layers.features import Features, demand_all
from ecgbench.weights.load import loaded

WIDTH, DEPTH, DROPOUT = 512, 4, 0.2
STATES = 4
"""Complex states per channel; their conjugates make it 8."""
LONGEST = 1200
"""Tokens that the kernels are built for, 10 s."""
_TOKENS_AT_ONCE = 1200
"""Without gradients on a CPU: larger batches leave the cache, which costs a quarter of the time."""

_PREFIX, _HEAD = "ts_encoder.", "ts_encoder.head_ssl."
_LICENCE = "weights CC BY 4.0 (figshare 30192604); the code's repository has no LICENSE file"

_PAPER = reference_feeding(fs=240, seconds=2.5, leads=LEADS)

CARD = ModelCard(
    title="ECG-CPC",
    summary=(
        "four convolutions and four causal state-space (S4) layers of width 512, pre-trained "
        "by contrastive prediction"
    ),
    paper=(
        "Al-Masud, Lopez Alcaraz and Strodthoff, Benchmarking ECG Foundational Models: A Reality "
        "Check Across Clinical Tasks, "
        "arXiv:2509.25095"
    ),
    origin="github.com/AI4HealthUOL/ecg-fm-benchmarking at 6367295",
    licence=_LICENCE,
    parameters=2_932_736,
    dim=WIDTH,
    contracts=(
        _PAPER,
        replace(_PAPER, name="upstream", seconds=10, clip=3.0, fill="after", short="edge"),
    ),
    native=False,
    groups={"early": ("encoder.",), "late": ("predictor.",)},
    objective="the encoder's token 14 steps (117 ms) ahead told from 128 others of the same window",
    corpora=("HEEDB",),
    weights=(
        # of the archive only the MD5 is known, 7cdd0d54786b4d98248afc6dce63beea
        Weights(
            name="released",
            url="https://figshare.com/ndownloader/files/58173919",
            file="ECG-CPC Checkpoint.zip",
            # of the member, as a third party states it
            sha256="bc253edc6ac279ce2caec86d3c3a21b740e43735ca03be1dc7c50e630b0ad4cf",
            licence="CC BY 4.0",
            container=("state_dict",),
            prefix=_PREFIX,
            drop=(_HEAD,),
            member="last_11597276.ckpt",
        ),
    ),
    choices={
        "resampling": "paper: polyphase over the record; it and the reference benchmark's "
        "(resampy on each crop) differ by 0.9 % of the "
        "signal's rms on 200 PTB-XL records (95th percentile 2.9 %)",
        "initialisation": (
            "HiPPO-LegS states with log-uniform steps from 0.001 to 0.1, phases chosen so that P "
            "is real (any other choice is the same "
            "network); normal C and D, uniform maps; torch's default for the convolutions"
        ),
        "sequence": (
            "tokens after the last LayerNorm, one for two samples; the pooled feature is their mean"
        ),
        "groups": (
            "early: convolutions; late: state-space layers and their norms (the reference "
            "benchmark's groups are not documented)"
        ),
        "kernel": (
            "built for 1200 tokens whatever the window's length, then cut; longer windows "
            "are refused"
        ),
        "trained": (
            "C, D, maps and norms; steps, states, B, P and Q are constants, as in the authors' code"
        ),
        "resampler": "polyphase; the authors resample by a windowed sinc (resampy)",
        "windows": (
            "upstream: 10 s clipped to 3 mV as in pre-training; paper: 2.5 s without a "
            "limit, as the reference benchmark feeds it"
        ),
        "precision": (
            "kernels and Fourier transforms in float32 under autocast too: complex "
            "numbers do not survive 16 bits"
        ),
    },
)


class ConvLayer(nn.Sequential):
    """Convolution without bias, batch norm, ReLU: (batch, in, time) -> (batch, 512, time /
    stride).
    """

    def __init__(self, entering: int, kernel: int, stride: int) -> None:
        conv = nn.Conv1d(entering, WIDTH, kernel, stride, padding=kernel // 2, bias=False)
        super().__init__(conv, nn.BatchNorm1d(WIDTH), nn.ReLU())


class Kernel(nn.Module):
    """The impulse responses of 512 channels, each a linear state-space system of 4 complex states
    and their conjugates.

    On the 8-vector [v, conj v] the system is diag(w) - P Q^T, discretised bilinearly by the step
    exp(log_dt). `C` is stored as C (1 - A^1200): with it the first 1200 taps have a transfer
    function at the 1200th roots of unity that needs no power of A. Those roots (`omega`) and their
    bilinear images (`z`) are in the authors' file, rounded; only their number is read here.
    """

    omega: Tensor
    z: Tensor

    def __init__(self) -> None:
        super().__init__()
        w, b, p = legs()
        per_channel = (1, WIDTH, STATES)
        self.C = nn.Parameter(torch.empty(*per_channel, 2))
        self.log_dt = nn.Buffer(torch.empty(WIDTH).uniform_(math.log(0.001), math.log(0.1)))
        self.w = nn.Buffer(_pairs(w.expand(per_channel[1:])))
        self.B, self.P, self.Q = (
            nn.Buffer(_pairs(v.expand(per_channel))) for v in (b, p, p.conj())
        )
        roots = torch.polar(
            torch.ones(LONGEST // 2 + 1, dtype=torch.float64), -2 * _half_angles(LONGEST)
        )
        self.omega = nn.Buffer(_pairs(roots))
        self.z = nn.Buffer(_pairs(2 * (1 - roots) / (1 + roots)))
        self._basis = CachedTensors()
        with torch.no_grad():
            self.C.copy_(self._shortened(torch.randn(WIDTH, STATES, dtype=torch.complex128)))

    @property
    def longest(self) -> int:
        """Tokens the stored C was made for; never the length of the input."""
        return 2 * (self.omega.shape[0] - 1)

    def forward(self, length: int) -> Tensor:
        """(512, length): the first taps of each channel, length at most `longest`. Gradients reach
        C.
        """
        if self.C.requires_grad:
            with torch.no_grad():
                (basis,) = self._basis(
                    [self.log_dt, self.w, self.B, self.P, self.Q], self.responses
                )
        else:  # asked for once, by a layer that keeps what it makes of it
            (basis,) = self.responses()
        return torch.einsum("hnt,hn->ht", basis[..., :length], self.C.flatten(2)[0])

    def responses(self) -> list[Tensor]:
        """(512, 8, longest): the kernel is linear in C, and these are its responses to the real and
        imaginary part of each entry.

        With half-angles t, roots exp(-2it) and z = 2i tan t, both sides of each fraction are
        multiplied by cos t, so that the last root, where 1 + omega is 0 and z is infinite, is a
        node like the others.
        """
        half = _half_angles(self.longest).to(self.log_dt)
        cos, sin = half.cos(), half.sin()
        dt = self.log_dt.exp()[:, None, None]
        w, b, p, q = (
            torch.view_as_complex(v.reshape(WIDTH, STATES, 1, 2))
            for v in (self.w, self.B, self.P, self.Q)
        )
        plain, mirrored = (dt / (2j * sin - dt * v * cos) for v in (w, w.conj()))

        def transfer(a: Tensor, c: Tensor) -> Tensor:
            return (a * c * plain + (a * c).conj() * mirrored).sum(1, keepdim=True)

        feedback = cos * transfer(b, q) / (1 + cos * transfer(p, q))
        direct, conjugate = (b - feedback * p) * plain, (b.conj() - feedback * p.conj()) * mirrored
        spectra = torch.stack([direct + conjugate, 1j * (direct - conjugate)], 2) * torch.polar(
            torch.ones_like(half), half
        )
        return [torch.fft.irfft(spectra, n=self.longest).flatten(1, 2)]

    def _shortened(self, c: Tensor) -> Tensor:
        """(1, 512, 4, 2): C (1 - A^longest) of c (512, 4), which is how C is stored."""
        both = [
            torch.view_as_complex(v.double()).view(WIDTH, STATES) for v in (self.w, self.P, self.Q)
        ]
        w, p, q = (torch.cat([v, v.conj()], 1) for v in both)
        a = torch.diag_embed(w) - p[:, :, None] * q[:, None, :]
        step = self.log_dt.double().exp()[:, None, None] / 2 * a
        one = torch.eye(2 * STATES, dtype=a.dtype)
        left = one - torch.linalg.matrix_power(
            torch.linalg.solve(one - step, one + step), self.longest
        )
        row: Tensor = torch.cat([c, c.conj()], 1)[:, None] @ left
        return _pairs(row[None, :, 0, :STATES])


class Position(nn.Module):
    """One linear map for all tokens, with the bias as a column: (batch, token, 512) -> (batch,
    token, 1024).
    """

    def __init__(self) -> None:
        super().__init__()
        bound = 1 / math.sqrt(WIDTH)
        self.weight = nn.Parameter(torch.empty(2 * WIDTH, WIDTH).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(2 * WIDTH, 1).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """W x + b at every token."""
        return F.linear(x, self.weight, self.bias[:, 0])


class S4(nn.Module):
    """Causal convolution, exact GELU, linear map and gate: (batch, token, 512) -> the same shape,
    before the skip connection.
    """

    def __init__(self) -> None:
        super().__init__()
        self.D = nn.Parameter(torch.randn(1, WIDTH))
        self.kernel = nn.ModuleDict({"kernel": Kernel()})
        self.output_linear = nn.ModuleDict({"0": Position()})
        self._length, self._spectrum = 0, CachedTensors()

    def forward(self, x: Tensor) -> Tensor:
        """What the layer adds to x, before the outer dropout."""
        y = _dropped(F.gelu(self.convolve(x)), self.training)
        return F.glu(self.output_linear["0"](y), dim=-1)

    def convolve(self, x: Tensor) -> Tensor:
        """(batch, token, 512) -> the same shape: y[t] = sum over j <= t of K[j] x[t - j], plus D
        x[t]. Not in half precision.
        """
        length = x.shape[1]
        if length != self._length:
            self._length, self._spectrum = length, CachedTensors()
        with torch.autocast(x.device.type, enabled=False):
            (spectrum,) = self._spectrum(self._sources(), lambda: [self._transfer(length)])
            exact = x if x.dtype == torch.float64 else x.float()
            moved = torch.fft.rfft(exact.transpose(1, 2), n=2 * length)
            moved = moved * spectrum if torch.is_grad_enabled() else moved.mul_(spectrum)
            return torch.fft.irfft(moved, n=2 * length)[..., :length].transpose(1, 2).contiguous()

    def _transfer(self, length: int) -> Tensor:
        """(512, length + 1) complex: the kernel's spectrum, D being part of its first tap."""
        taps: Tensor = self.kernel["kernel"](length)
        return torch.fft.rfft(torch.cat([taps[:, :1] + self.D.T, taps[:, 1:]], 1), n=2 * length)

    def _sources(self) -> list[Tensor]:
        k: Kernel = self.kernel["kernel"]  # type: ignore[assignment]
        return [self.D, k.C, k.log_dt, k.w, k.B, k.P, k.Q]


class Predictor(nn.Module):
    """Four S4 layers, each added to its input and normalised afterwards: (batch, token, 512) -> the
    same shape.
    """

    def __init__(self) -> None:
        super().__init__()
        self.s4_layers = nn.ModuleList(S4() for _ in range(DEPTH))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        """LayerNorm of x plus what the layer makes of it, four times."""
        for layer, norm in zip(self.s4_layers, self.norms):
            x = norm(x + _dropped(layer(x), self.training))
        return x


class Cpc(nn.Module):
    """The encoder: twelve leads in, 512 features out."""

    def __init__(self) -> None:
        super().__init__()
        layers = [ConvLayer(12, 3, 2), *(ConvLayer(WIDTH, 1, 1) for _ in range(3))]
        self.encoder = nn.ModuleDict({"layers": nn.Sequential(*layers)})
        self.predictor = nn.ModuleDict({"predictor": Predictor()})

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of a batch of windows.

        signal (batch, 12, time) float32, mV at 240 Hz, at most 2400 samples; measured (batch, 12)
        bool, all True: the network reads every row. Another shape, a longer window, or a lead that
        is not measured, is a ValueError.
        """
        demand_all("ECG-CPC", signal, measured, len(LEADS))
        if signal.shape[2] > 2 * LONGEST:
            raise ValueError(
                f"ECG-CPC reads at most {2 * LONGEST} samples, for which its kernels were made, "
                f"not {signal.shape[2]}"
            )
        # never where the batch norms look at the whole batch
        whole = any(m.training for m in self.modules() if isinstance(m, nn.BatchNorm1d))
        small = signal.device.type == "cpu" and not (whole or torch.is_grad_enabled())
        windows = max(1, 2 * _TOKENS_AT_ONCE // signal.shape[2]) if small else len(signal)
        parts = [
            self.predictor["predictor"](self.encoder["layers"](part).transpose(1, 2))
            for part in signal.split(windows)
        ]
        sequence = parts[0] if len(parts) == 1 else torch.cat(parts)
        return Features(sequence, sequence.mean(1))


def legs() -> tuple[Tensor, Tensor, Tensor]:
    """w, B and P, each (4,) complex128: HiPPO-LegS of size 8 as a normal matrix less P P^H, one of
    each pair of conjugates.

    The normal matrix is -1/2 + a skew-symmetric part, whose eigenvectors are those of a Hermitian
    one. Their phases are chosen so that P is real and positive; left to themselves they differ from
    one LAPACK to the next.
    """
    odd = 2 * torch.arange(2 * STATES, dtype=torch.float64) + 1
    skew = -0.5 * torch.outer(odd, odd).sqrt()
    skew = skew.tril(-1) - skew.tril(-1).T
    frequency, vectors = torch.linalg.eigh(-1j * skew)
    frequency, vectors = frequency.flip(0)[:STATES], vectors.flip(1)[:, :STATES]
    b, p = (vectors.mH @ v.to(vectors) for v in (odd.sqrt(), (odd / 2).sqrt()))
    phase = p.conj() / p.abs()
    return torch.complex(torch.full_like(frequency, -0.5), frequency), b * phase, p * phase


def _half_angles(length: int) -> Tensor:
    """(length / 2 + 1,) float64, 0 to pi / 2."""
    return torch.arange(length // 2 + 1, dtype=torch.float64) * (math.pi / length)


def _pairs(x: Tensor) -> Tensor:
    """Complex numbers as float32 (real, imaginary) in a last axis and in memory of their own."""
    return torch.view_as_real(x.resolve_conj()).float().contiguous()


def _dropped(x: Tensor, training: bool) -> Tensor:
    """Dropout that leaves out a channel at all tokens of a window: (batch, token, 512) -> the same
    shape.
    """
    return x * F.dropout(torch.ones_like(x[:, :1]), DROPOUT) if training else x


def build(weights: str | Path | None = None) -> Cpc:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(Cpc(), weights, CARD)


def paper_layers(network: nn.Module, samples: int, leads: int) -> paper_flop.Layout:
    """The layers by the paper's FLOP count; all leads are read whatever is measured."""
    tokens = paper_flop.halved(samples)
    layers = (
        paper_flop.Layer(r"encoder\.layers\.0\.0\.weight", tokens, first=True),
        paper_flop.Layer(r"encoder\.layers\.[123]\.0\.weight", tokens),
        paper_flop.Layer(r".*\.s4_layers\.\d\.output_linear\.0\.weight", tokens),
    )
    return paper_flop.Layout(layers, other=r".*\.(kernel\.kernel\.\w+|D|output_linear\.0\.bias)")
