"""From a folder of recordings and a table of labels to a card file and records.csv. Every file is
read once; one that cannot be trusted costs itself.
"""

import glob
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.cards import DatasetCard
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import own
from ecgbench.ecg.readers.layout import one_line
from ecgbench.ecg.readers.said import Said
from ecgbench.errors import BadRecord, BadSetting
from ecgbench.files import locked, put, sha256_of
from ecgbench.imported import card as cards
from ecgbench.imported import found, labels, records, splitting
from ecgbench.imported.earlier import (
    SEAL,
    Earlier,
    Order,
    demand_alike,
    different,
    earlier,
    is_there,
    joined,
)
from ecgbench.indexing.tables import alike
from ecgbench.sealed import seal
from ecgbench.stats.known import UNKNOWN
from ecgbench.text import counted

Progress = Callable[[int, int], None]
"""Called with (files read, files to read)."""


FEW_PATIENTS = 200
"""Below it a run tests every patient of an import once, by cross-validation."""


@dataclass(frozen=True)
class Seen:
    """What reading a file has shown."""

    leads: tuple[str, ...] = ()
    fs: float = 0.0
    seconds: float = 0.0
    swing: float = 0.0
    """mV between the lowest and the highest sample of the lead that swings most."""
    reason: str = ""
    """Why it cannot be used; "" where it can."""
    notes: tuple[tuple[str, str], ...] = ()
    """Of the recording: (kind, what)."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import made, and what it met."""

    order: Order
    table: pd.DataFrame
    """records.csv: every value a str, with `patient`."""
    labels: tuple[str, ...]
    splits: str
    patients_known: bool
    kept: tuple[str, ...]
    seen: dict[str, Seen]
    """Of each path of the table."""
    card: DatasetCard | None
    """The card that was there before and stays; None where it was written now."""
    added: int
    """Records that were not there before."""
    without_row: list[str]
    """Files that the table does not name."""
    without_file: int
    """Records of the table that have no file."""
    notes: list[str]


def bring(order: Order, progress: Progress | None = None) -> Imported:
    """Import the recordings of a folder; what was imported before stays as it is, new records are
    added. BadSetting or MissingData in one line where that cannot be done; nothing is written then.
    """
    if not order.folder.is_dir():
        raise BadSetting(f"there is no folder {order.folder}; give that of the recordings")
    new = not order.to.exists()
    try:
        with locked(order.to, name=""):
            return _brought(order, progress)
    except BaseException:
        with suppress(OSError):  # it is not empty
            if new:
                order.to.rmdir()
        raise


def same(order: Order) -> bool:
    """Whether an earlier import into `order.to` holds what folder and table say now: the same files
    with the same labels, patients and splits, and none that was left out was mended since. No
    recording is read.
    """
    written = order.to / records.FILE
    if not order.card.is_file() or not written.is_file():
        return False
    before = earlier(order)
    given = labels.checked(order.labels, order.columns, order.positive)
    demand_alike(order, before, given)
    table, _ = _matched(order, given, before.table)
    old = before.table.set_index("path")
    lost = [order.folder / path for path in old.index[old["left_out"] != ""]]
    parts = [part for path in lost for part in path.parent.glob(f"{glob.escape(path.stem)}.*")]
    mended = any(part.stat().st_mtime > written.stat().st_mtime for part in parts)
    return {*table["path"]} == {*old.index} and not different(table, old) and not mended


def usual_folds(card: Path) -> int | None:
    """The number of folds in which few patients are tested, each once; None where they are many,
    or where the table gave the splits.
    """
    table = records.read(str(card))
    ours = "fold" in table and card.read_text(encoding="utf-8").count('splits="ours')
    if not ours or table["patient"].nunique() >= FEW_PATIENTS:
        return None
    return min(splitting.FEW, table["fold"].astype(int).nunique())


