"""Protocol `linear`: one Linear on features of a frozen encoder, trained on one window per record
and epoch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ecgbench.core.cells import Training
from ecgbench.core.seeds import rng
from ecgbench.evaluate import gates, heads
from ecgbench.evaluate.loop import Trained, steps, train
from ecgbench.evaluate.predict import probabilities
from ecgbench.stats.auroc import macro_auroc


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Features of one split: all evaluation windows of its records."""

    records: list[str]
    features: np.ndarray
    """(window, dim) float32, the windows of a record one after the other."""
    owner: np.ndarray
    """(window,) which record a window belongs to, 0..n-1 ascending."""
    target: np.ndarray
    """(record, label) int8; -1 where a label is not known."""
    chosen: Callable[[int], np.ndarray] | None = None
    """Epoch -> (record,) rows of `features` that training sees, where leads are drawn anew in each
    epoch; else `one_window_each`.
    """


def fit(
    training: Training, seed: int, learn: Split, check: Split, last: int | None = None
) -> Trained:
    """Train the head on `learn`, choose the epoch on `check` (record-level macro AUROC), or take
    the mean head of the `last` epochs.
    """
    head = heads.linear(learn.features.shape[1], learn.target.shape[1], seed)
    optimiser = torch.optim.AdamW(
        head.parameters(), lr=training.lr, weight_decay=training.weight_decay
    )
    gates.each_in_one_group(head, [group["params"] for group in optimiser.param_groups])
    features, target = (
        torch.from_numpy(learn.features),
        torch.from_numpy(learn.target.astype(np.float32)),
    )

    def batches(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        chosen = torch.from_numpy(
            learn.chosen(epoch) if learn.chosen else one_window_each(learn, seed, epoch)
        )
        for rows in steps(len(target), training.batch, seed, epoch):
            yield features[chosen[rows]], target[rows]

    def validate() -> float:
        weight, bias = (p.detach().numpy() for p in (head.weight, head.bias))
        return macro_auroc(check.target, probabilities(check.features, check.owner, weight, bias))

    return train(head, optimiser, batches, validate, training.epochs, last)


def one_window_each(split: Split, seed: int, epoch: int) -> np.ndarray:
    """(record,) rows of `split.features`: one window per record, drawn from (seed, epoch,
    record).
    """
    starts = np.flatnonzero(np.diff(split.owner, prepend=-1))
    counts = np.diff(starts, append=len(split.owner))
    drawn = [
        int(rng("window", seed, epoch, r).integers(c))
        for r, c in zip(split.records, counts, strict=True)
    ]
    return np.asarray(starts + np.array(drawn))
