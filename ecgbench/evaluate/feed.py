"""What fine-tuning feeds: one random window of each training record per epoch, under the leads
drawn for it, a batch ahead.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ecgbench.adapters.hide import adapt, cut
from ecgbench.core.cells import Fit
from ecgbench.core.prefetch import prefetched
from ecgbench.core.seeds import rng
from ecgbench.ecg.leads import bits_to_mask
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.evaluate.loop import steps
from ecgbench.evaluate.rows import Record
from ecgbench.stats.known import UNKNOWN


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

    evaluation: Evaluation
    fit: Fit
    rank: int = 0
    world: int = 1
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

    def probe(self) -> tuple[Tensor, Tensor]:
        """Signal and measured leads of the first window of the first record with all its leads, to
        see which parameters a forward pass uses.
        """
        record = self.records[0]
        signal, measured = self._input(record, record.available)
        window = cut(signal, measured, self.evaluation.contract, np.zeros(1, int))
        return torch.from_numpy(window), torch.from_numpy(measured[None])

    def _batch(self, rows: np.ndarray, epoch: int) -> Batch:
        mine, contract = rows[self.rank :: self.world], self.evaluation.contract
        signal = np.empty((len(mine), len(contract.leads), contract.received), np.float32)
        measured = np.empty((len(mine), len(contract.leads)), bool)
        for i, row in enumerate(mine):
            signal[i], measured[i] = self._example(self.records[row], epoch)
        target = torch.from_numpy(self.target[mine].astype(np.float32))
        known = int((self.target[rows] != UNKNOWN).sum())
        seen = torch.from_numpy(signal), torch.from_numpy(measured)
        return Batch(*seen, target, len(rows), known)

    def _example(self, record: Record, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """A window anywhere in the record, each start equally likely."""
        contract, words = self.evaluation.contract, (self.fit.seed, epoch, record.name)
        leads = self.evaluation.training_leads(record, "train leads", *words)
        signal, measured = self._input(record, leads)
        last = max(0, signal.shape[1] - contract.samples)
        start = rng("crop", *words).integers(last + 1, size=1)
        return cut(signal, measured, contract, start)[0], measured

    def _input(self, record: Record, leads: int) -> tuple[np.ndarray, np.ndarray]:
        one, seen = self.evaluation, bits_to_mask(np.array(leads))
        policy = one.policy(one.trained(self.fit))
        return adapt(one.view.get(record.name), seen, one.contract, policy)
