"""A network ready to be measured: built, its weights loaded in full or seeded, frozen, and
hashed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ecgbench import models
from ecgbench.adapters import zero
from ecgbench.adapters.hide import Policy
from ecgbench.core.cards import InputContract, ModelCard, Weights
from ecgbench.core.cells import EITHER, NONE, RANDOM, RELEASED, Precision
from ecgbench.core.seeds import seed_of
from ecgbench.datasets import demo
from ecgbench.ecg.leads import ALL, LeadSubset
from ecgbench.ecg.preprocess import view
from ecgbench.errors import BadSetting
from ecgbench.evaluate.encode import Encoder
from ecgbench.models import Features
from ecgbench.weights import released
from ecgbench.weights.load import digest, origin

NEAR = 1e-2
"""Largest change of a feature, of the largest feature, that a lower precision may bring."""
TRIALS = 4
"""Recordings on which that is tried."""


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
    def environment(self) -> str:
        """See the function of that name."""
        return environment(self.device)

    @property
    def encoder(self) -> nn.Module:
        """The module for float32 arrays that are on the CPU."""
        if self.device == "cpu" and self.precision == "float32":
            return self.module
        return Placed(self.module, torch.device(self.device), self.precision)

    @property
    def licensed(self) -> list[Weights]:
        """Entries of the card that name the weights, or the file that was given."""
        used = self.source["name"], self.source["file"]
        return [w for w in self.card.weights if w.name in used or w.file in used]

    def in_precision(self, precision: Precision, contract: InputContract) -> "Network":
        """The network that computes in `asked` where that moves no feature by more than `NEAR` of
        its window's largest, else as it is.

        Tried on the windows of a few synthetic recordings with all leads and with one, the others
        being 0 mV; a network whose windows are longer than those stays as it is.
        """
        if precision == self.precision:
            return self
        rough, padded = replace(self, precision=precision), Policy("zero", zero.fill)
        for number in range(1, 1 + TRIALS):
            recording = demo.recording(number)
            seen = view(recording.signal, recording.fs, contract.preparation)
            if not contract.windows(seen.shape[1]):
                return self
            alone = LeadSubset.of(contract.leads[number % len(contract.leads)])
            wanted = {
                leads.bits: np.arange(contract.windows(seen.shape[1])) for leads in (ALL, alone)
            }
            exact, near = (
                Encoder(n.encoder, contract, padded)(seen, wanted) for n in (self, rough)
            )
            for leads, features in exact.items():
                moved = np.abs(near[leads] - features).max(axis=1)
                if not (moved <= NEAR * np.abs(features).max(axis=1)).all():
                    return self
        return rough


class Placed(nn.Module):
    """An encoder on its device and in its precision, for float32 arrays that are on the CPU.

    It offers no `embed_leads`: every set of leads is a pass.
    """

    def __init__(
        self, encoder: nn.Module, device: torch.device, precision: Precision = "float32"
    ) -> None:
        super().__init__()
        self.encoder, self.device, self.rough = encoder, device, precision == "bf16"

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """As the encoder's; the features are on the CPU, float32."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.rough):
            features = self.encoder(signal.to(self.device), measured.to(self.device))
        return Features(features.sequence, features.pooled.float().cpu())


def build(name: str, weights: str, device: str = "cpu") -> Network:
    """The model called `name` with `weights`: random, released, released_or_random, a name on its
    card, or a path; on `device`.

    Random weights come from a seed of their own and are the same in every run. Weights that do not
    match raise BadWeights. A model without a parameter has none, whichever of these words is asked
    for.
    """
    module = models.get(name)
    if not module.CARD.parameters and weights in (RELEASED, EITHER):
        weights = RANDOM
    # float32 means float32: by default torch lets convolutions round to 10 bits there
    if device != "cpu":
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if weights == EITHER:
        weights = RELEASED if _has_released(name) else RANDOM
    with torch.random.fork_rng(devices=[]), models.ROOM.reading(name):
        torch.manual_seed(seed_of("weights", name) % 2**63)
        network = module.build() if weights == RANDOM else module.build(weights=weights)
    network.eval().requires_grad_(False).to(device)
    called = Path(weights).name if module.CARD.parameters else NONE
    source = origin(module.CARD, weights)
    source = {**source, "name": source["name"] and called}
    return Network(name, module.CARD, network, called, digest(network), device, source=source)


def environment(device: str) -> str:
    """What may move the last bits of a number: the version of torch and the kind of device, as in
    "torch 2.13.0, cpu".
    """
    kind = "cpu" if device == "cpu" else torch.cuda.get_device_name(device)
    return f"torch {torch.__version__}, {kind}"


def choose_path(name: str, network: nn.Module, windows: int) -> str:
    """Let the model called `name` choose how `network` computes, by its file's
    `choose_path(network, windows)`.

    Returns its word, which enters the key of every result; "eager" where the file offers no choice.
    windows: those of all records of a study, never of the work that is left, for ways of computing
    differ in the last bits.
    """
    choose = getattr(models.get(name), "choose_path", None)
    with models.ROOM.reading(name):
        return str(choose(network, windows)) if choose else "eager"


def _has_released(name: str) -> bool:
    """Whether released weights are on this machine; files that are there but cannot be read or do
    not match still stop the run.
    """
    module = models.get(name)
    layout = next((w for w in module.CARD.weights if w.name == RELEASED), None)
    if layout is not None:
        return released.is_here(name, layout)
    if models.ROOM.built_in(name):
        return False
    try:  # a plug-in may keep its weights in its own way
        module.build(weights=RELEASED)
    except BadSetting:
        return False
    return True
