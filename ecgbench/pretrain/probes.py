"""The development task, and the probes that score encoders on it.

A probe learns from the task's training recordings. It is scored on those of patients that were set
apart of them, or on its validation recordings; its test recordings are never read. It is a linear
head on frozen features of twelve leads; one kind learns the vectors of the leads too, and another
reads single leads besides.
"""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ecgbench.cards.cell import Training
from ecgbench.cards.dataset import Task
from ecgbench.cards.model import InputContract
from ecgbench.core.seeds import rng
from ecgbench.data.copy import Copy
from ecgbench.data.views import View
from ecgbench.ecg.leads import ALL, LEADS
from ecgbench.ecg.preprocess import normalise
from ecgbench.errors import BadSetting
from ecgbench.evaluate import loop
from ecgbench.evaluate.loop import steps, train
from ecgbench.evaluate.predict import probabilities
from ecgbench.evaluate.protocols import linear
from ecgbench.layers.encodings import LeadEncoding
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretrain.objective import node_features
from ecgbench.stats import auroc
from ecgbench.stats.auroc import macro_auroc
from ecgbench.stats.clustered import Patients

Kind = Literal["frozen", "lead", "readings"]
"""What a probe trains: a linear head alone, or with it the vectors of the leads. readings: a head
alone, which then reads single leads too.
"""
TRAINING = Training(protocol="linear")
"""The probe is the harness's linear protocol, but for one window per recording, and for its head:
the mean of the heads of the LAST of 100 epochs. An epoch that is chosen by its score makes the
score too good, by another amount for each network.
"""
LAST = 10
BATCH = 16
"""Windows of one pass; features are 12 x 20 nodes each."""
ABSENT = -1.0
"""Of a lead that is not there, to a network that is always given twelve: what min-max scaling makes
of a flat one, as in LAEF's contract.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Half:
    """Recordings of one split of the development task, the first window of each, as the network is
    fed.
    """

    records: list[str]
    patients: list[str]
    signal: np.ndarray
    """(record, 12, 500) float32."""
    target: np.ndarray
    """(record, label) int8."""

    def batches(self, device: torch.device | str, windows: int | None = None) -> Iterator[Tensor]:
        """(batch, 12, 500) on the device: all windows, or the first so many."""
        for start in range(0, len(self.signal[:windows]), BATCH):
            yield torch.from_numpy(self.signal[:windows][start : start + BATCH]).to(device)


@dataclass(frozen=True, kw_only=True, eq=False)
class Development:
    """A task on which checkpoints are compared."""

    task: str
    learn: Half
    check: Half

    @classmethod
    def of(
        cls,
        prepared: Copy,
        task: Task,
        contract: InputContract,
        records: tuple[int | None, int | None] = (None, None),
        seed: int = 0,
        check: str = "val",
    ) -> "Development":
        """From the training split and the one that encoders are compared on; `records`: at most so
        many of each, drawn by `seed`.

        BadSetting: a split without recordings of at least one window.
        """
        index, view = prepared.index, View(prepared, contract)

        def half(split: str, most: int | None) -> Half:
            rows = index[(index["split"] == split) & (index["available"] == ALL.bits)]
            rows = rows[[view.length(r) >= contract.samples for r in rows["record"]]]
            if most is not None and most < len(rows):
                order = rng("development records", seed).permutation(len(rows))
                rows = rows.iloc[np.sort(order[:most])]
            if not len(rows):
                raise BadSetting(
                    f"{prepared.name} has no {split} recording of {contract.seconds:g} s for the "
                    f"development task {task.name}"
                )
            names = rows["record"].tolist()
            view.fill(names)
            windows = [
                normalise(view.get(name), contract.normalisation)[:, : contract.samples]
                for name in names
            ]
            return Half(
                records=names,
                patients=rows["patient"].astype(str).tolist(),
                signal=np.stack(windows).astype(np.float32),
                target=rows[list(task.columns)].to_numpy(np.int8),
            )

        return cls(task=task.name, learn=half("train", records[0]), check=half(check, records[1]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Probed:
    """What a probe finds on recordings of the development task that it did not learn from."""

    score: float
    """Macro AUROC."""
    probability: np.ndarray
    """(record, label) float64."""


def probed(
    encoder: NodeEncoder, development: Development, seed: int = 0, training: Training = TRAINING
) -> Probed:
    """Of a linear head on the encoder's mean-pooled features, twelve leads. BadSetting: no label
    has both values.
    """
    weight, bias, check = head(encoder, development, seed, training)
    return scored(probabilities(check.features, check.record_of, weight, bias), development)


def head(
    encoder: NodeEncoder, development: Development, seed: int = 0, training: Training = TRAINING
) -> tuple[np.ndarray, np.ndarray, linear.Split]:
    """Its weight (label, width) and bias (label,), and the features that it is scored on."""

    def split(half: Half) -> linear.Split:
        pooled = [
            node_features(encoder, x, (encoder.depth,))[0].mean((1, 2)).cpu()
            for x in half.batches(device_of(encoder))
        ]
        return linear.Split(
            records=half.records,
            features=torch.cat(pooled).numpy(),
            record_of=np.arange(len(half.records)),
            target=half.target,
            chosen=lambda epoch: np.arange(len(half.records)),  # of one window each
        )

    check = split(development.check)
    learned, _, _ = linear.train(training, seed, split(development.learn), check, last=LAST)
    weight, bias = (learned.state_dict()[k].numpy() for k in ("weight", "bias"))
    return weight, bias, check


def scored(probability: np.ndarray, development: Development) -> Probed:
    """Probabilities (record, label) with their score. BadSetting: no label has both values."""
    score = macro_auroc(development.check.target, probability)
    if not math.isfinite(score):
        raise BadSetting(
            f"{development.task} gives no score: no label has both values among its "
            f"{len(development.check.records)} recordings"
        )
    return Probed(score=score, probability=probability)


def parts(found: Probed, half: Half) -> tuple[float, ...]:
    """What each patient adds to the error of a score, in alphabetical order; the sum is 0."""
    influence = auroc.influence(half.target, found.probability)
    defined = ~np.isnan(influence).all(axis=0)
    own = influence[:, defined].mean(axis=1) / len(influence)
    return tuple(round(float(x), 9) for x in Patients.of(half.patients).sums(own))


def measured(
    kind: Kind, encoder: NodeEncoder, development: Development, epochs: int, seed: int = 0
) -> Probed:
    """On what the development task compares encoders on, twelve leads. BadSetting: no label has
    both values.
    """
    if kind == "frozen":
        return probed(encoder, development, seed, replace(TRAINING, epochs=epochs))
    if kind == "readings":
        return _readings(encoder, development, epochs, seed)
    return _with_leads(encoder, development, epochs, seed)


def _readings(encoder: NodeEncoder, development: Development, epochs: int, seed: int) -> Probed:
    """The head of the frozen probe on twelve leads, and what it says of single ones, read alone and
    among eleven that are absent: probability (1 + 12 + 12, record, label).
    """
    training = replace(TRAINING, epochs=epochs)
    weight, bias, check = head(encoder, development, seed, training)
    complete = scored(probabilities(check.features, check.record_of, weight, bias), development)
    alone = np.concatenate(
        [_alone(encoder, x).cpu().numpy() for x in development.check.batches(device_of(encoder))], 1
    )
    single = [probabilities(features, check.record_of, weight, bias) for features in alone]
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

    def train(self, _mode: bool = True) -> "_LeadsAndHead":
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


def device_of(encoder: nn.Module) -> torch.device:
    """Where a network is."""
    return next(encoder.parameters()).device
