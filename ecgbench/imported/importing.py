"""From a folder of recordings and a table of labels to a card file and records.csv. Every file is
read once; one that cannot be trusted costs itself.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.cards import DatasetCard
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import own
from ecgbench.ecg.readers.said import Said
from ecgbench.errors import BadRecord, BadSetting
from ecgbench.files import locked, put, sha256_of
from ecgbench.imported import card as cards
from ecgbench.imported import corrections, found, labels, records, splitting
from ecgbench.imported.earlier import (
    COPY,
    Earlier,
    Order,
    content,
    earlier,
    files_of,
    request,
)
from ecgbench.indexing.tables import alike
from ecgbench.sealed import seal, unsealed
from ecgbench.stats.known import UNKNOWN
from ecgbench.text import counted

AS_BEFORE = f"as they were in {records.FILE}"
"""Of splits that a table gave once."""
Progress = Callable[[int, int], None]
"""Called with (files read, files to read)."""


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
    """Import the recordings of a folder, or correct what was imported before: what changed is
    noted, patients stay in their splits, and so does what a person edited. BadSetting or
    MissingData in one line where that cannot be done; nothing is written then.
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
    """Whether an earlier import into `order.to` rests on the same options, table and files, and
    nobody edited what it wrote. No recording is read.
    """
    copy = unsealed(order.to / COPY) or {"before": True}
    return not copy["before"] and copy["request"] == request(order)


def _brought(order: Order, progress: Progress | None) -> Imported:
    before = earlier(order)
    given = labels.checked(order.labels, order.columns, order.positive)
    table, without_row = _matched(order, given, before.table if before else None)
    without_file = len(given.table) - len(table)
    if "patient" not in table:
        table["patient"] = table["record"]
    theirs, notes = corrections.texts(table, given.labels), [*given.notes]
    said = order.said
    if before:
        _demand_of_these(order, before, table)
        table, edits = corrections.merged(before, theirs, order.labels.name, order.overwrite)
        for label in given.labels:
            table[label] = records.values(table, label)
        notes += edits
        if before.module and said == Said():
            said = before.module.SAID
    seen = _read(order.folder, table, said, progress)
    table["left_out"] = [seen[path].reason for path in table["path"]]
    _demand_usable(table)
    contents = {p: content(f) for p, f in files_of(order.folder, table["path"]).items()}
    if before:
        _leave_out_by_hand(before, table)
    table, words = _split(order, table, given.labels, before, contents)
    usable = table[table["left_out"] == ""]
    try:
        splitting.demand(usable, given.labels, order.labels.name if words == "" else "the splits")
    except BadSetting as error:
        lacking = list(corrections.not_scored(usable, given.labels))[-2:] if before else []
        raise BadSetting("; ".join([str(error), *lacking])) from None
    known = given.patients_known or bool((table["patient"] != table["record"]).any())
    made = Imported(
        order=order,
        table=table,
        labels=given.labels,
        splits=words or f"as given in {order.labels.name}",
        patients_known=known,
        kept=given.kept,
        seen=seen,
        card=before.module.CARD if before and before.module and not order.overwrite else None,
        added=len({*table["path"]} - {*(before.table["path"] if before else ())}),
        without_row=without_row,
        without_file=without_file,
        notes=notes,
    )
    _write(made, said, before, theirs, contents)
    return made


def _demand_of_these(order: Order, before: Earlier, table: pd.DataFrame) -> None:
    if not {*before.table["path"]} & {*table["path"]}:
        raise BadSetting(
            f"{order.to} holds the records of other recordings ({before.table['path'].iloc[0]} and "
            f"others), none of which {order.labels.name} names in {order.folder}; import into "
            f"another folder with --to"
        )


