"""The training of protocol `finetune`: epochs of optimiser steps, resumed from a checkpoint, and
validation as the evaluation computes it.
"""

import copy
import io
import math
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ecgbench.cards.cell import Fit
from ecgbench.core.files import put_hashed, read_hashed
from ecgbench.core.prefetch import threads_for
from ecgbench.evaluate import _network, batches, gates, rows, torchrun
from ecgbench.evaluate.encode import Encoder
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.evaluate.loop import Epoch, best_of, rounds, trained
from ecgbench.evaluate.network import Placed
from ecgbench.evaluate.predict import probabilities
from ecgbench.evaluate.protocols import Trained
from ecgbench.evaluate.step import Feed, Stepper
from ecgbench.stats.auroc import macro_auroc
from ecgbench.weights.load import fingerprint, state_of
from ecgbench.weights.state import fill

Advance = Callable[[int], None]
Groups = dict[str, dict[str, nn.Parameter]]
"""Group -> name -> parameter."""


def tune(
    evaluation: Evaluation, fit: Fit, checkpoint: Path, advance: Advance, tuner: Any = None
) -> Trained:
    """Fine-tune a copy of the network on the training split, choose the epoch on the validation
    split.

    checkpoint: file of this very fit, read at the start and written after every epoch; a training
    that goes on from it ends with the numbers of an uninterrupted one. advance: called with the
    number of records that were trained on or validated; a resumed fit names those before it at
    once. tuner: a class in place of `Tuner`. GateError where it would not be a fine-tuning.
    """
    precision = evaluation.training.precision
    fabric = torchrun.open_fabric(evaluation.network.device, precision)
    with torchrun.repeatable(fabric.device):
        return (tuner or Tuner)(evaluation, fit, checkpoint, advance, fabric)()


