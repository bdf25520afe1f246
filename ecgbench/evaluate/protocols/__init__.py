"""The room of protocols: how a fit is trained, one file each.

A protocol says in `SETTINGS` which fields of `core.cells.Training` it uses: they are in the key of
its fits, and no other may be set. `frozen`: whether the encoder stays as it is, so that all fits
share its features. `needs(evaluation, fit)` gives the rows of work (`rows.Needed`) whose features
a fit on a frozen encoder is made of, and `fit(evaluation, fit, needed, checkpoint)` trains and
returns a `Trained`; `checkpoint` is a folder of this very fit for what must survive a kill. A
protocol may also define `facts()`, what else of its file enters the key, and `SAME_LEADS = True`
where it can fit to the leads that are tested (`Fit.shown`).

Names, settings and `frozen` are read without torch: a protocol imports it where it trains.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.core.cells import Precision, Training
from ecgbench.core.registry import Room
from ecgbench.errors import UnknownName

if TYPE_CHECKING:
    from torch import Tensor

ROOM = Room("ecgbench.evaluate.protocols", "protocol", ("SETTINGS", "frozen", "needs", "fit"))
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """What a protocol made."""

    head: tuple[np.ndarray, np.ndarray]
    """Weight (label, dim) and bias (label,)."""
    encoder: "dict[str, Tensor] | None" = None
    """State of the network where it was trained, on the CPU."""
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    """To be stored with it. `validation.parquet`, what it predicts for records that it was not
    fitted to, is made of the validation split where it is not among them.
    """
    note: dict[str, Any] = field(default_factory=dict)
    """Facts for fit.json."""
    warnings: list[str] = field(default_factory=list)
    """Warnings that belong to its numbers."""
    summary: str = ""
    """For people, as it is done."""


def facts(training: Training) -> dict[str, Any]:
    """What of a training can change a fit under its protocol, for keys. A frozen encoder's
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
    """Whether a setting is one of a protocol; of none that is not here."""
    try:
        return setting in get(name).SETTINGS
    except UnknownName:
        return False


def is_frozen(name: str) -> bool:
    """Whether a protocol leaves the encoder as it is; taken for granted of one that is not here,
    as of a run that is read without its file.
    """
    try:
        return bool(get(name).frozen)
    except UnknownName:
        return True


def of_the_encoder(training: Training) -> Precision:
    """In which a frozen encoder is asked to compute features; one that is trained is evaluated in
    float32.
    """
    return training.precision if is_frozen(training.protocol) else "float32"
