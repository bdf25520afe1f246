"""The training of protocol `finetune`: epochs of optimiser steps, resumed from a checkpoint, and
validation as the evaluation computes it.
"""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ecgbench.core.cards import facts
from ecgbench.core.cells import FEATURES, FITS, Fit, key
from ecgbench.core.prefetch import threads_for
from ecgbench.evaluate import _checkpoint, _network, batches, gates, protocols, rows, torchrun
from ecgbench.evaluate._checkpoint import Progress
from ecgbench.evaluate._step import Stepper
from ecgbench.evaluate.encode import Encoder
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.evaluate.feed import Feed
from ecgbench.evaluate.loop import best_of, rounds
from ecgbench.evaluate.network import Placed
from ecgbench.evaluate.predict import probabilities
from ecgbench.evaluate.rows import windows_of
from ecgbench.stats.auroc import macro_auroc
from ecgbench.weights.load import fingerprint, state_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Tuned:
    """A fine-tuned network and how it came about."""

    encoder: dict[str, Tensor]
    """State of the network in the best epoch, on the CPU."""
    head: dict[str, Tensor]
    """`weight` (label, dim) and `bias` (label,)."""
    best: int
    """Epoch of the best validation score, the last one where none is defined."""
    groups: dict[str, dict[str, Any]]
    """Per group: its rate `lr`, the number of `parameters` trained, their sha256 `before` and
    `after`.
    """
    frozen: list[str]
    """Parameters of the network that a forward pass with all leads does not use."""
    devices: int
    progress: Progress
    """Log, seconds and records per forward pass, and what went otherwise than asked for."""


def tune(
    evaluation: Evaluation, fit: Fit, checkpoint: Path, advance: Callable[[int], None]
) -> Tuned:
    """Fine-tune a copy of the network on the training split, choose the epoch on the validation
    split.

    checkpoint: file that is read at the start and written after every epoch. advance: called with
    the number of records that were trained on or validated; a resumed fit tells of those before it
    at once. Goes on from the checkpoint where it is one of this very training, with the numbers of
    an uninterrupted one. Under torchrun every process calls this alike, has the device of its local
    rank, and returns the same. GateError where it would not be a fine-tuning.
    """
    precision = evaluation.training.precision
    fabric = torchrun.open_fabric(evaluation.network.device, precision)
    with torchrun.repeatable(fabric.device):
        return _Tuning(evaluation, fit, checkpoint, advance, fabric)()


