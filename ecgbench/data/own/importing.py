"""From a folder of recordings and a table of labels to a card file and records.csv. Every file is
read once; one that cannot be trusted costs itself.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pandas as pd

from ecgbench.core.files import locked, read_proved
from ecgbench.core.text import counted
from ecgbench.data.own import corrections, found, labels, reading, records, splitting, writing
from ecgbench.data.own.earlier import COPY, Earlier, Order, content, earlier, files_of, request
from ecgbench.data.own.patients import one_spelling, person
from ecgbench.data.own.reading import Progress
from ecgbench.data.own.writing import Imported
from ecgbench.ecg.readers import own
from ecgbench.ecg.readers.said import Said
from ecgbench.errors import BadSetting

AS_BEFORE = f"as they were in {records.FILE}"
"""Of splits that a table gave once."""


FEW_PATIENTS = 200
"""Below it a run tests every patient of an import once, by cross-validation."""


def bring(order: Order, progress: Progress | None = None) -> Imported:
    """Import the recordings of a folder, or correct what was imported before: what changed is
    noted, patients stay in their splits, and so does what a person edited. BadSetting or
    MissingData in one line where that cannot be done; nothing is written then.
    """
    if not order.folder.is_dir():
        raise BadSetting(f"there is no folder {order.folder}; give that of the recordings")
    new = not order.to.exists()
    try:
        with locked(order.to):
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
    copy = read_proved(order.to / COPY) or {"before": True}
    return not copy["before"] and copy["request"] == request(order)


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
    before = earlier(order)
    given = labels.checked(order.labels, order.columns, order.positive)
    table, without_row = _matched(order, given, before.table if before else None)
    without_file = len(given.table) - len(table)
    if "patient" not in table:
        table["patient"] = table["record"]
    theirs, notes = corrections.texts(table, given.labels), [*given.notes]
    said = order.said
    contents = _contents(order, table)
    if before:
        moved = before.moved(contents)
        _demand_of_these(order, before, table, moved)
        before = before.at(moved)
        if some := [f"{new} was {old}" for old, new in moved.items()]:
            notes.append(f"{counted(len(some), 'recording')} moved: {corrections.some(some)}")
        table, edits = corrections.merged(before, theirs, order.labels.name, order.overwrite)
        if (table["patient"] != table["record"]).any():
            table["patient"] = one_spelling(table["patient"])
        for label in given.labels:
            table[label] = records.values(table, label)
        notes += edits
        by_hand = table[~table["path"].isin(contents)]
        contents = {p: (contents | _contents(order, by_hand))[p] for p in table["path"]}
        if before.module and said == Said():
            said = before.module.SAID
    seen = reading.read(order.folder, table, said, progress)
    table["left_out"] = [seen[path].reason for path in table["path"]]
    reading.demand_usable(table)
    reading.demand_names_used(order.said, seen)
    if before:
        _leave_out_by_hand(before, table)
    with reading.reasons_first(table):
        table, words = _split(order, table, given.labels, before)
        _demand_scored(
            table, given.labels, order.labels.name if words == "" else "the splits", before
        )
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
    writing.write(made, said, before, theirs, contents)
    return made


def _contents(order: Order, table: pd.DataFrame) -> dict[str, str]:
    return {path: content(files) for path, files in files_of(order.folder, table["path"]).items()}


def _demand_of_these(
    order: Order, before: Earlier, table: pd.DataFrame, moved: Mapping[str, str]
) -> None:
    if not {*before.table["path"]} & {*table["path"]} and 2 * len(moved) < len(before.table):
        raise BadSetting(
            f"{order.to} holds the records of other recordings ({before.table['path'].iloc[0]} and "
            f"others), none of which {order.labels.name} names in {order.folder}; import into "
            f"another folder with {order.elsewhere}"
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


def _demand_scored(
    table: pd.DataFrame, names: tuple[str, ...], whose: str, before: Earlier | None
) -> None:
    usable = table[table["left_out"] == ""]
    try:
        splitting.demand(usable, names, whose)
    except BadSetting as error:
        lacking = list(corrections.not_scored(usable, names))[-2:] if before else []
        raise BadSetting("; ".join([str(error), *lacking])) from None


def _split(
    order: Order,
    table: pd.DataFrame,
    names: tuple[str, ...],
    before: Earlier | None,
) -> tuple[pd.DataFrame, str]:
    """The table with its folds or splits, and how they were made; "" where the table gives them."""
    column = "split" if "split" in table else "fold"
    if column in table and (table[column].astype(str) != "").all():
        return table, ""
    homes: dict[str, str] = {}
    if before:
        homes = corrections.homes(before, table)
    if before and before.column == "split":
        table["split"] = table["patient"].map(person).map(homes).fillna("")
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
    known = dict(known) | dict(zip(map(person, usable["patient"]), map(int, first)))
    table["fold"] = splitting.dealt(order.name, table, names, count, known)
    if before and int(table.loc[usable.index, "fold"].max()) < count:
        raise BadSetting(
            f"no record is left in fold {count}, which tests; import into another folder with "
            f"{order.elsewhere}, or give a column fold"
        )
    if before and before.module and not before.module.CARD.splits.startswith("ours"):
        return table, AS_BEFORE
    return table, (
        f"ours: {count} folds by patient, stratified on the labels ({count - 2} train, 1 val, "
        f"1 test)"
    )
