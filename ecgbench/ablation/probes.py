"""How the network of a cell is measured: by the probe of a pre-training's checkpoints, or by one
that learns the vectors of the leads too.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ecgbench.ablation.studies import FROZEN, READINGS, Probe
from ecgbench.ecg.leads import LEADS
from ecgbench.inference.predict import probabilities
from ecgbench.layers.encodings import LeadEncoding
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretraining.kept_encoders import (
    LAST,
    TRAINING,
    Development,
    Half,
    Probed,
    device_of,
    head,
    probed,
    scored,
)
from ecgbench.pretraining.objective import node_features
from ecgbench.stats.auroc import macro_auroc
from ecgbench.training import heads
from ecgbench.training.loop import steps, train

ABSENT = -1.0
"""Of a lead that is not there, to a network that is always given twelve: what min-max scaling makes
of a flat one, as in LAEF's contract.
"""


def measured(
    kind: Probe, encoder: NodeEncoder, development: Development, epochs: int, seed: int = 0
) -> Probed:
    """On what the development task compares encoders on, twelve leads. BadSetting: no label has
    both values.
    """
    if kind == FROZEN:
        return probed(encoder, development, seed, replace(TRAINING, epochs=epochs))
    if kind == READINGS:
        return _readings(encoder, development, epochs, seed)
    return _with_leads(encoder, development, epochs, seed)


def _readings(encoder: NodeEncoder, development: Development, epochs: int, seed: int) -> Probed:
    """The head of the frozen probe on twelve leads, and what it says of single ones, read alone and
    among eleven that are absent: probability (1 + 12 + 12, record, label).
    """
    training = replace(TRAINING, epochs=epochs)
    weight, bias, check = head(encoder, development, seed, training)
    complete = scored(probabilities(check.features, check.owner, weight, bias), development)
    said = [complete.probability]
    for padded in (False, True):
        for lead in range(len(LEADS)):
            features = [
                _of_one(encoder, x, lead, padded).cpu().numpy()
                for x in development.check.batches(device_of(encoder))
            ]
            said.append(probabilities(np.concatenate(features), check.owner, weight, bias))
    return Probed(score=complete.score, probability=np.stack(said))


@torch.no_grad()
def _of_one(encoder: NodeEncoder, signal: Tensor, lead: int, padded: bool) -> Tensor:
    """(record, width) mean-pooled nodes of one lead of (record, 12, time)."""
    seen = torch.zeros(signal.shape[:2], dtype=torch.bool, device=signal.device)
    seen[:, lead] = True
    if padded:
        signal = torch.where(seen[..., None], signal, ABSENT)
        return node_features(encoder, signal, (encoder.depth,))[0].mean((1, 2))
    (nodes,) = encoder.outputs(encoder.embed_leads(signal[seen]), seen, (encoder.depth,))
    return nodes.mean(1)


class _LeadsAndHead(nn.Module):
    """A linear head on pooled nodes, and the vectors of the leads under a frozen encoder."""

    def __init__(self, encoder: NodeEncoder, labels: int, seed: int) -> None:
        super().__init__()
        frozen: Any = copy.deepcopy(encoder).requires_grad_(False)
        self.encoder = frozen
        self.tables = [m for m in frozen.modules() if isinstance(m, LeadEncoding)]
        for table in self.tables:
            table.requires_grad_(True)
        self.head = heads.linear(encoder.width, labels, seed).to(device_of(encoder))

    def train(self, mode: bool = True) -> "_LeadsAndHead":
        """Without dropout in either mode, as features of a frozen network are made."""
        return super().train(False)

    def forward(self, windows: Tensor) -> Tensor:
        """(record, 12, 500) -> (record, label) logits."""
        every = torch.ones(windows.shape[:2], dtype=torch.bool, device=windows.device)
        with torch.no_grad():
            tokens = self.encoder.embed_leads(windows.flatten(0, 1))
        (nodes,) = self.encoder.outputs(tokens, every, (self.encoder.depth,))
        logits: Tensor = self.head(nodes.unflatten(0, windows.shape[:2]).mean((1, 2)))
        return logits


def _with_leads(encoder: NodeEncoder, development: Development, epochs: int, seed: int) -> Probed:
    """The head and the vectors of the leads learn together, at the head's rate; features change
    with them and are made anew in every epoch.
    """
    learn, check = development.learn, development.check
    device = device_of(encoder)
    net = _LeadsAndHead(encoder, learn.target.shape[1], seed)
    parameters = [p for p in net.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=TRAINING.lr, weight_decay=TRAINING.weight_decay)
    signal = torch.from_numpy(learn.signal)
    target = torch.from_numpy(learn.target.astype(np.float32)).to(device)

    def batches(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in steps(len(target), TRAINING.batch, seed, epoch):
            yield signal[rows].to(device), target[rows]

    def validate() -> float:
        return macro_auroc(check.target, _probability(net, check, device))

    train(net, optimiser, batches, validate, epochs, LAST)
    return scored(_probability(net, check, device), development)


@torch.no_grad()
def _probability(net: nn.Module, half: Half, device: torch.device) -> np.ndarray:
    logits = torch.cat([net(x) for x in half.batches(device)]).double()
    return logits.sigmoid().cpu().numpy()
