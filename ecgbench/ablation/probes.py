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
from ecgbench.evaluate import loop
from ecgbench.evaluate.loop import steps, train
from ecgbench.evaluate.predict import probabilities
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
from ecgbench.stats.auroc import macro_auroc

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
    alone = np.concatenate(
        [_alone(encoder, x).cpu().numpy() for x in development.check.batches(device_of(encoder))], 1
    )
    single = [probabilities(features, check.owner, weight, bias) for features in alone]
    return Probed(score=complete.score, probability=np.stack([complete.probability, *single]))


@torch.no_grad()
def _alone(encoder: NodeEncoder, signal: Tensor) -> Tensor:
    """(12 + 12, record, width) mean-pooled nodes of (record, 12, time): each lead read alone, then
    each among eleven that are absent. Leads are embedded once, which is most of the work.
    """
    of_lead = encoder.embed_leads(signal.flatten(0, 1)).unflatten(0, signal.shape[:2])
    constant = torch.full_like(signal[:1, 0], ABSENT)
    absent = encoder.embed_leads(constant).expand(*signal.shape[:2], -1, -1)
    every = torch.ones(signal.shape[:2], dtype=torch.bool, device=signal.device)
    alone, padded = [], []
    for lead in range(len(LEADS)):
        seen = torch.zeros_like(every)
        seen[:, lead] = True
        (nodes,) = encoder.outputs(of_lead[:, lead], seen, (encoder.depth,))
        alone.append(nodes.mean(1))
        tokens = torch.where(seen[..., None, None], of_lead, absent).flatten(0, 1)
        (nodes,) = encoder.outputs(tokens, every, (encoder.depth,))
        padded.append(nodes.unflatten(0, signal.shape[:2]).mean((1, 2)))
    return torch.stack(alone + padded)


class _LeadsAndHead(nn.Module):
    """A linear head on pooled nodes, and the vectors of the leads under a frozen encoder."""

    def __init__(self, encoder: NodeEncoder, labels: int, seed: int) -> None:
        super().__init__()
        frozen: Any = copy.deepcopy(encoder).requires_grad_(False)
        self.encoder = frozen
        self.tables = [m for m in frozen.modules() if isinstance(m, LeadEncoding)]
        for table in self.tables:
            table.requires_grad_(True)
        self.head = loop.head(encoder.width, labels, seed).to(device_of(encoder))

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
