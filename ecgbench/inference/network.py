"""A network ready to be measured: built, its weights loaded in full or seeded, frozen, and hashed."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from ecgbench import models
from ecgbench.cards import ModelCard
from ecgbench.cells import EITHER, RANDOM, RELEASED
from ecgbench.errors import BadSetting
from ecgbench.models import Features
from ecgbench.models._weights import digest
from ecgbench.seeds import seed_of


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

    @property
    def encoder(self) -> nn.Module:
        """The module for arrays that are on the CPU."""
        return self.module if self.device == "cpu" else Placed(self.module, torch.device(self.device))


class Placed(nn.Module):
    """An encoder on its device for arrays that are on the CPU; it offers no `embed_leads`, every set of leads is a pass."""

    def __init__(self, encoder: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.encoder, self.device = encoder, device

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """As the encoder's; the features are on the CPU."""
        found = self.encoder(signal.to(self.device), measured.to(self.device))
        return Features(found.sequence, found.pooled.cpu())


def build(name: str, weights: str, device: str = "cpu") -> Network:
    """The model called `name` with `weights`: random, released, released_or_random, a name on its card, or a path; on `device`.

    Random weights come from a seed of their own and are the same in every run. Weights that do not match raise BadWeights.
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
    return Network(name, module.CARD, network, Path(weights).name, digest(network), device)


def _has_released(name: str) -> bool:
    """Whether the released weights can be loaded here; files that are there but do not match still stop the run."""
    try:
        models.get(name).build(weights=RELEASED)
    except BadSetting:
        return False
    return True