def _brought(order: Order, progress: Progress | None) -> Imported:
    before = earlier(order) if is_there(order) else None
    stays = None if order.overwrite else before
    given = labels.checked(order.labels, order.columns, order.positive)
    if before:
        demand_alike(order, before, given)
    table, without_row = _matched(order, given, before.table if before else None)
    without_file = len(given.table) - len(table)
    notes = list(given.notes)
    if stays:
        table, more = joined(order, stays, table)
        notes += more
    said = before.module.SAID if before and order.said == Said() else order.said
    seen = _read(order.folder, table, said, progress)
    table["left_out"] = [seen[path].reason for path in table["path"]]
    _demand_usable(table)
    _demand_names_used(order.said, seen)
    if "patient" not in table:
        table["patient"] = table["record"]
    with _reasons_first(table):
        table, words = _split(order, table, given.labels, before)
        whose = order.labels.name if words == "" else "the new splits"
        splitting.demand(table[table["left_out"] == ""], given.labels, whose)
    made = Imported(
        order=order,
        table=table,
        labels=given.labels,
        splits=stays.module.CARD.splits if stays else words or f"as given in {order.labels.name}",
        patients_known=given.patients_known,
        kept=given.kept,
        seen=seen,
        card=stays.module.CARD if stays else None,
        added=len(table) - (len(stays.table) if stays else 0),
        without_row=without_row,
        without_file=without_file,
        notes=notes,
    )
    _write(made, said)
    return made


def _matched(
    order: Order, given: labels.Labels, before: pd.DataFrame | None
) -> tuple[pd.DataFrame, list[str]]:
    """The rows of the table that have a file, with `path` and a name of the record that stays what
    it was; and the files without a row.
    """
    files = found.files(order.folder, (order.labels, order.to))
    if not files:
        known = ", ".join(own.READERS)
        raise BadSetting(f"no file below {order.folder} is a recording that is read here ({known})")
    places = [f"{given.file.name}, line {line}" for line in given.table["line"]]
    records_ = list(given.table["record"])
    chosen = found.matched(records_, places, files, order.partial, order.match_zeros)
    table = given.table.assign(path=chosen).drop(columns="line")
    table = table[table["path"] != ""].reset_index(drop=True)
    old = {} if before is None else dict(zip(before["path"], before["record"]))
    new = [path for path in table["path"] if path not in old]
    names = old | dict(zip(new, found.identities(new, old.values())))
    table["record"] = table["path"].map(names)
    return table, sorted({*files} - {*chosen})


def _read(
    folder: Path, table: pd.DataFrame, said: Said, progress: Progress | None
) -> dict[str, Seen]:
    seen = {}
    for done, (record, path) in enumerate(zip(table["record"], table["path"]), 1):
        seen[path] = _seen(folder / path, record, said)
        if progress is not None:
            progress(done, len(table))
    return seen


def _seen(path: Path, record: str, said: Said) -> Seen:
    try:
        recording = own.read(path, record, "", said)
    except BadRecord as error:
        return Seen(reason=str(error).removeprefix(f"{record}: "))
    except BadSetting:  # a question about all files
        raise
    except Exception as error:  # one file never stops the others, whatever a library makes of it
        return Seen(reason=f"cannot be read ({type(error).__name__}: {one_line(error)})")
    swing = float(np.ptp(recording.signal, axis=1).max())
    leads = tuple(n for n in LEADS if n in recording.leads)
    return Seen(leads, recording.fs, recording.seconds, swing, notes=recording.notes)


@contextmanager
def _reasons_first(table: pd.DataFrame) -> Iterator[None]:
    """Where most recordings were left out, a refusal begins with why."""
    try:
        yield
    except BadSetting as error:
        lost = int((table["left_out"] != "").sum())
        if 2 * lost <= len(table):
            raise
        raise BadSetting(
            f"{lost:,} of {counted(len(table), 'recording')} cannot be used: "
            f"{'; '.join(left_out(table))}. So {error}"
        ) from None


def _demand_usable(table: pd.DataFrame) -> None:
    if (table["left_out"] == "").any():
        return
    reasons = "; ".join(left_out(table))
    hint = "no signal" in reasons or "standard lead" in reasons
    raise BadSetting(
        f"none of the {counted(len(table), 'recording')} can be used: {reasons}"
        + (" (names that mean leads can be given: --signals ch1=I,ch2=II)" if hint else "")
    )


