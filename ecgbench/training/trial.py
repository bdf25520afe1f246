"""How long a model takes on this machine: a few random records through the very functions that a run will call."""

import copy
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from ecgbench.cells import Training
from ecgbench.ecg.leads import ALL, LEADS
from ecgbench.inference.encode import Encoder
from ecgbench.inference.network import Network
from ecgbench.seeds import rng
from ecgbench.training import finetune, linear

Wanted = Mapping[int, np.ndarray]
"""Bit mask of measured leads -> evaluation windows of one record."""

BUDGET = 5.0
"""Seconds that one of these measurements aims at, where a single record does not take longer."""
MOST = 12
"""Lead sets per trial record of an encoder for which each of them is a pass of its own."""
VALIDATED = 6
"""Validation records of a trial of fine-tuning."""
HEAD_RECORDS = 1000
"""Training records of a trial of a linear head, at most."""


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Seconds of the parts of fine-tuning."""

    record: float
    """One training record, forward and backward."""
    step: float
    """One step of the optimiser."""
    validated: float
    """One validation record, all of its windows."""
    epoch: float
    """What an epoch needs besides: its checkpoint."""

    def fit(self, training: Training, learn: int, check: int) -> float:
        """A whole fit on `learn` training and `check` validation records."""
        batch = min(training.batch, learn)
        return training.epochs * (learn // batch * (batch * self.record + self.step) + check * self.validated + self.epoch)


def signal(samples: int, *words: str | int) -> np.ndarray:
    """(12, samples) float32: noise of 0.3 mV."""
    return (0.3 * rng("trial", *words).standard_normal((len(LEADS), samples))).astype(np.float32)


def encoding(encoder: Encoder, samples: int, asked: Sequence[Wanted]) -> float:
    """Seconds per record of `samples` under the lead sets of `asked`, one entry per trial record, as many as the budget allows."""
    encoder(signal(samples, "warm"), asked[0] if encoder.shares_embeddings else dict([next(iter(asked[0].items()))]))
    begun, spent = time.perf_counter(), []
    for i, wanted in enumerate(asked):
        part = wanted if encoder.shares_embeddings else _some(wanted, i)
        view, started = signal(samples, i), time.perf_counter()
        encoder(view, part)
        spent.append((time.perf_counter() - started) * _windows(wanted) / _windows(part))
        if time.perf_counter() - begun > BUDGET:
            break
    return float(np.mean(spent))


def _some(wanted: Wanted, i: int) -> Wanted:
    masks = list(wanted)
    return {masks[j]: wanted[masks[j]] for j in rng("trial masks", i).permutation(len(masks))[:MOST]}


def _windows(wanted: Wanted) -> int:
    return sum(len(w) for w in wanted.values())


def tuning(network: Network, fed: finetune.Feeding, training: Training, samples: int, labels: int) -> Tuning:
    """Two epochs of four passes over random records of `samples`, the second one timed; nothing of it is kept."""
    on_gpu, windows = network.device != "cpu", fed.contract.windows(samples)
    size = training.micro_batch or training.batch
    size = size if on_gpu else min(size, max(1, int(2 * BUDGET / (8 * 3.5 * _pass(network, fed)))))
    short = replace(training, epochs=2, batch=size if on_gpu else 2 * size, micro_batch=size)
    parts = [_examples(name, n, windows, samples, labels) for name, n in (("train", 4 * size), ("val", VALIDATED))]
    marks: list[float] = []

    def advance(records: int) -> None:
        if records:
            marks.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        place = finetune.Place(checkpoint=Path(folder) / "checkpoint", device=network.device, advance=advance)
        finetune.fit(copy.deepcopy(network.module), fed, short, 0, (parts[0], parts[1]), place)
    *_, before = marks[: 4 + VALIDATED]
    first, *rest = marks[4 + VALIDATED :]
    gaps = np.diff([first, *rest])
    one = float(gaps[:3].mean()) if on_gpu else float(gaps[[0, 2]].mean())
    step = 0.0 if on_gpu else max(0.0, float(gaps[1]) - one)
    return Tuning(record=one / size, step=step, validated=float(gaps[4:].mean()), epoch=max(0.0, first - before - one))


def _pass(network: Network, fed: finetune.Feeding) -> float:
    """Seconds of one window with all leads, the faster of two passes."""
    encoder, spent = Encoder(network.encoder, fed.contract, fed.policy, singly=True), []
    for i in range(2):
        started = time.perf_counter()
        encoder(signal(fed.contract.samples, i), {ALL.bits: np.arange(1)})
        spent.append(time.perf_counter() - started)
    return min(spent)


def _examples(split: str, count: int, windows: int, samples: int, labels: int) -> finetune.Examples:
    target = rng("trial", split).integers(2, size=(count, labels)).astype(np.int8)
    target[0], target[-1] = 0, 1
    made = {f"{split}{i}": signal(samples, split, i) for i in range(count)}
    return finetune.Examples(records=list(made), windows=[windows] * count, target=target, view=made.__getitem__)


def probing(training: Training, shape: tuple[int, int], windows: int, sizes: tuple[int, int]) -> float:
    """Seconds of one linear fit; `shape`: width of a feature and labels, `sizes`: training and validation records."""
    share = min(1.0, HEAD_RECORDS / max(sizes))
    learn, check = (_split(f"{split} head", max(2, round(share * n)), windows, shape) for split, n in zip(("train", "val"), sizes))
    spent = []
    with torch.random.fork_rng(devices=[]):
        for epochs in (1, 1, 5):  # the first warms up
            started = time.perf_counter()
            linear.fit(replace(training, epochs=epochs), 0, learn, check)
            spent.append(time.perf_counter() - started)
    return max(0.0, spent[2] - spent[1]) / 4 * training.epochs / share


def _split(name: str, count: int, windows: int, shape: tuple[int, int]) -> linear.Split:
    drawn, owner = rng("trial", name), np.repeat(np.arange(count), windows)
    target = drawn.integers(2, size=(count, shape[1])).astype(np.int8)
    features = drawn.standard_normal((count * windows, shape[0]), np.float32)
    return linear.Split(records=[f"{name}{i}" for i in range(count)], features=features, owner=owner, target=target)
