"""The training loop: epochs, loss, best checkpoint by validation macro AUROC. One page, for every protocol.

Source: the reference benchmark's optimisation (AdamW, constant rate, BCE with logits averaged over records and labels, best
epoch by record-level validation macro AUROC).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Batches = Callable[[int], Iterable[tuple[Tensor, Tensor]]]
"""Epoch -> batches of (input, target (record, label) float)."""


@dataclass(frozen=True)
class Epoch:
    """One line of the training log."""

    epoch: int
    loss: float
    validation: float
    """Record-level macro AUROC of the validation split; NaN where no label is defined."""


@dataclass(frozen=True)
class Trained:
    """The best state and how it was found."""

    state: dict[str, Tensor]
    best: int
    """Epoch of the best validation score, the last epoch where none is defined."""
    log: list[Epoch]


def train(module: nn.Module, optimiser: torch.optim.Optimizer, batches: Batches, validate: Callable[[], float], epochs: int) -> Trained:
    """Train `module` for `epochs`; its parameters end at the best epoch (the first of equals)."""
    criterion = nn.BCEWithLogitsLoss()
    best, at, state, log = -math.inf, epochs - 1, _copy(module), []
    for epoch in range(epochs):
        module.train()
        losses = []
        for x, y in batches(epoch):
            optimiser.zero_grad(set_to_none=True)
            loss = criterion(module(x), y)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        module.eval()
        score = validate()
        log.append(Epoch(epoch, sum(losses) / len(losses), score))
        if score > best or (math.isinf(best) and epoch == epochs - 1):
            best, at, state = score, epoch, _copy(module)
    module.load_state_dict(state)
    return Trained(state, at, log)


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {k: v.detach().clone() for k, v in module.state_dict().items()}