def _leave_out_by_hand(before: Earlier, table: pd.DataFrame) -> None:
    """Reasons that a person wrote into records.csv stay."""
    read = before.copy.get("left_out", {})
    for path, reason in zip(before.table["path"], before.table["left_out"]):
        if before.copy and reason and read.get(path, "") != reason:
            row = (table["path"] == path) & (table["left_out"] == "")
            table.loc[row, "left_out"] = reason


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
    names = list(given.table["record"])
    chosen = found.matched(names, places, files, order.partial, order.match_zeros)
    table = given.table.assign(path=chosen).drop(columns="line")
    table = table[table["path"] != ""].reset_index(drop=True)
    old = {} if before is None else dict(zip(before["path"], before["record"]))
    old = {path: record for path, record in old.items() if path in {*chosen}}
    new = [path for path in table["path"] if path not in old]
    named = old | dict(zip(new, found.identities(new, old.values())))
    table["record"] = table["path"].map(named)
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
    except OSError as error:
        return Seen(reason=f"cannot be read ({error.strerror})")
    swing = float(np.ptp(recording.signal, axis=1).max())
    leads = tuple(n for n in LEADS if n in recording.leads)
    return Seen(leads, recording.fs, recording.seconds, swing)


def _demand_usable(table: pd.DataFrame) -> None:
    if (table["left_out"] == "").any():
        return
    reasons = "; ".join(f"{r}: {why}" for r, why in table[["record", "left_out"]].values[:3])
    raise BadSetting(
        f"none of the {counted(len(table), 'recording')} can be used: {reasons} (names that mean "
        f"leads can be given: --signals ch1=I,ch2=II)"
    )


def _split(
    order: Order,
    table: pd.DataFrame,
    names: tuple[str, ...],
    before: Earlier | None,
    contents: Mapping[str, str],
) -> tuple[pd.DataFrame, str]:
    """The table with its folds or splits, and how they were made; "" where the table gives them."""
    column = "split" if "split" in table else "fold"
    if column in table and (table[column].astype(str) != "").all():
        return table, ""
    homes: dict[str, str] = {}
    if before:
        gone = {h: p for p, h in before.copy.get("contents", {}).items() if p not in contents}
        moved = {p: gone[h] for p, h in contents.items() if h in gone and p not in before.folds}
        homes = corrections.homes(before, table, moved)
    if before and before.column == "split":
        table["split"] = table["patient"].map(alike).map(homes).fillna("")
        if lost := list(table.loc[table["split"] == "", "record"]):
            raise BadSetting(
                f"the splits of {records.FILE} were given, and {counted(len(lost), 'new record')} "
                f"(first {lost[0]!r}) have none; add a column split to {order.labels.name}"
            )
        return table, AS_BEFORE
    usable = table[table["left_out"] == ""]
    count = max(map(int, before.folds.values())) if before else splitting.count(usable, names)
    known: Mapping[str, int] = {patient: int(fold) for patient, fold in homes.items()}
    # those that cannot be read move no other
    first = splitting.dealt(order.name, usable, names, count, known)
    known = dict(known) | dict(zip(map(alike, usable["patient"]), map(int, first)))
    table["fold"] = splitting.dealt(order.name, table, names, count, known)
    if before and int(table.loc[usable.index, "fold"].max()) < count:
        raise BadSetting(
            f"no record is left in fold {count}, which tests; import into another folder with "
            f"--to, or give a column fold"
        )
    if before and before.module and not before.module.CARD.splits.startswith("ours"):
        return table, AS_BEFORE
    return table, (
        f"ours: {count} folds by patient, stratified on the labels ({count - 2} train, 1 val, "
        f"1 test)"
    )


