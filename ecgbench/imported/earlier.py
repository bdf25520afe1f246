"""What an earlier import left: the card and records.csv, which a person may edit, and a copy of the
table of labels as it was then (as_imported.json), by which edits are told from corrections.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from ecgbench.cards import DatasetCard
from ecgbench.ecg.readers.said import Said
from ecgbench.errors import BadSetting
from ecgbench.imported import records
from ecgbench.room import Room
from ecgbench.sealed import seal, unsealed
from ecgbench.stats.known import UNKNOWN

COPY = "as_imported.json"
State = list[list[str | int]]
"""[name, size, time, time of change, inode] of each file of a recording."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a person asks for."""

    folder: Path
    """Of the recordings."""
    labels: Path
    name: str
    """Of the dataset, its task and its card file."""
    to: Path
    """Folder that receives card file and records.csv."""
    said: Said = field(default_factory=Said)
    columns: tuple[str, ...] = ()
    """Of the table: those that are labels; where none is named, those of 0 and 1."""
    positive: str | None = None
    """The word that is the positive of a column of two words."""
    partial: bool = False
    """Whether records of the table without a file are left out."""
    match_zeros: bool = False
    """Whether a record is found where zeros in front of its number were lost."""
    elsewhere: str = "--to"
    """The option of the command that names another folder."""

    @property
    def card(self) -> Path:
        """The card file."""
        return self.to / f"{self.name}.py"


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What an earlier import left."""

    module: ModuleType | None
    """The card; None where it is gone."""
    table: pd.DataFrame
    """records.csv, every value a str; as it was written where it is gone."""
    labels: tuple[str, ...]
    """Columns of the table that are labels."""
    base: pd.DataFrame
    """What the table of labels said at that import, every value a str, with `path`."""
    written: pd.DataFrame
    """records.csv as that import wrote it."""
    contents: dict[str, str]
    """Path -> hash of what its file held; empty where that is not known."""
    states: dict[str, State]

    @property
    def patients_known(self) -> bool:
        """Whether that import knew whose a record is."""
        return "patient" in self.written if self.module is None else self.module.CARD.patients_known


def earlier(order: Order) -> Earlier | None:
    """The import to go on with, if there is one; BadSetting for a folder that holds something
    else.
    """
    there = (order.to / records.FILE).is_file()
    others = [path.name for path in sorted(order.to.glob("*.py")) if path != order.card]
    if there and others and not order.card.is_file():
        raise BadSetting(
            f"{order.to} holds the records of {others[0]}; choose another folder with "
            f"{order.elsewhere}"
        )
    copy = unsealed(order.to / COPY) or {}
    written = pd.DataFrame(copy.get("written", {}), dtype="str")
    table = records.read(str(order.card)) if there else written
    if not there and written.empty:
        return None
    module = _module(order) if order.card.is_file() and there else None
    written = table if written.empty else written
    known = tuple(n for t in module.CARD.tasks for n in t.labels) if module else ()
    return Earlier(
        module=module,
        table=table,
        labels=tuple(copy.get("labels", known)),
        base=pd.DataFrame(copy["base"], dtype="str") if copy else written,
        written=written,
        contents=copy.get("contents", {}),
        states=copy.get("states", {}),
    )
