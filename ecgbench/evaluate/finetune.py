"""Protocol `finetune`: the whole network is trained, early layers slower than late ones and both
slower than the head.

Source: the reference benchmark (AdamW, rates lr, lr/10 and lr/100, constant, no clipping, one
random window per record and epoch, best epoch by record-level validation macro AUROC). Every group
must be trained, or the fit stops: in the reference benchmark one model's encoder was left out of
the optimiser by a misspelt prefix, and nothing said so.

Batch normalisation, where a network has it, sees the records of one forward pass: with smaller
passes or several processes its statistics are of fewer records, everything else is the same.
"""

import hashlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ecgbench.core.cards import facts
from ecgbench.core.cells import FEATURES, FITS, Training, key
from ecgbench.core.prefetch import threads_for
from ecgbench.errors import BadSetting
from ecgbench.evaluate import _network, batched, checkpoint, gates, rows
from ecgbench.evaluate import fabric as device
from ecgbench.evaluate.checkpoint import Progress
from ecgbench.evaluate.encode import Encoder
from ecgbench.evaluate.fabric import Place as Place
from ecgbench.evaluate.feed import Examples as Examples
from ecgbench.evaluate.feed import Feed, shown
from ecgbench.evaluate.feed import Feeding as Feeding
from ecgbench.evaluate.loop import Epoch, best_of, rounds
from ecgbench.evaluate.network import Placed
from ecgbench.evaluate.predict import probabilities
from ecgbench.evaluate.step import Stepper
from ecgbench.stats.auroc import macro_auroc
from ecgbench.weights.load import fingerprint


@dataclass(frozen=True, kw_only=True, eq=False)
class Tuned:
    """A fine-tuned network and how it came about."""

    encoder: dict[str, Tensor]
    """State of the network in the best epoch, on the CPU."""
    head: dict[str, Tensor]
    """`weight` (label, dim) and `bias` (label,)."""
    best: int
    """Epoch of the best validation score, the last one where none is defined."""
    log: list[Epoch]
    groups: dict[str, dict[str, Any]]
    """Per group: its rate `lr`, the number of `parameters` trained, their sha256 `before` and
    `after`.
    """
    frozen: list[str]
    """Parameters of the network that a forward pass with all leads does not use."""
    micro_batch: int
    """Records per forward pass, in the end."""
    devices: int
    seconds: list[float]
    """Wall time of each epoch, validation included."""
    notes: list[str]
    """What went otherwise than asked for: smaller passes for want of memory, a checkpoint that was
    not used.
    """


def fit(
    network: nn.Module,
    fed: Feeding,
    training: Training,
    seed: int,
    data: tuple[Examples, Examples],
    place: Place,
) -> Tuned:
    """Fine-tune `network` (it is used up) on the first of `data`, choose the epoch on the second.

    Goes on from `place.checkpoint` where it is one of this very training, with the numbers of an
    uninterrupted one. Under torchrun every process calls this alike and returns the same. GateError
    where it would not be a fine-tuning.
    """
    if not (data[0].records and data[1].records):
        raise BadSetting(
            "fine-tuning needs training and validation records; give more of them (--limit)"
        )
    fabric = device.open_fabric(place.device, training.precision)
    with device.repeatable(fabric.device):
        return _Work(network, _Task(fed, training, seed, data, place), fabric)()


@dataclass(frozen=True, eq=False)
class _Task:
    fed: Feeding
    training: Training
    seed: int
    data: tuple[Examples, Examples]
    place: Place

    def identity(self, state: dict[str, Tensor]) -> str:
        """Of everything that a checkpoint rests on."""
        splits = [
            [d.records, [int(w) for w in d.windows], hashlib.sha256(d.target.tobytes()).hexdigest()]
            for d in self.data
        ]
        return key(
            {
                "features": FEATURES,
                "fits": FITS,
                "training": self.training.facts(),
                "seed": self.seed,
                "splits": splits,
                "weights": fingerprint(state),
                "contract": facts(self.fed.contract),
                "policy": self.fed.policy.name,
                **{word: facts(self.fed.card)[word] for word in ("groups", "fixed")},
            }
        )


