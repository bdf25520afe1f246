"""The optimiser steps of a fine-tuning: what they are fed, and how one is made.

An epoch shows one random window of each training record, under the leads drawn for it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ecgbench.cards.cell import Fit
from ecgbench.core.prefetch import prefetched
from ecgbench.core.seeds import rng
from ecgbench.ecg.leads import bits_to_mask
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.evaluate.loop import steps, summed
from ecgbench.evaluate.rows import Record
from ecgbench.evaluate.torchrun import out_of_memory
from ecgbench.policies.hide import adapt, cut
from ecgbench.stats.known import UNKNOWN

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Batch(NamedTuple):
    """What one process trains on in one step."""

    signal: Tensor
    """(record, lead, samples) float32."""
    measured: Tensor
    """(record, lead) bool."""
    target: Tensor
    """(record, label) float32; -1 where a label is not known."""
    whole: int
    """Records of the step over all processes."""
    known: int
    """Labels that are known of them: records x labels, but where the target holds -1."""

    @property
    def masked(self) -> bool:
        """Whether a label of the step is not known."""
        return self.known < self.whole * self.target.shape[1]


@dataclass(frozen=True, eq=False)
class Feed:
    """The training split of one fit."""

    evaluation: Evaluation
    fit: Fit
    threads: int = 1
    """That make batches; one keeps up with a CPU, a GPU needs more."""

    @cached_property
    def records(self) -> list[Record]:
        """Those that are trained on."""
        return self.evaluation.records["train"]

    @cached_property
    def target(self) -> np.ndarray:
        """(record, label) int8; -1 where a label is not known."""
        return self.evaluation.target("train", self.evaluation.task(self.fit).columns)

    def __call__(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, each made while the one before it is computed."""
        rows = steps(len(self.records), self.evaluation.training.batch, self.fit.seed, epoch)
        return prefetched(partial(self._batch, epoch=epoch), rows, self.threads)

    @property
    def per_epoch(self) -> int:
        """Records that an epoch trains on."""
        batch = min(self.evaluation.training.batch, len(self.records))
        return len(self.records) // batch * batch

    def _batch(self, rows: np.ndarray, epoch: int) -> Batch:
        contract = self.evaluation.contract
        signal = np.empty((len(rows), len(contract.leads), contract.received), np.float32)
        measured = np.empty((len(rows), len(contract.leads)), bool)
        for i, row in enumerate(rows):
            signal[i], measured[i] = self._example(self.records[row], epoch)
        target = torch.from_numpy(self.target[rows].astype(np.float32))
        known = int((self.target[rows] != UNKNOWN).sum())
        seen = torch.from_numpy(signal), torch.from_numpy(measured)
        return Batch(*seen, target, len(rows), known)

    def _example(self, record: Record, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """A window anywhere in the record, each start equally likely."""
        one, words = self.evaluation, (self.fit.seed, epoch, record.name)
        leads = bits_to_mask(np.array(one.training_leads(record, "train leads", *words)))
        policy = one.policy(one.trained(self.fit))
        signal, measured = adapt(one.view.get(record.name), leads, one.contract, policy)
        last = max(0, signal.shape[1] - one.contract.samples)
        start = rng("crop", *words).integers(last + 1, size=1)
        return cut(signal, measured, one.contract, start)[0], measured


@dataclass(kw_only=True, eq=False)
class Stepper:
    """Gradients in pieces of `micro` records, halved where memory does not suffice.

    A piece weighs as many records as it holds, so that without batch normalisation the step is that
    of the whole batch.
    """

    fabric: "Fabric"
    model: Any
    """Wrapped by Fabric."""
    module: nn.Module
    """What it wraps."""
    optimiser: torch.optim.Optimizer
    micro: int
    advance: Callable[[int], None]
    notes: list[str] = field(default_factory=list)

    def step(self, batch: Batch) -> float:
        """Make one step and return the loss of the whole batch; no step where the loss is not
        finite, or no label is known.
        """
        value = float(self._gradients(batch))
        for p in self.module.parameters():
            if p.requires_grad and p.grad is None:  # nothing of this step reached it
                p.grad = torch.zeros_like(p)
        if abs(value) < float("inf") and batch.known:
            self.optimiser.step()
        self.advance(batch.whole)
        return value

    def _gradients(self, batch: Batch) -> Tensor:
        """The loss of a batch, whose gradients are made; tried again with half the records per pass
        until it fits.
        """
        device, cuda = self.fabric.device, self.fabric.device.type == "cuda"
        buffers = [(b, b.clone()) for b in self.module.buffers()]
        random = torch.get_rng_state(), torch.cuda.get_rng_state(device) if cuda else None
        while True:
            try:
                self.optimiser.zero_grad(set_to_none=True)
                loss = torch.zeros((), device=device)
                for start in range(0, len(batch.target), self.micro):
                    loss += self._backward(batch, slice(start, start + self.micro))
                return loss
            except RuntimeError as error:
                size = min(self.micro, len(batch.target))
                if size == 1 or not out_of_memory(error):
                    raise
            # outside the handler: the traceback no longer holds what filled the memory
            self.micro = size // 2
            self.notes.append(
                f"out of memory with {size} records per pass; goes on with {self.micro}"
            )
            self.optimiser.zero_grad(set_to_none=True)
            torch.set_rng_state(random[0])
            if random[1] is not None:
                torch.cuda.set_rng_state(random[1], device)
                torch.cuda.empty_cache()
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)

    def _backward(self, batch: Batch, part: slice) -> Tensor:
        signal, measured, target = (
            t[part].to(self.fabric.device, non_blocking=True) for t in batch[:3]
        )
        logits = self.model(signal, measured).float()
        loss = summed(logits, target, batch.masked) / max(batch.known, 1)
        self.fabric.backward(loss)
        return loss.detach()