class _Tuning:
    """One fit on one device, or one process's part of it."""

    def __init__(
        self,
        evaluation: Evaluation,
        fit: Fit,
        checkpoint: Path,
        advance: Callable[[int], None],
        fabric: Any,
    ) -> None:
        self.evaluation, self.fit, self.fabric = evaluation, fit, fabric
        self.checkpoint, self.advance = checkpoint, advance
        self.training, self.contract = evaluation.training, evaluation.contract
        self.policy, card = evaluation.policy(evaluation.trained(fit)), evaluation.network.card
        self.name, self.check = card.title, evaluation.records["val"]
        self.target = evaluation.target("val", evaluation.task(fit).columns)
        network = copy.deepcopy(evaluation.network.module)
        labels = self.target.shape[1]
        self.module = _network.Tuning(network, card, labels, fit.seed).to(fabric.device)
        if fabric.device.type == "cuda":
            getattr(network, "compile_training", bool)()
        threads = threads_for(fabric.device.type)
        self.feed = Feed(evaluation, fit, fabric.global_rank, fabric.world_size, threads)
        self.identity = self._identity()
        self.frozen = _network.freeze_unused(self.module, *self.feed.probe())
        self.groups = _network.groups(self.module, card)
        self.before = {g: fingerprint(parameters) for g, parameters in self.groups.items()}
        self.optimiser = _network.optimiser(self.module, self.groups, self.training)
        leads = [evaluation.training_leads(r, "validation leads", r.name) for r in self.check]
        self.validated = [
            r._replace(position=i, available=mask)
            for i, (r, mask) in enumerate(zip(self.check, leads))
        ]

    def _identity(self) -> str:
        """Of everything that a checkpoint rests on."""
        splits = [
            [[r.name for r in records], windows_of(records), sha256(target.tobytes()).hexdigest()]
            for records, target in (
                (self.feed.records, self.feed.target),
                (self.check, self.target),
            )
        ]
        return key(
            {
                "features": FEATURES,
                "fits": FITS,
                "training": protocols.facts(self.training),
                "seed": self.fit.seed,
                "splits": splits,
                "weights": fingerprint(self.module.state_dict()),
                "contract": facts(self.contract),
                "policy": self.policy.name,
                **{word: facts(self.evaluation.network.card)[word] for word in ("groups", "fixed")},
            }
        )

    def __call__(self) -> Tuned:
        progress = self._resume()
        stepper = Stepper(
            fabric=self.fabric,
            model=self.fabric.setup(self.module),
            module=self.module,
            optimiser=self.optimiser,
            micro=progress.micro,
            advance=self.advance,
            notes=progress.notes,
        )

        def learn(epoch: int) -> float:
            return self._learn(stepper, epoch)

        started = time.monotonic()
        for improved in rounds(progress.log, self.training.epochs, learn, self._validate):
            progress.micro = stepper.micro
            progress.seconds.append(round(time.monotonic() - started, 3))
            if improved:
                progress.best = state_of(self.module)
                progress.moved = _network.moved(self.module, self.optimiser)
            if self.fabric.is_global_zero:
                _checkpoint.write(
                    self.checkpoint, self.identity, progress, self.module, self.optimiser
                )
            started = time.monotonic()
        return self._result(progress)

    def _resume(self) -> Progress:
        micro = self.training.micro_batch or self.training.batch
        micro = min(micro, self.training.batch, len(self.feed.records))
        fresh, file = Progress(micro=max(1, micro)), self.checkpoint
        content = torchrun.of_first(lambda: file.read_bytes() if file.exists() else None)
        if content is None:
            return fresh
        progress = _checkpoint.read(content, self.identity, self.module, self.optimiser)
        if isinstance(progress, str):
            fresh.notes.append(progress)
            return fresh
        self.advance(len(progress.log) * (self.feed.per_epoch + len(self.check)))
        return progress

    def _learn(self, stepper: Stepper, epoch: int) -> float:
        torchrun.seed_dropout(self.fabric, self.fit.seed, epoch)
        stepper.model.train()
        losses = []
        for batch in self.feed(epoch):
            loss = stepper.step(batch)
            gates.finite(self.name, loss, epoch)
            losses += [loss] if batch.known else []
        if self.fabric.world_size > 1:
            for buffer in self.module.buffers():
                buffer.copy_(self.fabric.broadcast(buffer.cpu()))
        stepper.model.eval()
        gates.sound(self.name, self.module, epoch)
        return sum(losses) / len(losses) if losses else math.nan

    def _validate(self) -> float:
        """Record-level macro AUROC, as the evaluation computes it; each process takes its share of
        the records.
        """
        head, fabric = self.module.head, self.fabric
        weight, bias = (p.detach().cpu().numpy() for p in (head.weight, head.bias))
        probability = np.zeros(self.target.shape, np.float64)
        mine, found = self.validated[fabric.global_rank :: fabric.world_size], []
        view, wanted = self.evaluation.view, rows.complete(mine)
        encoder = self._encoder()
        for part in batches.encoded(
            encoder, lambda i: view.get(self.check[i].name), wanted, self._places
        ):
            found.append(part)
            self.advance(int((rows.decode(part[0])[1] == 0).sum()))  # records, by first windows
        if found:
            done, features = (np.concatenate(part) for part in zip(*found))
            probability[rows.positions(mine)] = probabilities(
                features[np.argsort(done)], rows.owners(mine), weight, bias
            )
        if fabric.world_size > 1:
            shares = torch.from_numpy(probability).to(fabric.device)
            probability = fabric.all_reduce(shares, reduce_op="sum").cpu().numpy()
            self.advance(len(self.check) - len(mine))
        return macro_auroc(self.target, probability)

    def _encoder(self) -> Encoder:
        placed = Placed(self.module.encoder, self.fabric.device)
        return Encoder(placed, self.contract, self.policy)

    @cached_property
    def _places(self) -> np.ndarray | None:
        """See `batches`; None where validation goes record by record."""
        if batches.serves(self.fabric.device.type) and batches.steady(self._encoder()):
            return batches.first_places(windows_of(self.check))
        return None

    def _result(self, progress: Progress) -> Tuned:
        self.module.load_state_dict(progress.best)
        rates = {g["name"]: g["lr"] for g in self.optimiser.param_groups}
        groups = {}
        for group, parameters in self.groups.items():
            hashes = self.before[group], fingerprint(parameters)
            reached = any(n in progress.moved for n in parameters)
            gates.changed(self.name, group, hashes, reached)
            groups[group] = {
                "lr": rates[group],
                "parameters": sum(p.numel() for p in parameters.values()),
                "before": hashes[0],
                "after": hashes[1],
            }
        encoder, head = (
            {k.removeprefix(start): v for k, v in progress.best.items() if k.startswith(start)}
            for start in ("encoder.", "head.")
        )
        return Tuned(
            encoder=encoder,
            head=head,
            best=best_of(progress.log),
            groups=groups,
            frozen=self.frozen,
            devices=self.fabric.world_size,
            progress=progress,
        )