def _write(
    made: Imported,
    said: Said,
    before: Earlier | None,
    theirs: pd.DataFrame,
    contents: dict[str, str],
) -> None:
    """Card and records.csv, and the copy of them; and the notes of what changed.

    The copy goes first, with the hashes of what it replaces: an import that was killed is ended by
    the next one.
    """
    order, table = made.order, made.table
    column = "split" if "split" in table else "fold"
    who = ["patient"] if made.patients_known else []
    first = ["record", "path", *who, column, *made.labels]
    rest = [c for c in table.columns if c not in (*first, "patient", "left_out")]
    texts = corrections.texts(table, made.labels)
    out = texts[[*first, *rest, "left_out"]]
    card = new = cards.text(_facts(made), said, order.folder, order.to)
    once, folds, homes = before.copy if before else {}, {}, {}
    if before:
        if before.column == column:
            folds, homes = before.folds, before.homes
        made.notes.extend(_changed(made, said, before, texts, contents))
        base = once.get("card", "")
        if before.card and not order.overwrite:
            now = before.card.read_text(encoding="utf-8")
            card, lost = corrections.card(base, now, new) if base else (new, [])
            if not base and now != new:
                _keep(made, before.card)
            if lost:
                made.notes.append(f"{order.card.name} was edited where it would say: {lost[0]}")
    elif order.card.is_file():
        _keep(made, order.card)
        made.notes.append(f"{records.FILE} was gone, and patients are dealt as at first")
    elif order.to.name == "imported" and (order.to.parent / "plan.json").is_file():
        made.notes.append(f"{order.to} of this run was gone, and patients are dealt as at first")
    files = {order.card.name: card, records.FILE: out.to_csv(index=False, lineterminator="\n")}
    copy: dict[str, object] = {
        "base": theirs.to_dict("list"),
        "left_out": {path: seen.reason for path, seen in made.seen.items()},
        "column": column,
        "folds": folds | dict(zip(texts["path"], texts[column])),
        "homes": homes | dict(zip(map(alike, texts["patient"]), texts[column])),
        "contents": contents,
        "labels": list(made.labels),
        "card": new,
        "files": files,
    }
    replaced = {name: sha256_of(order.to / name) for name in files}
    seal(order.to / COPY, copy | {"before": replaced, "request": ""})
    for name, text in files.items():
        put(order.to / name, text)
    if before and before.card and before.card != order.card:
        before.card.unlink(missing_ok=True)
    seal(order.to / COPY, copy | {"before": {}, "request": request(order)})


def _keep(made: Imported, card: Path) -> None:
    """A card of which it is not known what a person edited."""
    put(card.with_suffix(".py.old"), card.read_bytes())
    made.notes.append(f"{card.name} is written anew; what was there is {card.name}.old")


def _facts(made: Imported) -> cards.Found:
    table, usable = made.table, [s for s in made.seen.values() if not s.reason]
    rates = Counter(s.fs for s in usable)
    return cards.Found(
        name=made.order.name,
        labels=made.labels,
        leads=[n for n in LEADS if any(n in s.leads for s in usable)],
        fs=max(sorted(rates), key=lambda fs: rates[fs]),
        seconds=round(float(np.median([s.seconds for s in usable])), 3),
        patients_known=made.patients_known,
        splits=made.splits,
        folds=int(table["fold"].astype(int).max()) if "fold" in table else 3,
        masked=bool((table[list(made.labels)] == UNKNOWN).any(axis=None)),
    )


def _changed(
    made: Imported, said: Said, before: Earlier, texts: pd.DataFrame, contents: dict[str, str]
) -> Iterator[str]:
    """What is otherwise than at the import before."""
    order, source = made.order, made.order.labels.name
    yield from corrections.said(before, texts, made.labels, source)
    was = before.copy.get("contents", {})
    if odd := [p for p, held in contents.items() if was.get(p, held) != held]:
        named = ", ".join(odd[: corrections.NAMED])
        yield f"{counted(len(odd), 'recording')} replaced by other contents: {named}"
    if before.module and said != before.module.SAID:
        yield f"settings of files were {before.module.SAID}, are {said} now"
    if before.card and before.card != order.card:
        yield f"{before.card.name} is {order.card.name} now"
    given = made.splits == f"as given in {source}"
    why = f"as {source} says" if given else "with the other records of the patient"
    yield from corrections.moves(before, made.table, why)
    usable = made.table[made.table["left_out"] == ""]
    yield from corrections.not_scored(usable, made.labels)