@dataclass(kw_only=True, eq=False)
class _Progress:
    """What a fit knows between two epochs, beside its module and its optimiser."""

    micro: int
    """Records of a forward pass."""
    log: list[Epoch] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Wall time of each epoch, validation included."""
    notes: list[str] = field(default_factory=list)
    """What went otherwise than the settings say."""
    best: dict[str, Tensor] = field(default_factory=dict)
    """State of the module in its best epoch, on the CPU."""


class Tuner:
    """One fit on one device, at a constant rate. Other recipes define `_recipe`; what they know of
    earlier steps is in the optimiser and in `kept`.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        fit: Fit,
        checkpoint: Path,
        advance: Advance,
        fabric: Any,
    ) -> None:
        self.evaluation, self.fit, self.fabric = evaluation, fit, fabric
        self.checkpoint, self.advance, self.training = checkpoint, advance, evaluation.training
        self.policy, card = evaluation.policy(evaluation.trained(fit)), evaluation.network.card
        self.name, self.check = card.title, evaluation.records["val"]
        self.target = evaluation.target("val", evaluation.task(fit).columns)
        network = copy.deepcopy(evaluation.network.module)
        labels = self.target.shape[1]
        self.module = _network.Tuning(network, card, labels, fit.seed).to(fabric.device)
        self.feed = Feed(evaluation, fit, threads_for(fabric.device.type))
        self.frozen = _network.freeze_unused(self.module, evaluation.contract)
        self.kept: Any = self.module
        """What is validated, and kept of the best epoch."""
        self.groups, self.optimiser = self._recipe(_network.groups(self.module, card))
        self.before = {g: fingerprint(parameters) for g, parameters in self.groups.items()}
        self.rates = {g["name"]: g.get("initial_lr", g["lr"]) for g in self.optimiser.param_groups}

    def _recipe(self, groups: Groups) -> tuple[Groups, torch.optim.Optimizer]:
        """The groups that must change, of those of the card, and what steps them; each group of
        the optimiser has the name of one.
        """
        return groups, _network.optimiser(groups, self.training)

    def __call__(self) -> Trained:
        """Train the epochs that the checkpoint lacks; the result is that of the best one."""
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
        learn, started = partial(self._learn, stepper), time.monotonic()
        for improved in rounds(progress.log, self.training.epochs, learn, self._validate):
            progress.micro = stepper.micro
            progress.seconds.append(round(time.monotonic() - started, 3))
            if improved:
                progress.best = state_of(self.kept)
            self._save(progress)
            started = time.monotonic()
        return self._result(progress)

    def _save(self, progress: _Progress) -> None:
        state = {
            **vars(progress),
            "log": [astuple(epoch) for epoch in progress.log],
            "module": self.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "kept": self.kept.state_dict(),
        }
        content = io.BytesIO()
        torch.save(state, content)
        put_hashed(self.checkpoint, content.getbuffer())

    def _resume(self) -> _Progress:
        content = read_hashed(self.checkpoint)
        if content is None:
            micro = self.training.micro_batch or self.training.batch
            return _Progress(micro=max(1, min(micro, self.training.batch, len(self.feed.records))))
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        module = state.pop("module")
        self.module.load_state_dict(module)
        self.optimiser.load_state_dict(state.pop("optimiser"))
        self.kept.load_state_dict(state.pop("kept", module))
        state["log"] = [Epoch(*line) for line in state["log"]]
        self.advance(len(state["log"]) * (self.feed.per_epoch + len(self.check)))
        return _Progress(**state)

    def _learn(self, stepper: Stepper, epoch: int) -> float:
        torchrun.seed_dropout(self.fabric, self.fit.seed, epoch)
        stepper.model.train()
        losses = []
        for batch in self.feed(epoch):
            loss = stepper.step(batch)
            losses += [loss] if batch.known else []
        stepper.model.eval()
        gates.finite(self.name, epoch, sum(losses), self.module)
        return sum(losses) / len(losses) if losses else math.nan

    def _validate(self) -> float:
        """Record-level macro AUROC, as the evaluation computes it."""
        evaluation, records = self.evaluation, self.evaluation.validated
        names = {r.position: r.name for r in records}
        network = Placed(self.kept.encoder, self.fabric.device)
        encoder = Encoder(network, evaluation.contract, self.policy)
        done, features = [], []
        for part, values in batches.encoded(
            encoder,
            lambda p: evaluation.view.get(names[p]),
            rows.complete(records),
            evaluation.slots,
        ):
            done.append(part)
            features.append(values)
            self.advance(int((rows.decode(part)[1] == 0).sum()))  # records, by first windows
        head = (p.detach().cpu().numpy() for p in self.kept.head.parameters())
        ordered = np.concatenate(features)[np.argsort(np.concatenate(done))]
        probability = probabilities(ordered, rows.records_of_windows(records), *head)
        return macro_auroc(self.target, probability)

    def _result(self, progress: _Progress) -> Trained:
        fill(self.module, progress.best)
        groups = {}
        for group, parameters in self.groups.items():
            before, after = self.before[group], fingerprint(parameters)
            averages = (self.optimiser.state[p].get("exp_avg") for p in parameters.values())
            reached = any(mean is not None and bool(mean.any()) for mean in averages)
            gates.changed(self.name, group, (before, after), reached)
            count = sum(p.numel() for p in parameters.values())
            groups[group] = {
                "lr": self.rates[group],
                "parameters": count,
                "before": before,
                "after": after,
            }
        encoder, head = (
            {k.removeprefix(start): v for k, v in progress.best.items() if k.startswith(start)}
            for start in ("encoder.", "head.")
        )
        note = {
            "micro_batch": progress.micro,
            "device": self.evaluation.network.device,
            "precision": self.training.precision,
            "groups": groups,
            "frozen": self.frozen,
            "notes": progress.notes,
            "epoch_seconds": progress.seconds,
        }
        batch = min(self.training.batch, len(self.feed.records))
        best = best_of(progress.log)
        return trained(head, best, progress.log, batch, encoder=encoder, note=note)
