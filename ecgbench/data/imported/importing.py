"""Imports a folder of recordings and a table of labels as data: card.toml, records.csv and the
prepared copy (`datasets.own`). Every file is read once; an unusable one is left out.
"""

import hashlib
import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.core.files import put, sha256_of, sha256_once
from ecgbench.data.copy import Progress
from ecgbench.data.imported import corrections, labels, matching, recordings, splitting
from ecgbench.datasets import own
from ecgbench.datasets.indexing.tables import person
from ecgbench.datasets.own import Recordings
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.errors import BadRecord, BadSetting
from ecgbench.stats.known import UNKNOWN

FEW_PATIENTS = 1000
"""With fewer patients a run tests each of them once, by cross-validation: a tenth of them, the
last fold alone, would give intervals too wide for a verdict."""
OF_A_TABLE = ("columns", "patients", "split", "partial", "match_zeros")
"""Fields of an order that say how a table of labels is read."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """A request to import: recordings, their table of labels, and options for reading both."""

    folder: Path
    """Folder of the recordings."""
    labels: Path
    name: str
    """Name of the dataset and its task."""
    to: Path
    """Folder for card.toml, records.csv and the prepared copy."""
    options: ReadOptions = field(default_factory=ReadOptions)
    """What is not typed is as in the card of an earlier import."""
    columns: tuple[str, ...] = ()
    """Columns of labels; if none is named, those of 0 and 1."""
    patients: str | None = None
    """The pattern whose group is the person in a cell of patients."""
    split: str | None = None
    """The column of splits or folds, if not that of this name."""
    partial: bool = False
    """Whether to skip rows of the table without a file."""
    match_zeros: bool = False
    """Whether numbers match without their leading zeros."""
    overwrite: bool = False
    """Whether to replace an edited records.csv, or a card that cannot be read; patients stay in
    their splits.
    """

    @property
    def card(self) -> Path:
        """The card file."""
        return self.to / own.CARD

    def after(self, card: own.Card | None) -> "Order":
        """The same with what is not typed from an earlier card."""
        if card is None:
            return self
        typed = {name: value for name, value in vars(self.options).items() if value}
        table = {n: getattr(self, n) or card.typed.get(n, getattr(self, n)) for n in OF_A_TABLE}
        return replace(self, options=replace(card.options, **typed), **table)

    @property
    def typed(self) -> dict[str, Any]:
        """What was typed of the table of labels, but for what is as usual."""
        said = {name: value for name in OF_A_TABLE if (value := getattr(self, name))}
        return {"labels": str(self.labels), **said}

    def fingerprint(self) -> str:
        """A hash of all inputs, and of where the recordings are."""
        files = sorted(matching.walk(self.folder, (self.labels, self.to)))
        held = [(file.relative_to(self.folder).as_posix(), sha256_once(file)) for file in files]
        typed = {**self.typed, "labels": sha256_of(self.labels)}
        facts = [str(self.folder.resolve()), repr(self.options), typed, held]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


@dataclass(frozen=True)
class Imported:
    """The result of an import."""

    order: Order
    said: own.Card
    labelled: labels.Labels
    table: pd.DataFrame
    """records.csv: every value a str."""
    seen: recordings.Notes
    before: Recordings | None
    """The import that it corrects."""
    without_row: list[str]
    """Files that are not in the table."""
    notes: list[str]

    @property
    def usable(self) -> pd.DataFrame:
        """The rows that are not left out."""
        return self.table[self.table["left_out"] == ""]


def same(order: Order) -> bool:
    """Whether an earlier import into `order.to` has the same options, table and content of files;
    later edits stay, unless they are to be overwritten.
    """
    try:
        card = own.card(order.card)
    except BadSetting:
        return False
    if order.overwrite and corrections.edited(order.to):
        return False
    unfinished = sha256_of(order.to / own.TABLE) in ("", card.before) and card.before != card.table
    return not unfinished and card.request == order.after(card).fingerprint()


def _demand_same_study(order: Order, before: Recordings, table: pd.DataFrame) -> None:
    """BadSetting where the folder of an import is to receive the recordings of another study: none
    of its files, or those of another folder, which mostly hold something else.
    """
    source = recordings.source(order.folder, before.said, order.to, table)
    now = dict(zip(source.index["record"], map(recordings.held, source.states(source.index))))
    known = dict(zip(before.table["file"], before.table["sha256"]))
    both = [known[f] == now[r] for r, f in zip(table["record"], table["file"]) if f in known]
    elsewhere = os.path.realpath(before.root) != os.path.realpath(order.folder)
    if not both or (elsewhere and 2 * sum(both) < len(both)):
        raise BadSetting(
            f"{order.to} holds other recordings, of {before.root}, than {order.labels.name} names "
            f"in {order.folder}: {sum(both)} of {len(table):,} are the same; give another folder "
            f"(--to DIR)"
        )


def usual_folds(card: Path) -> int | None:
    """Folds of a cross-validation that tests each of few patients once; None for many patients, or
    where the table has splits.
    """
    module = own.module(card)
    table, ours = module.table, module.said.splits.startswith("ours")
    if "fold" not in table or not ours or table["patient"].nunique() >= FEW_PATIENTS:
        return None
    return min(splitting.FEW, table["fold"].astype(int).nunique())


def bring(order: Order, progress: Progress | None = None) -> Imported:
    """Import the recordings of a folder, or correct an earlier import: changes are noted, patients
    stay in their splits, and a person's lines of the card stay. BadSetting or MissingData in one
    line where that is not possible; then nothing but prepared recordings is written.
    """
    if not order.folder.is_dir():
        raise BadSetting(f"there is no folder {order.folder}; give the folder of the recordings")
    card, before = corrections.earlier(order.to, order.name, order.overwrite)
    if card and corrections.edited(order.to) and not order.overwrite:
        raise BadSetting(
            f"{order.to / own.TABLE} was edited by hand, which importing again would undo: "
            f"correct {order.labels.name} and give --overwrite, or go on with --tasks {order.card}"
        )
    order = order.after(card)
    labelled = labels.checked(order.labels, order.columns, order.patients, order.split)
    table, without_row = _matched(order, labelled)
    table["patient"] = table.get("patient", table["record"])
    said = _card(order, card, labelled)
    if before:
        _demand_same_study(order, before, table)
    copy, table, seen = recordings.read(order.folder, said, order.to, table, progress)
    table["patient"], same = recordings.joined(copy, table, labelled.labels, order.labels.name)
    notes = [*labelled.notes, *[f"the same signal, so one patient: {same}"] * bool(same)]
    try:
        table, splits = _split(order, table, labelled, before)
        splitting.demand(table[table["left_out"] == ""], labelled.labels)
    except BadSetting as error:
        why = f"; left out: {recordings.left_out(table)[0]}" if table["left_out"].any() else ""
        raise BadSetting(f"{error}{why}") from None
    made = Imported(
        order, replace(said, splits=splits), labelled, table, seen, before, without_row, notes
    )
    _write(made)
    return made


def _card(order: Order, card: own.Card | None, labelled: labels.Labels) -> own.Card:
    """The card before anything was read, with a person's lines of an earlier one."""
    here, there, options = order.folder.resolve(), order.to.resolve(), order.options
    near = here.parent == there.parent or there in here.parents or here in there.parents
    facts: dict[str, Any] = {
        "recordings": os.path.relpath(here, there) if near else str(here),  # moved together
        "fs": options.fs or 0,
        "unit": options.unit or "",
        "signals": options.signals,
        "name": order.name,
        "labels": labelled.labels,
        "patients_known": labelled.patients_known,
        "request": order.fingerprint(),
        "before": sha256_of(order.to / own.TABLE),
        "typed": order.typed,
    }
    title = order.name.replace("_", " ").capitalize()
    return replace(card, **facts) if card else own.Card(title=title, **facts)


