"""A network ready to be measured: built, its weights loaded in full or seeded, frozen, and hashed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ecgbench import models
from ecgbench.cards import ModelCard
from ecgbench.cells import EITHER, RANDOM, RELEASED, Precision
from ecgbench.errors import BadSetting
from ecgbench.models import Features
from ecgbench.models._weights import digest, origin
from ecgbench.seeds import rng, seed_of

NEAR = 1e-2
"""Largest change of a feature, of the largest feature, that a lower precision may bring."""


@dataclass(frozen=True, eq=False)
class Network:
    """One model with one set of weights."""

    name: str
    card: ModelCard
    module: nn.Module
    weights: str
    """What every table shows: "random", a name on the card, or a file's name."""
    sha256: str
    """Of the state dict."""
    device: str = "cpu"
    precision: Precision = "float32"
    """Of what `encoder` computes."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """Where the weights come from: see `_weights.origin`."""

    @property
    def encoder(self) -> nn.Module:
        """The module for float32 arrays that are on the CPU."""
        here = self.device == "cpu" and self.precision == "float32"
        return self.module if here else Placed(self.module, torch.device(self.device), self.precision)

    def in_precision(self, asked: Precision) -> "Network":
        """The network that computes in `asked` where that moves no feature by more than `NEAR` of the largest, else as it is.

        Tried on one window of noise with all leads.
        """
        rough = replace(self, precision=asked)
        fed = self.card.contracts[0]
        noise = 0.3 * rng("precision").standard_normal((1, len(fed.leads), fed.received))
        given = torch.from_numpy(noise.astype("float32")), torch.ones(1, len(fed.leads), dtype=torch.bool)
        with torch.inference_mode():
            exact, near = (n.encoder(*given).pooled for n in (self, rough))
        return rough if bool((near - exact).abs().max() <= NEAR * exact.abs().max()) else self


class Placed(nn.Module):
    """An encoder on its device and in its precision, for float32 arrays that are on the CPU.

    It offers no `embed_leads`: every set of leads is a pass.
    """

    def __init__(self, encoder: nn.Module, device: torch.device, precision: Precision = "float32") -> None:
        super().__init__()
        self.encoder, self.device, self.rough = encoder, device, precision == "bf16"

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """As the encoder's; the features are on the CPU, float32."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.rough):
            found = self.encoder(signal.to(self.device), measured.to(self.device))
        return Features(found.sequence, found.pooled.float().cpu())


def build(name: str, weights: str, device: str = "cpu", precision: Precision = "float32") -> Network:
    """The model called `name` with `weights`: random, released, released_or_random, a name on its card, or a path; on `device`.

    Random weights come from a seed of their own and are the same in every run. Weights that do not match raise BadWeights.
    `precision`: see `Network.in_precision`.
    """
    module = models.get(name)
    if device != "cpu":  # float32 means float32: by default torch lets convolutions round to 10 bits there
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if weights == EITHER:
        weights = RELEASED if _has_released(name) else RANDOM
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("weights", name) % 2**63)
        network = module.build() if weights == RANDOM else module.build(weights=weights)
    network.eval().requires_grad_(False).to(device)
    source = origin(module.CARD, weights)
    made = Network(name, module.CARD, network, Path(weights).name, digest(network), device, source=source)
    return made if precision == made.precision else made.in_precision(precision)


def _has_released(name: str) -> bool:
    """Whether the released weights can be loaded here; files that are there but do not match still stop the run."""
    try:
        models.get(name).build(weights=RELEASED)
    except BadSetting:
        return False
    return True