def left_out(table: pd.DataFrame) -> list[str]:
    """Records that cannot be used, those of one kind of reason together, most first."""
    lost = table[table["left_out"] != ""]
    kinds: dict[str, list[str]] = {}
    for record, path, why in lost[["record", "path", "left_out"]].to_numpy():
        kind = re.sub(r"[\d.,]+", "#", why.replace(Path(path).name, "").replace(record, ""))
        kinds.setdefault(kind, []).append(f"{record}: {why}")
    most = sorted(kinds.values(), key=len, reverse=True)
    return [each[0] + (f" (and {len(each) - 1:,} like it)" if each[1:] else "") for each in most]


def _demand_names_used(said: Said, seen: Mapping[str, Seen]) -> None:
    """BadSetting where `--signals` is given and no file takes a name from it."""
    used = {what for one in seen.values() for kind, what in one.notes if kind == "names"}
    if said.signals and used == {"the file"}:
        raise BadSetting(
            f"--signals {','.join(said.signals)}: every file names its leads itself, so that none "
            f"takes a name from it; leave it out"
        )


def _split(
    order: Order, table: pd.DataFrame, names: tuple[str, ...], before: Earlier | None
) -> tuple[pd.DataFrame, str]:
    """The table with its folds or splits, and how they were made; "" where the table gives them."""
    homes = before.homes() if before else {}
    column = "split" if "split" in table else "fold"
    if column in table and (table[column].astype(str) != "").all():
        return table, ""
    if before and "split" in before.table:
        table["split"] = table["patient"].map(alike).map(homes).fillna("")
        if lost := list(table.loc[table["split"] == "", "record"]):
            raise BadSetting(
                f"the splits of {records.FILE} were given, and {counted(len(lost), 'new record')} "
                f"(first {lost[0]!r}) have none; add a column split to {order.labels.name}"
            )
        return table, ""
    usable = table[table["left_out"] == ""]
    count = before.module.CARD.folds if before else splitting.count(usable, names)
    known: Mapping[str, int] = {patient: int(fold) for patient, fold in homes.items()}
    # those that cannot be read move no other
    first = splitting.dealt(order.name, usable, names, count, known)
    known = dict(known) | dict(zip(map(alike, usable["patient"]), map(int, first)))
    table["fold"] = splitting.dealt(order.name, table, names, count, known)
    return table, (
        f"ours: {count} folds by patient, stratified on the labels ({count - 2} train, 1 val, "
        f"1 test)"
    )


def _write(made: Imported, said: Said) -> None:
    order, table = made.order, made.table
    column = "split" if "split" in table else "fold"
    who = ["patient"] if made.patients_known else []
    first = ["record", "path", *who, column, *made.labels]
    rest = [c for c in table.columns if c not in (*first, "patient", "left_out")]
    out = table[[*first, *rest, "left_out"]].astype(str)
    for label in made.labels:
        out[label] = out[label].replace(str(UNKNOWN), "")
    if made.card is None:
        usable = [s for s in made.seen.values() if not s.reason]
        rates = Counter(s.fs for s in usable)
        facts = cards.Found(
            name=order.name,
            labels=made.labels,
            leads=[n for n in LEADS if any(n in s.leads for s in usable)],
            fs=max(sorted(rates), key=lambda fs: rates[fs]),
            seconds=round(float(np.median([s.seconds for s in usable])), 3),
            patients_known=made.patients_known,
            splits=made.splits,
            folds=table["fold"].astype(int).nunique() if "fold" in table else 3,
            masked=bool((table[list(made.labels)] == UNKNOWN).any(axis=None)),
        )
        put(order.card, cards.text(facts, said, order.folder, order.to))
    put(order.to / records.FILE, out.to_csv(index=False, lineterminator="\n"))
    if order.strict:
        written = [order.card, order.to / records.FILE]
        seal(order.to / SEAL, {file.name: sha256_of(file) for file in written})
