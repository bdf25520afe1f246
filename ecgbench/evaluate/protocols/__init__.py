"""The room of protocols: how a fit is trained, one file each.

A protocol says in `SETTINGS` which fields of `cards.cell.Training` it uses: they are in the key of
its fits, and no other may be set. `frozen`: whether the encoder stays as it is, so that all fits
share its features. `needs(evaluation, fit)` gives the rows of work (`rows.Needed`) whose features
a fit on a frozen encoder is made of, and `fit(evaluation, fit, needed, checkpoint)` trains and
returns a `Trained`; `checkpoint` is a folder of this very fit for what must survive a kill. A
protocol may also define `facts()`, what else of its file enters the key, `of_the_fit(evaluation,
fit)`, what else of a model and a task does, `refuses(card, weights, task)`, a sentence where it is
not for a model and a task, `SAME_LEADS = True` where it can fit to the leads that are tested
(`Fit.shown`), and `LEARNS = False` where it uses no training record.

Names, settings and `frozen` are read without torch: a protocol imports it where it trains.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.cards.cell import Precision, Training
from ecgbench.cards.dataset import Task
from ecgbench.cards.model import ModelCard
from ecgbench.contracts import TrainingProtocol
from ecgbench.core.registry import Room
from ecgbench.errors import UnknownName

if TYPE_CHECKING:
    from torch import Tensor

ROOM = Room("ecgbench.evaluate.protocols", "protocol", TrainingProtocol)
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """The result of a training."""

    head: tuple[np.ndarray, ...]
    """Weight (label, dim) and bias (label,), NaN for a label that it does not know; or what a
    softmax is made of (see `predict.probabilities`).
    """
    encoder: "dict[str, Tensor] | None" = None
    """State of a trained network, on the CPU."""
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    """Files to store with it. `validation.parquet`, predictions for records that it was not fitted
    to, is made from the validation split if it is not among them.
    """
    note: dict[str, Any] = field(default_factory=dict)
    """Facts for fit.json."""
    warnings: list[str] = field(default_factory=list)
    """Warnings that belong to its numbers."""
    summary: str = ""
    """One line for people."""


def facts(training: Training) -> dict[str, Any]:
    """Settings of a training that can change a fit under its protocol, for keys. A frozen encoder's
    precision is among the facts of its features.
    """
    protocol = get(training.protocol)
    source = ROOM.source_hash(training.protocol)
    return {
        "protocol": training.protocol,
        **{name: getattr(training, name) for name in protocol.SETTINGS},
        **getattr(protocol, "facts", dict)(),
        **({"protocol_source": source} if source else {}),
    }


def uses(name: str, setting: str) -> bool:
    """Whether a protocol uses a setting; not for a protocol that is not here."""
    try:
        return setting in get(name).SETTINGS
    except UnknownName:
        return False


def learns(name: str) -> bool:
    """Whether a protocol uses training records; assumed for one that is not here."""
    try:
        return bool(getattr(get(name), "LEARNS", True))
    except UnknownName:
        return True


def refuses(name: str, card: ModelCard, weights: str, task: Task) -> str:
    """Why a protocol is not for a model with these weights on a task; "" where it is."""
    return str(getattr(get(name), "refuses", lambda *_: "")(card, weights, task))


def is_frozen(name: str) -> bool:
    """Whether a protocol leaves the encoder unchanged; assumed for one that is not here, as when a
    run is read without its file.
    """
    try:
        return bool(get(name).frozen)
    except UnknownName:
        return True


def of_the_encoder(training: Training) -> Precision:
    """Precision of a frozen encoder's features; a trained encoder is evaluated in float32."""
    return training.precision if is_frozen(training.protocol) else "float32"
