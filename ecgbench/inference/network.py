"""A network ready to be measured: built, its weights loaded in full or seeded, frozen, and hashed."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ecgbench import models
from ecgbench.cards import ModelCard
from ecgbench.errors import BadSetting
from ecgbench.models._weights import digest
from ecgbench.seeds import seed_of

RANDOM, RELEASED, EITHER = "random", "released", "released_or_random"


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


def build(name: str, weights: str) -> Network:
    """The model called `name` with `weights`: random, released, released_or_random, a name on its card, or a path.

    Random weights come from a seed of their own and are the same in every run. Weights that do not match raise BadWeights.
    """
    module = models.get(name)
    if weights == EITHER:
        weights = RELEASED if _has_released(name) else RANDOM
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("weights", name) % 2**63)
        network = module.build() if weights == RANDOM else module.build(weights=weights)
    network.eval().requires_grad_(False)
    return Network(name, module.CARD, network, Path(weights).name, digest(network))


def _has_released(name: str) -> bool:
    """Whether the released weights can be loaded here; files that are there but do not match still stop the run."""
    try:
        models.get(name).build(weights=RELEASED)
    except BadSetting:
        return False
    return True
