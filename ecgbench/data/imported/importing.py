"""Imports a folder of recordings and a table of labels as a card file and records.csv. Every file
is read once; an unusable one is left out.
"""

import hashlib
import json
import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.core.files import put, put_proved, sha256_of
from ecgbench.core.text import counted
from ecgbench.data.imported import card as cards
from ecgbench.data.imported import (
    corrections,
    labels,
    matching,
    reading,
    records,
    same_signal,
    splitting,
)
from ecgbench.data.imported.corrections import COPY, Earlier
from ecgbench.data.imported.people import person
from ecgbench.data.imported.reading import Progress, Seen
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import by_suffix
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN

AS_BEFORE = f"as they were in {records.FILE}"
"""Of splits that came from an earlier table."""
FEW_PATIENTS = 1000
"""With fewer patients a run tests each of them once, by cross-validation: a tenth of them, the
last fold alone, would give intervals too wide for a verdict."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """A request to import: recordings, their table of labels, and options for reading both."""

    folder: Path
    """Folder of the recordings."""
    labels: Path
    name: str
    """Name of the dataset, its task and its card file."""
    to: Path
    """Folder for the card file and records.csv."""
    options: ReadOptions = field(default_factory=ReadOptions)
    columns: tuple[str, ...] = ()
    """Columns of labels; if none is named, those of 0 and 1."""
    positive: str | None = None
    """The word that means 1 in a column of words; all others mean 0."""
    patients: str | None = None
    """The pattern whose group is the person in a cell of patients."""
    split: str | None = None
    """The column of splits or folds, if not that of this name."""
    partial: bool = False
    """Whether to skip rows of the table without a file."""
    match_zeros: bool = False
    """Whether numbers match without their leading zeros."""
    overwrite: bool = False
    """Whether to replace edited files; patients stay in their splits."""

    @property
    def card(self) -> Path:
        """The card file."""
        return self.to / f"{self.name}.py"

    @cached_property
    def content(self) -> dict[str, str]:
        """Of all files of a recording, whose path from the folder is given without its suffix: a
        hash of what they hold.
        """
        files = sorted(matching.walk(self.folder, (self.labels, self.to)))
        held: dict[str, list[str]] = defaultdict(list)
        for file in files:
            stem = file.with_suffix("").relative_to(self.folder).as_posix()
            held[stem] += [file.suffix, sha256_of(file) if os.access(file, os.R_OK) else ""]
        return {stem: _hash_of(own) for stem, own in held.items()}

    def fingerprint(self) -> str:
        """A hash of all inputs."""
        matched = self.partial, self.match_zeros
        read = self.options, self.columns, self.positive, self.patients, self.split
        how = repr((*read, *matched))
        rests_on = [str(self.folder.resolve()), sha256_of(self.labels), how, self.content]
        return _hash_of(rests_on)


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The result of an import."""

    order: Order
    table: pd.DataFrame
    """records.csv: every value a str, with `patient`."""
    labels: tuple[str, ...]
    splits: str
    patients_known: bool
    others: tuple[str, ...]
    seen: dict[str, Seen]
    """By path in the table."""
    added: int | None
    """Number of new records; None for a first import."""
    without_row: list[str]
    """Files that are not in the table."""
    without_file: int
    """Number of rows without a file."""
    notes: list[str]

    @property
    def usable(self) -> pd.DataFrame:
        """The rows that are not left out."""
        return self.table[self.table["left_out"] == ""]


def same(order: Order) -> bool:
    """Whether an earlier import into `order.to` has the same options, table and content of files;
    later edits stay.
    """
    return corrections.restored(order.to).get("request") == order.fingerprint()


