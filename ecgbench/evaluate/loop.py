"""The training loop of protocols that train step by step: head, loss, epochs, and the best epoch by
validation macro AUROC.

Source: the reference benchmark's optimisation (AdamW, constant rate, BCE with logits averaged over
records and known labels, best epoch by record-level validation macro AUROC).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.core.files import lines
from ecgbench.core.seeds import rng, seed_of
from ecgbench.evaluate.protocols import Trained

Batches = Callable[[int], Iterable[tuple[Tensor, Tensor]]]
"""Epoch -> batches of (input, target (record, label) float, -1 where a label is not known)."""


@dataclass(frozen=True)
class Epoch:
    """One line of the training log."""

    epoch: int
    loss: float
    validation: float
    """Record-level macro AUROC of the validation split; NaN where no label is defined."""


def head(dim: int, labels: int, seed: int) -> nn.Linear:
    """One Linear on the pooled feature; weights and bias uniform in +-1/sqrt(dim), drawn from the
    training seed.
    """
    linear = nn.Linear(dim, labels)
    generator = torch.Generator().manual_seed(seed_of("head", seed) % 2**63)
    bound = 1 / math.sqrt(dim)
    with torch.no_grad():
        for parameter in linear.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return linear


def summed(logits: Tensor, target: Tensor, masked: bool) -> Tensor:
    """Binary cross-entropy, summed over records and labels, (record, label) both; `masked`: whether
    `target` may hold -1 where a label is not known, which then adds nothing and moves no weight.
    """
    if not masked:
        return F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
    weight = (target >= 0).to(logits.dtype)
    # a logit whose loss has the weight 0 has the gradient 0
    return F.binary_cross_entropy_with_logits(
        logits, target.clamp(min=0), weight=weight, reduction="sum"
    )


def mean(logits: Tensor, target: Tensor) -> Tensor | None:
    """Its mean over the known labels of (record, label); None where none is known."""
    known = int((target >= 0).sum())
    if known == target.numel():
        return F.binary_cross_entropy_with_logits(logits, target)
    return summed(logits, target, masked=True) / known if known else None


def train(
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    batches: Batches,
    validate: Callable[[], float],
    epochs: int,
    last: int | None = None,
) -> tuple[int, list[Epoch]]:
    """Train `module` for `epochs`; its parameters end at the best epoch (the first of equals), or
    at their mean over the `last` epochs, whatever was validated. Returns the best epoch (the last
    one where none is defined, or none chosen) and the log.
    """
    state: dict[str, Tensor] = {}
    log: list[Epoch] = []

    def learn(epoch: int) -> float:
        module.train()
        losses = []
        for x, y in batches(epoch):
            optimiser.zero_grad(set_to_none=True)
            loss = mean(module(x), y)
            if loss is None:  # of these records no label is known
                continue
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        module.eval()
        return sum(losses) / len(losses) if losses else math.nan

    averaged = 0
    for improved in rounds(log, epochs, learn, validate):
        now = {k: v.detach() for k, v in module.state_dict().items()}
        if last is None and improved:
            state = {k: v.clone() for k, v in now.items()}
        elif last is not None and len(log) > epochs - last:
            averaged += 1
            before = state or now
            state = {k: v + (now[k] - v) / averaged for k, v in before.items()}
    module.load_state_dict(state)
    return len(log) - 1 if last else best_of(log), log


def rounds(
    log: list[Epoch], epochs: int, learn: Callable[[int], float], validate: Callable[[], float]
) -> Iterator[bool]:
    """Train and validate the epochs that `log` lacks and add them; yields after each whether it is
    the best so far.

    `learn` trains one epoch and returns its mean loss.
    """
    for epoch in range(len(log), epochs):
        loss = learn(epoch)
        log.append(Epoch(epoch, loss, validate()))
        yield best_of(log) == epoch


def best_of(log: list[Epoch]) -> int:
    """The first epoch with the highest validation score, the last one where none is defined.

    >>> best_of([Epoch(0, 1.0, 0.5), Epoch(1, 1.0, 0.7), Epoch(2, 1.0, 0.7)])
    1
    """
    defined = [e for e in log if not math.isnan(e.validation)]
    return max(defined, key=lambda e: e.validation).epoch if defined else len(log) - 1


def warnings_of(log: list[Epoch], best: int) -> list[str]:
    """Warnings about a fit: whether its best epoch is among the last 5 %.

    >>> warnings_of([Epoch(i, 1.0, 0.5) for i in range(100)], 94)
    []
    >>> warnings_of([Epoch(i, 1.0, 0.5) for i in range(100)], 95)
    ['may not have converged: its best epoch is number 96 of 100']
    """
    if 20 * (best + 1) <= 19 * len(log):
        return []
    return [f"may not have converged: its best epoch is number {best + 1} of {len(log)}"]


def trained(
    head: Mapping[str, Tensor], best: int, log: list[Epoch], batch: int, **more: Any
) -> Trained:
    """The result of a training to be stored; `more`: entries of its note, or other fields of
    Trained.
    """
    chosen = log[best]
    note = {
        "batch": batch,
        "best_epoch": chosen.epoch,
        "validation": None if math.isnan(chosen.validation) else chosen.validation,
        **more.pop("note", {}),
    }
    return Trained(
        head=(head["weight"].numpy(), head["bias"].numpy()),
        files={"log.csv": lines([("epoch", "loss", "validation"), *map(astuple, log)])},
        note=note,
        warnings=warnings_of(log, best),
        summary=f"best epoch {best + 1} of {len(log)}, "
        f"validation macro {100 * chosen.validation:.1f}",
        **more,
    )


def steps(records: int, batch: int, seed: int, epoch: int) -> Iterator[np.ndarray]:
    """Rows of the shuffled batches; the last incomplete one is dropped unless it is the only
    one.
    """
    order = rng("order", seed, epoch).permutation(records)
    batch = min(batch, records)
    for start in range(0, records - batch + 1, batch):
        yield order[start : start + batch]
