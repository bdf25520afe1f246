"""The arrays that the authors' own code gave (tests/data/parity), and networks with the
pseudo-weights of that comparison.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ecgbench import models
from ecgbench.check import rule

PARITY = Path(__file__).parents[1] / "data" / "parity"
SEED = "public-0"


def keys(model: str, file: str = "keys.json") -> dict[str, Any]:
    """The names and shapes of the authors' tensors."""
    return dict(json.loads((PARITY / model / file).read_text()))


def golden(model: str, file: str = "golden_seed0.npz") -> dict[str, np.ndarray]:
    return dict(np.load(PARITY / model / file))


def filled(model: str, listed: dict[str, Any] | None = None) -> Any:
    """The frozen network with the pack's pseudo-weights."""
    module = models.get(model)
    network: nn.Module = module.build()
    assert rule.fill(network, listed or keys(model), SEED, module.CARD.weights) == ""
    return network.eval().requires_grad_(False)


def signal(name: str, time: int, leads: int = 12) -> Tensor:
    """(2, leads, time): the input that the packs call `name`."""
    return torch.from_numpy(rule.windows(name, SEED, leads, time))


def near(ours: Tensor | np.ndarray, wanted: np.ndarray | Tensor, limit: float = 1e-5) -> None:
    """To a part of the largest value, where that is above 1."""
    one, other = np.asarray(ours), np.asarray(wanted)
    assert one.shape == other.shape
    assert np.abs(one - other).max() <= limit * max(1, np.abs(other).max())