def _hash_of(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _demand_same_study(order: Order, before: Earlier) -> None:
    """BadSetting where the folder of an import is to receive the recordings of another study: of
    another folder, whose files of the same names mostly hold something else.
    """
    known = before.copy.get("content", {})
    common = known.keys() & order.content.keys()
    same_ones = sum(known[stem] == order.content[stem] for stem in common)
    was = before.copy.get("folder", str(order.folder.resolve()))
    if was != str(order.folder.resolve()) and common and 2 * same_ones < len(common):
        raise BadSetting(
            f"{order.to} holds the recordings of {was}; those in {order.folder} have the same "
            f"names and other content, so they are another study: give another folder (--to DIR)"
        )


def usual_folds(card: Path) -> int | None:
    """Folds of a cross-validation that tests each of few patients once; None for many patients, or
    where the table has splits.
    """
    table = records.read(str(card))
    ours = "fold" in table and "splits='ours" in card.read_text(encoding="utf-8")
    if not ours or table["patient"].nunique() >= FEW_PATIENTS:
        return None
    return min(splitting.FEW, table["fold"].astype(int).nunique())


def bring(order: Order, progress: Progress | None = None) -> Imported:
    """Import the recordings of a folder, or correct an earlier import: changes are noted, patients
    stay in their splits, and edits of the card stay. BadSetting or MissingData in one line where
    that is not possible; then nothing is written.
    """
    if not order.folder.is_dir():
        raise BadSetting(f"there is no folder {order.folder}; give the folder of the recordings")
    before = corrections.earlier(order.to, order.card, order.overwrite)
    if before and records.FILE in corrections.edited(order.to) and not order.overwrite:
        raise BadSetting(
            f"{order.to / records.FILE} was edited by hand, which importing again would undo: "
            f"correct {order.labels.name} and give --overwrite, or go on with --tasks {order.card}"
        )
    if before:
        _demand_same_study(order, before)
    typed = order.columns, order.positive, order.patients, order.split
    labelled = labels.checked(order.labels, *typed)
    options = order.options
    if before and before.module and options == ReadOptions():
        options = before.module.OPTIONS
    table, without_row = _matched(order, labelled, before.table if before else None, options)
    without_file = len(labelled.table) - len(table)
    if "patient" not in table:
        table["patient"] = table["record"]
    seen = reading.read(order.folder, table, options, progress)
    table["left_out"] = [seen[path].reason for path in table["path"]]
    reading.demand_usable(table)
    notes = [*labelled.notes]
    if found := same_signal.pairs(order.folder, table, seen, options):
        same_signal.demand_agreement(table, found, labelled.labels, order.labels.name)
        notes.append(same_signal.said(table, found))
        table["patient"] = same_signal.patients(table, found)
    try:
        table, splits = _split(order, table, labelled, before)
        splitting.demand(table[table["left_out"] == ""], labelled.labels)
    except BadSetting as error:
        why = f"; left out: {reading.left_out(table)[0]}" if table["left_out"].any() else ""
        anew = "; another folder (--to DIR) deals the patients anew" if before else ""
        raise BadSetting(f"{error}{anew}{why}") from None
    made = Imported(
        order=order,
        table=table,
        labels=labelled.labels,
        splits=splits,
        patients_known=labelled.patients_known,
        others=labelled.others,
        seen=seen,
        added=len({*table["path"]} - {*before.table["path"]}) if before else None,
        without_row=without_row,
        without_file=without_file,
        notes=notes,
    )
    _write(made, options, before)
    return made


def _matched(
    order: Order, labelled: labels.Labels, before: pd.DataFrame | None, options: ReadOptions
) -> tuple[pd.DataFrame, list[str]]:
    """The rows of the table that have a file, with `path` and a name of the record that stays what
    it was; and the files without a row.
    """
    names = list(labelled.table["record"])
    files = matching.files(order.folder, (order.labels, order.to))
    if not files:
        known = ", ".join(by_suffix.READERS)
        raise BadSetting(f"no file below {order.folder} has the suffix of a recording ({known})")
    lines = [f"{labelled.file.name}, line {line}" for line in labelled.table.index]
    chosen = matching.matched(
        names,
        lines,
        files,
        order.partial,
        order.match_zeros,
        lambda file: not reading.look(order.folder / file, options).reason,
    )
    table = labelled.table.assign(path=chosen)
    table = table[table["path"] != ""].reset_index(drop=True)
    old = {} if before is None else dict(zip(before["path"], before["record"]))
    old = {path: record for path, record in old.items() if path in {*chosen}}
    if before is not None and not old:
        raise BadSetting(
            f"{records.FILE} holds other recordings, none of which {labelled.file.name} names in "
            f"{order.folder}; import into another folder (--to DIR)"
        )
    new = [path for path in table["path"] if path not in old]
    table["record"] = table["path"].map(
        old | dict(zip(new, matching.identities(new, old.values())))
    )
    beside = {path.rpartition(".")[0] for path in chosen}
    return table, [file for file in files if file.rpartition(".")[0] not in beside]


def _split(
    order: Order, table: pd.DataFrame, labelled: labels.Labels, before: Earlier | None
) -> tuple[pd.DataFrame, str]:
    """The table with its folds or splits, and how they were made."""
    names, whose = labelled.labels, "patient" if labelled.patients_known else "recording"
    column = "split" if "split" in table else "fold"
    if column in table and (table[column].astype(str) != "").all():
        return table, f"as given in {order.labels.name}"
    homes = before.homes(table) if before else {}
    if before and before.column == "split":
        table["split"] = table["patient"].map(person).map(homes).fillna("")
        if lost := list(table.loc[table["split"] == "", "record"]):
            raise BadSetting(
                f"the splits of {records.FILE} were given, and {counted(len(lost), 'new record')} "
                f"(first {lost[0]!r}) have none; add a column split to {order.labels.name}"
            )
        return table, AS_BEFORE
    usable = table[table["left_out"] == ""]
    known = {patient: int(fold) for patient, fold in homes.items()}
    count = max(known.values()) if before else splitting.count(usable, names, whose)
    # those that cannot be read move no other
    first = splitting.dealt(order.name, usable, names, count, known)
    known |= dict(zip(map(person, usable["patient"]), map(int, first)))
    table["fold"] = splitting.dealt(order.name, table, names, count, known)
    if before and table.loc[usable.index, "fold"].max() < count:
        raise BadSetting(f"no record is left in fold {count}, the test fold")
    if before and before.module and not before.module.CARD.splits.startswith("ours"):
        return table, AS_BEFORE
    return table, (
        f"ours: {count} folds by {whose}, stratified on the labels ({count - 2} train, 1 val, "
        f"1 test)"
    )


def _write(made: Imported, options: ReadOptions, before: Earlier | None) -> None:
    """A copy of all, which tells edits from corrections, then card and records.csv, which
    `corrections.restored` writes after a kill in between; and the notes of what changed.
    """
    order, table = made.order, made.table
    column = "split" if "split" in table else "fold"
    named = made.patients_known or (table["patient"] != table["record"]).any()
    first = ["record", "path", *(["patient"] if named else []), column, *made.labels]
    out = corrections.texts(table, made.labels)
    homes = dict(zip(map(person, out["patient"]), out[column]))
    text = new = cards.text(_facts(made), options, order.folder, order.to)
    if before:
        made.notes.extend(corrections.changes(before, out, made.labels))
        homes = (before.homes() if before.column == column else {}) | homes
    if order.card.is_file():
        now, base = (
            order.card.read_text(encoding="utf-8"),
            before.copy.get("card") if before else "",
        )
        if order.overwrite:  # of a card of another version, which cannot be kept, edits are shown
            lost = before is not None and before.module is None and now != base
        else:
            text, lost = corrections.card(base or "", now, new)
        if lost:
            put(order.card.with_suffix(".py.old"), now)
            made.notes.append(f"{order.card.name} is written anew; was: {order.card.name}.old")
    rest = [c for c in out if c not in (*first, "patient", "left_out")]
    csv = out[[*first, *rest, "left_out"]].to_csv(index=False, lineterminator="\n")
    files = {records.FILE: csv, order.card.name: text}
    copy = {
        "column": column,
        "homes": homes,
        "labels": list(made.labels),
        "card": new,
        "files": files,
        "before": {name: corrections.text_of(order.to / name) for name in files},
        "request": order.fingerprint(),
        "folder": str(order.folder.resolve()),
        "content": order.content,
    }
    put_proved(order.to / COPY, copy)
    for name, content in files.items():
        put(order.to / name, content)


def _facts(made: Imported) -> dict[str, object]:
    """What the card says of the recordings."""
    table, usable = made.table, [s for s in made.seen.values() if not s.reason]
    rates = Counter(s.fs for s in usable)
    return {
        "name": made.order.name,
        "labels": made.labels,
        "leads": tuple(n for n in LEADS if any(n in s.leads for s in usable)),
        "fs": max(sorted(rates), key=lambda fs: rates[fs]),
        "seconds": round(float(np.mean([s.seconds for s in usable])), 3),
        "patients_known": made.patients_known,
        "splits": made.splits,
        "folds": int(table["fold"].astype(int).max()) if "fold" in table else 3,
        "masked": bool((table[list(made.labels)] == UNKNOWN).any(axis=None)),
    }
