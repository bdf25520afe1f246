"""What fine-tuning feeds: one random window of each training record per epoch, under the leads
drawn for it, a batch ahead.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ecgbench.adapters.hide import Policy, adapt, cut
from ecgbench.core.cards import InputContract, ModelCard
from ecgbench.core.cells import Training
from ecgbench.core.prefetch import prefetched
from ecgbench.core.seeds import rng
from ecgbench.ecg.draw import training_leads
from ecgbench.ecg.leads import ALL, bits_to_mask
from ecgbench.errors import BadSetting
from ecgbench.evaluate.loop import steps
from ecgbench.stats.known import UNKNOWN


@dataclass(frozen=True, kw_only=True, eq=False)
class Examples:
    """One split."""

    records: list[str]
    windows: list[int]
    """Evaluation windows of each record, at least one."""
    target: np.ndarray
    """(record, label) int8; -1 where a label is not known."""
    view: Callable[[str], np.ndarray]
    """Record -> (12, time) float32, mV at the contract's rate; called from a second thread."""
    available: Sequence[int] = ()
    """Bit mask of the leads that each record has; (): all twelve."""

    def has(self, row: int) -> int:
        """Bit mask of the leads of a record."""
        return self.available[row] if self.available else ALL.bits


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """One fine-tuning: of what, on what, and where."""

    card: ModelCard
    contract: InputContract
    policy: Policy
    """What meets absent leads."""
    training: Training
    seed: int
    learn: Examples
    check: Examples
    checkpoint: Path
    """File that is read at the start and written after every epoch; the caller removes it once the
    fit is stored.
    """
    device: str
    """"cpu", "cuda" or "cuda:1"; under torchrun each process has the device of its local rank."""
    advance: Callable[[int], None]
    """Called with the number of records that were trained on or validated; a resumed fit tells of
    those before it at once.
    """

    def leads(self, available: int, *words: str | int) -> int:
        """Bit mask of the leads that training shows of the record that `words` name, of those that
        it has.
        """
        if self.training.leads == "all":
            return available
        return training_leads(self.contract.leads, *words, available=available)


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
    """The training split of one fit; `rank` of `world` processes feeds its share of every batch."""

    task: Task
    rank: int = 0
    world: int = 1
    threads: int = 1
    """That make batches; one keeps up with a CPU, a GPU needs more."""

    def __call__(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, each made while the one before it is computed."""
        task = self.task
        rows = steps(len(task.learn.records), task.training.batch, task.seed, epoch)
        return prefetched(partial(self._batch, epoch=epoch), rows, self.threads)

    @property
    def per_epoch(self) -> int:
        """Records that an epoch trains on."""
        records = len(self.task.learn.records)
        batch = min(self.task.training.batch, records)
        return records // batch * batch

    def probe(self) -> Batch:
        """The first window of the first record with all its leads, to see which parameters a
        forward pass uses.
        """
        learn, none = self.task.learn, torch.zeros(1, self.task.learn.target.shape[1])
        signal, measured = self._input(learn.records[0], learn.has(0))
        window = cut(signal, measured, self.task.contract, np.zeros(1, int))
        return Batch(torch.from_numpy(window), torch.from_numpy(measured[None]), none, 1, 0)

    def _batch(self, rows: np.ndarray, epoch: int) -> Batch:
        mine, contract, learn = rows[self.rank :: self.world], self.task.contract, self.task.learn
        signal = np.empty((len(mine), len(contract.leads), contract.received), np.float32)
        measured = np.empty((len(mine), len(contract.leads)), bool)
        for i, row in enumerate(mine):
            signal[i], measured[i] = self._example(int(row), epoch)
        target = torch.from_numpy(learn.target[mine].astype(np.float32))
        known = int((learn.target[rows] != UNKNOWN).sum())
        return Batch(torch.from_numpy(signal), torch.from_numpy(measured), target, len(rows), known)

    def _example(self, row: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """A window anywhere in the record, each start equally likely."""
        task, contract, record = self.task, self.task.contract, self.task.learn.records[row]
        leads = task.leads(task.learn.has(row), "train leads", task.seed, epoch, record)
        signal, measured = self._input(record, leads)
        if not contract.windows(signal.shape[1]):
            raise BadSetting(
                f"record {record} has {signal.shape[1]} samples, a window {contract.samples}; "
                f"leave it out of training"
            )
        start = rng("crop", task.seed, epoch, record).integers(
            max(1, signal.shape[1] - contract.samples + 1), size=1
        )
        return cut(signal, measured, contract, start)[0], measured

    def _input(self, record: str, leads: int) -> tuple[np.ndarray, np.ndarray]:
        view, seen = self.task.learn.view(record), bits_to_mask(np.array(leads))
        return adapt(view, seen, self.task.contract, self.task.policy)
