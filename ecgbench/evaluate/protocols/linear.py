"""Protocol `linear`: one Linear on features of a frozen encoder, trained on one window per record
and epoch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ecgbench.cards.cell import Fit, Training
from ecgbench.core.seeds import rng
from ecgbench.evaluate import rows
from ecgbench.evaluate.predict import probabilities
from ecgbench.evaluate.protocols import Trained
from ecgbench.evaluate.rows import Needed, Record
from ecgbench.stats.auroc import macro_auroc

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ecgbench.evaluate.evaluation import Evaluation
    from ecgbench.evaluate.loop import Epoch

SETTINGS = ("epochs", "lr", "weight_decay", "batch", "leads")
frozen = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Features of one split."""

    records: list[str]
    features: np.ndarray
    """(window, dim) float32, the windows of a record one after the other."""
    record_of: np.ndarray
    """(window,) which record a window belongs to, 0..n-1 ascending."""
    target: np.ndarray
    """(record, label) int8; -1 where a label is not known."""
    chosen: Callable[[int], np.ndarray] | None = None
    """Epoch -> (record,) rows of `features` that training sees, where leads are drawn anew in each
    epoch; else `one_window_each`.
    """


def needs(evaluation: "Evaluation", fit: Fit) -> Needed:
    """What is trained on, one array per epoch or one of everything, and last what is validated
    on.
    """
    learn, check = (evaluation.records[split] for split in ("train", "val"))
    validated, complete = rows.complete(evaluation.validated), rows.complete(check)
    if evaluation.training.leads == "all":
        return Needed([rows.complete(learn), validated], complete)

    def draw(record: Record, epoch: int) -> np.ndarray:
        words = fit.seed, epoch, record.name
        window = rng("window", *words).integers(record.windows, size=1)
        leads = evaluation.training_leads(record, "train leads", *words)
        return rows.encode(record.position, window, np.array([leads]))

    epochs = range(evaluation.training.epochs)
    drawn = [np.concatenate([draw(record, epoch) for record in learn]) for epoch in epochs]
    return Needed([*drawn, validated], complete)


def fit(evaluation: "Evaluation", fit: Fit, needed: Needed, checkpoint: Path) -> Trained:
    """Train the head and choose the epoch on the validation split."""
    from ecgbench.evaluate import loop

    training, columns = evaluation.training, evaluation.task(fit).columns
    cache, (*epochs, checked) = evaluation.cache(evaluation.trained(fit)), needed.drawn
    whole, chosen = epochs[0], None
    if training.leads == "random":
        whole = np.unique(np.concatenate(epochs))
        chosen = [np.searchsorted(whole, epoch) for epoch in epochs].__getitem__

    def split(name: str, wanted: np.ndarray) -> Split:
        records = evaluation.records[name]
        return Split(
            records=[r.name for r in records],
            features=cache.take(wanted),
            record_of=rows.records_of_windows(records),
            target=evaluation.target(name, columns),
            chosen=chosen if name == "train" else None,
        )

    head, best, log = train(training, fit.seed, split("train", whole), split("val", checked))
    batch = min(training.batch, len(evaluation.records["train"]))
    return loop.trained(head.state_dict(), best, log, batch)


def train(
    training: Training, seed: int, learn: Split, check: Split, last: int | None = None
) -> "tuple[nn.Linear, int, list[Epoch]]":
    """A head trained on `learn`, of the epoch that is best on `check` (record-level macro AUROC),
    or the mean head of the `last` epochs; that epoch, and the log.
    """
    import torch

    from ecgbench.evaluate import loop

    head = loop.head(learn.features.shape[1], learn.target.shape[1], seed)
    optimiser = torch.optim.AdamW(
        head.parameters(), lr=training.lr, weight_decay=training.weight_decay
    )
    features = torch.from_numpy(learn.features)
    target = torch.from_numpy(learn.target.astype(np.float32))

    def batches(epoch: int) -> "Iterator[tuple[Tensor, Tensor]]":
        chosen = torch.from_numpy(
            learn.chosen(epoch) if learn.chosen else one_window_each(learn, seed, epoch)
        )
        for part in loop.steps(len(target), training.batch, seed, epoch):
            yield features[chosen[part]], target[part]

    def validate() -> float:
        weight, bias = (p.detach().numpy() for p in (head.weight, head.bias))
        return macro_auroc(
            check.target, probabilities(check.features, check.record_of, weight, bias)
        )

    best, log = loop.train(head, optimiser, batches, validate, training.epochs, last)
    return head, best, log


def one_window_each(split: Split, seed: int, epoch: int) -> np.ndarray:
    """(record,) rows of `split.features`: one window per record, drawn from (seed, epoch,
    record).
    """
    starts = np.flatnonzero(np.diff(split.record_of, prepend=-1))
    counts = np.diff(starts, append=len(split.record_of))
    drawn = [
        int(rng("window", seed, epoch, r).integers(c))
        for r, c in zip(split.records, counts, strict=True)
    ]
    return np.asarray(starts + np.array(drawn))
