"""What an earlier import left, and a person may have edited: it stays; new records are added."""

import os
import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pandas as pd

from ecgbench.cards import DatasetCard
from ecgbench.ecg.readers.said import Said
from ecgbench.errors import BadSetting
from ecgbench.files import sha256_of
from ecgbench.imported import labels, records
from ecgbench.indexing.tables import alike
from ecgbench.room import Room
from ecgbench.sealed import unsealed
from ecgbench.stats.known import UNKNOWN
from ecgbench.text import counted, quoted

SEAL = "as_written.json"
"""Holds the hashes of what an import into a run's folder wrote."""


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
    partial: bool = False
    """Whether records of the table without a file are left out."""
    overwrite: bool = False
    """Whether card and table are written anew; patients stay in their splits."""
    strict: bool = False
    """Whether what differs from an earlier import is refused, as a run must not go on with it."""

    @property
    def card(self) -> Path:
        """The card file."""
        return self.to / f"{self.name}.py"


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What an earlier import left, and a person may have edited."""

    module: ModuleType
    table: pd.DataFrame

    @property
    def known(self) -> bool:
        """Whether the table names patients."""
        return bool(self.module.CARD.patients_known)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of its tasks, as the card has them."""
        return tuple(dict.fromkeys(n for t in self.module.CARD.tasks for n in t.labels))

    def homes(self) -> dict[str, str]:
        """Patient -> fold or split."""
        column = "fold" if "fold" in self.table else "split"
        return dict(zip(map(alike, self.table["patient"]), self.table[column]))


def is_there(order: Order) -> bool:
    """Whether there is an earlier import to go on with; BadSetting for a folder that holds
    something else.
    """
    others = [path.name for path in sorted(order.to.glob("*.py")) if path != order.card]
    table = order.to / records.FILE
    if table.is_file() and others and not order.card.is_file():
        raise BadSetting(
            f"{order.to} holds the records of {others[0]}; give another folder with --to, or "
            f"--name {Path(others[0]).stem}"
        )
    if order.card.is_file() != table.is_file():
        there, lost = (order.card, table) if order.card.is_file() else (table, order.card)
        if not order.overwrite:
            raise BadSetting(
                f"there is a file {there} and no {lost.name}; import into another folder with "
                f"--to, or write it anew with --overwrite"
            )
        return False
    return table.is_file()


def _demand_as_written(order: Order) -> None:
    """BadSetting where a run's own import is not as it was written: nobody edits it there, as a
    person may edit what `ecgbench import` wrote.
    """
    for name, sha256 in (unsealed(order.to / SEAL) or {}).items():
        now = ""
        with suppress(OSError):
            now = sha256_of(order.to / name)
        if now != sha256:
            raise BadSetting(
                f"{order.to / name} is not what the run wrote; remove the folder {order.to} and "
                f"give the same command again, or give --tasks {quoted(order.card)} in place of "
                f"--records to use it as it is"
            )


def earlier(order: Order) -> Earlier:
    """The card file and the table that are there; BadSetting where they are of no import, or, in a
    run's folder, are not what was written.
    """
    if order.strict:
        _demand_as_written(order)
    room = Room("ecgbench.datasets", "dataset", ("CARD", "index", "read"), DatasetCard)
    try:
        module = room.get(str(order.card))
        card_file = str(module.__file__)
    finally:
        room.forget()
    if not hasattr(module, "RECORDINGS") or not hasattr(module, "SAID"):
        raise BadSetting(
            f"{order.card} is no card of an import; give another folder with --to, or another "
            f"--name"
        )
    return Earlier(module=module, table=records.read(card_file))


def demand_alike(order: Order, before: Earlier, given: labels.Labels) -> None:
    """BadSetting where an earlier import is of another kind than this one."""
    place = order.card.parent / Path(before.module.RECORDINGS).expanduser()
    if place.resolve() != order.folder.resolve():
        raise BadSetting(
            f"the recordings of {order.card} are in {os.path.abspath(place)}, not in "
            f"{order.folder}; correct RECORDINGS in it, or import into another folder with --to"
        )
    if order.overwrite:
        return
    anew = "or write card and table anew: --overwrite (patients stay in their splits)"
    if order.said not in (Said(), before.module.SAID):
        raise BadSetting(
            f"{order.card} has other settings of files, {before.module.SAID}; correct SAID in it, "
            f"{anew}"
        )
    if odd := sorted({*given.labels} ^ {*before.labels}):
        who, lacks = (
            (given.file.name, order.card.name)
            if odd[0] in given.labels
            else (order.card.name, given.file.name)
        )
        raise BadSetting(f"{who} has the label {odd[0]!r}, {lacks} has not; correct it, {anew}")
    if given.patients_known != before.known:
        both = [given.file.name, records.FILE]
        who, lacks = both if given.patients_known else both[::-1]
        raise BadSetting(f"{who} names patients and {lacks} does not; correct it, {anew}")
    if ("fold" in before.table) != ("fold" in given.table) and {"fold", "split"} & {*given.table}:
        raise BadSetting(
            f"{given.file.name} gives other splits than {records.FILE} has (folds in one, words in "
            f"the other); leave that column out, {anew}"
        )


def joined(order: Order, before: Earlier, table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows that were there before, as they are, and the new ones; what differs is told."""
    old = before.table.drop(columns="left_out")
    old = old if before.known else old.drop(columns="patient")
    notes = []
    if odd := different(table, old.set_index("path")):
        words = [order.folder, "--labels", order.labels, "--name", order.name, "--to", order.to]
        anew = f"ecgbench data import {shlex.join(map(str, words))} --overwrite"
        said = f"{counted(len(odd), 'record')} of {records.FILE} differ from the table ({odd[0]})"
        if order.strict:
            raise BadSetting(f"{said}; correct the table, or take it as it is now: {anew}")
        notes.append(f"{said}; {records.FILE} keeps its own; this takes the table's: {anew}")
    numbers = old.copy()
    for label in before.labels:
        numbers[label] = records.values(old, label)
    new = table[~table["path"].isin(old["path"])]
    return pd.concat([numbers, new], ignore_index=True).fillna(""), notes


def different(table: pd.DataFrame, old: pd.DataFrame) -> list[str]:
    """What the table says otherwise than records.csv of the records that both have."""
    columns = [c for c in table.columns if c in old.columns and c != "record"]
    found = []
    for row in table[table["path"].isin(old.index)].to_dict("records"):
        for column in columns:
            now, was = str(row[column]), str(old.at[row["path"], column])
            if now.removeprefix(str(UNKNOWN)) != was and alike(now) != alike(was):
                found.append(f"{row['record']}: {column} is {was or 'empty'}, there {now}")
                break
    return found