def _matched(order: Order, labelled: labels.Labels) -> tuple[pd.DataFrame, list[str]]:
    """The rows of the table that have a file, with `file`; and the files without a row."""
    files = matching.files(order.folder, (order.labels, order.to))

    def readable(file: str) -> bool:
        try:
            own.recording(order.folder / file, file, "", order.options)
        except (BadRecord, OSError):
            return False
        return True

    lines = [f"{labelled.file.name}, line {line}" for line in labelled.table.index]
    how = files, order.partial, order.match_zeros, readable
    chosen = matching.matched([*labelled.table["record"]], lines, *how)
    table = labelled.table.assign(file=chosen)
    table = table[table["file"] != ""].reset_index(drop=True)
    table["record"] = matching.identities(table["file"])
    beside = {file.rpartition(".")[0] for file in chosen}
    return table, [file for file in files if file.rpartition(".")[0] not in beside]


def _split(
    order: Order, table: pd.DataFrame, labelled: labels.Labels, before: Recordings | None
) -> tuple[pd.DataFrame, str]:
    """The table with its folds or splits, and how they were made."""
    names, whose = labelled.labels, "patient" if labelled.patients_known else "recording"
    column = "split" if "split" in table else "fold"
    if column in table:
        return table, f"as given in {order.labels.name}"
    if before and not before.said.splits.startswith("ours"):
        raise BadSetting(
            f"the splits of {own.TABLE} were given, and {order.labels.name} gives none; add them "
            f"to it (a column split or fold)"
        )
    homes = corrections.homes(before, table) if before else {}
    usable = table[table["left_out"] == ""]
    known = {patient: int(fold) for patient, fold in homes.items()}
    count = max(known.values()) if before else splitting.count(usable, names, whose)
    # those that cannot be read move no other
    first = splitting.dealt(usable, names, count, known)
    known |= dict(zip(map(person, usable["patient"]), map(int, first)))
    table["fold"] = splitting.dealt(table, names, count, known)
    if before and table.loc[usable.index, "fold"].max() < count:
        raise BadSetting(f"no record is left in fold {count}, the test fold")
    parts = f"{count - 2} train, 1 val, 1 test"
    return table, f"ours: {count} folds by {whose}, stratified on the labels ({parts})"


def _write(made: Imported) -> None:
    """card.toml, then records.csv: after a kill in between the card names the table that is there
    as the one before, and the import is done again. Notes what changed.
    """
    to, table, labels, before = made.order.to, made.table, made.said.labels, made.before
    column = "split" if "split" in table else "fold"
    out = table.astype(str)
    out[[*labels]] = out[[*labels]].replace(str(UNKNOWN), "")
    dropped = dict[str, str]()
    if before:
        made.notes.extend(corrections.changes(before, out, labels))
        here = {*map(person, out["patient"])}
        homes = corrections.homes(before) if before.column == column else {}
        dropped = {patient: home for patient, home in homes.items() if patient not in here}
    ordered = dict.fromkeys(["record", "file", "patient", column, *labels, *out])
    csv = out[[*ordered]].to_csv(index=False, lineterminator="\n")
    known = hashlib.sha256(csv.encode()).hexdigest()
    put(to / own.CARD, replace(made.said, table=known, dropped=dropped).text)
    put(to / own.TABLE, csv)