class _Work:
    """One fit on one device, or one process's part of it."""

    def __init__(self, network: nn.Module, task: _Task, fabric: Any) -> None:
        self.task, self.fabric, self.name = task, fabric, task.fed.card.title
        learn, check = task.data
        self.module = _network.Tuning(network, task.fed.card, learn.target.shape[1], task.seed).to(
            fabric.device
        )
        if fabric.device.type == "cuda":
            getattr(network, "compile_training", bool)()
        self.identity = task.identity(self.module.state_dict())
        self.feed = Feed(
            fed=task.fed,
            training=task.training,
            seed=task.seed,
            learn=learn,
            rank=fabric.global_rank,
            world=fabric.world_size,
            threads=threads_for(fabric.device.type),
        )
        self.frozen = _network.freeze_unused(self.module, self.feed.probe())
        self.groups = _network.groups(self.module, task.fed.card)
        self.before = {g: fingerprint(parameters) for g, parameters in self.groups.items()}
        self.optimiser = _network.optimiser(self.module, self.groups, task.training)
        self.masks = [
            shown(task.fed.contract, task.training, check.has(i), "validation leads", r)
            for i, r in enumerate(check.records)
        ]

    def __call__(self) -> Tuned:
        progress = self._resume()
        model = self.fabric.setup(self.module)
        stepper = Stepper(
            fabric=self.fabric,
            model=model,
            module=self.module,
            optimiser=self.optimiser,
            micro=progress.micro,
            advance=self.task.place.advance,
            notes=progress.notes,
        )

        def learn(epoch: int) -> float:
            return self._learn(stepper, epoch)

        started = time.monotonic()
        for improved in rounds(progress.log, self.task.training.epochs, learn, self._validate):
            progress.micro = stepper.micro
            progress.seconds.append(round(time.monotonic() - started, 3))
            if improved:
                progress.best, progress.moved = (
                    checkpoint.kept(self.module),
                    _network.moved(self.module, self.optimiser),
                )
            if self.fabric.is_global_zero:
                checkpoint.write(
                    self.task.place.checkpoint, self.identity, progress, self.module, self.optimiser
                )
            started = time.monotonic()
        return self._result(progress)

    def _resume(self) -> Progress:
        task = self.task
        micro = task.training.micro_batch or task.training.batch
        fresh = Progress(micro=max(1, min(micro, task.training.batch, len(task.data[0].records))))
        content = None
        if self.fabric.is_global_zero and task.place.checkpoint.exists():
            content = task.place.checkpoint.read_bytes()
        content = self.fabric.broadcast(content) if self.fabric.world_size > 1 else content
        if content is None:
            return fresh
        progress = checkpoint.read(content, self.identity, self.module, self.optimiser)
        if isinstance(progress, str):
            fresh.notes.append(progress)
            return fresh
        task.place.advance(len(progress.log) * (self.feed.per_epoch + len(task.data[1].records)))
        return progress

    def _learn(self, stepper: Stepper, epoch: int) -> float:
        device.seed_dropout(self.fabric, self.task.seed, epoch)
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
        check, advance = self.task.data[1], self.task.place.advance
        weight, bias = (
            p.detach().cpu().numpy() for p in (self.module.head.weight, self.module.head.bias)
        )
        probability = np.zeros(check.target.shape, np.float64)
        mine = range(self.fabric.global_rank, len(check.records), self.fabric.world_size)
        for records, features, owner in self._validation_features(mine):
            probability[records] = probabilities(features, owner, weight, bias)
            advance(len(records))
        if self.fabric.world_size > 1:
            probability = (
                self.fabric.all_reduce(
                    torch.from_numpy(probability).to(self.fabric.device), reduce_op="sum"
                )
                .cpu()
                .numpy()
            )
            advance(len(check.records) - len(mine))
        return macro_auroc(check.target, probability)

    def _validation_features(
        self, mine: range
    ) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
        """Some validation records, the features of all their windows, and which of these records
        each window belongs to.
        """
        check, encoder, places = self.task.data[1], self._encoder(), self._places
        if places is None:
            for i in mine:
                chosen = np.arange(check.windows[i])
                mask = self.masks[i]
                of_record = encoder(check.view(check.records[i]), {mask: chosen})[mask]
                yield [i], of_record, np.zeros(len(chosen), np.int64)
            return
        wanted = [
            rows.encode(i, np.arange(n), np.full(n, self.masks[i]))
            for i, n in ((i, check.windows[i]) for i in mine)
        ]
        parts = batched.encoded(
            encoder, lambda i: check.view(check.records[i]), np.concatenate(wanted), places
        )
        done, features = (np.concatenate(part) for part in zip(*parts))
        owner = np.repeat(np.arange(len(mine)), [len(part) for part in wanted])
        yield list(mine), features[np.argsort(done)], owner

    def _encoder(self) -> Encoder:
        placed = Placed(self.module.encoder, self.fabric.device)
        return Encoder(placed, self.task.fed.contract, self.task.fed.policy)

    @cached_property
    def _places(self) -> np.ndarray | None:
        """See `inference.batched`; None where validation goes record by record."""
        if batched.serves(self.fabric.device.type) and batched.steady(self._encoder()):
            return batched.first_places(self.task.data[1].windows)
        return None

    def _result(self, progress: Progress) -> Tuned:
        self.module.load_state_dict(progress.best)
        rates = {g["name"]: g["lr"] for g in self.optimiser.param_groups}
        groups = {}
        for group, parameters in self.groups.items():
            after = fingerprint(parameters)
            gates.changed(
                self.name,
                group,
                (self.before[group], after),
                any(n in progress.moved for n in parameters),
            )
            count = sum(p.numel() for p in parameters.values())
            groups[group] = {
                "lr": rates[group],
                "parameters": count,
                "before": self.before[group],
                "after": after,
            }
        parts: list[dict[str, Tensor]] = [
            {k.removeprefix(start): v for k, v in progress.best.items() if k.startswith(start)}
            for start in ("encoder.", "head.")
        ]
        return Tuned(
            encoder=parts[0],
            head=parts[1],
            best=best_of(progress.log),
            log=progress.log,
            groups=groups,
            frozen=self.frozen,
            micro_batch=progress.micro,
            devices=self.fabric.world_size,
            seconds=progress.seconds,
            notes=progress.notes,
        )
