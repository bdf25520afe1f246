"""records.csv of an imported dataset, as its card file uses it: the table, the index that it gives,
and the recording of a row.

    record,path,patient,fold,af,age,left_out
    A1,a/A1.hea,P1,3,1,63,
    A2,a/A2.hea,P1,3,0,63,A2.dat is truncated: ...

`path` is from the folder of the recordings. `fold` (the last is the test split, the one before it
the validation split) may be `split` instead. A label is 0, 1, or empty where it is unknown. A
reason in `left_out` keeps a record out of everything but the list of what was left out.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.core.cards import DatasetCard
from ecgbench.data.imported import tables
from ecgbench.data.imported.labels import OF_AN_INDEX
from ecgbench.data.imported.people import one_spelling
from ecgbench.data.imported.splitting import split_of
from ecgbench.data.imported.tables import hot
from ecgbench.data.splits import IMPORTED
from ecgbench.datasets.indexing.tables import within
from ecgbench.ecg.readers import by_suffix
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting, MissingData

FILE = "records.csv"
LOSSES = 0.005
"""Share of the records that may be lost besides those that the import left out."""


def read(card_file: str) -> pd.DataFrame:
    """The table beside a card file, every value a str; MissingData in one line where it is none."""
    found = tables.read(Path(card_file).with_name(FILE))
    table = found.rows
    missing = [name for name in ("record", "path") if name not in table]
    if missing or not {"fold", "split"} & {*table}:
        raise MissingData(f"{found.file} lacks the column {(missing or ['fold (or split)'])[0]!r}")
    for line, fold in table.get("fold", pd.Series(dtype=str)).items():
        if not fold.isdecimal():
            raise MissingData(f"{found.at(line)}: the fold {fold!r} is no whole number")
    for line, path in table.loc[table["path"].duplicated(), "path"].items():
        raise MissingData(
            f"{found.at(line)}: the file {path} is there twice; remove one of the lines"
        )
    table = table.reset_index(drop=True)
    table["patient"] = one_spelling(table["patient"]) if "patient" in table else table["record"]
    table["left_out"] = table.get("left_out", "")
    return table


def losses(table: pd.DataFrame) -> float:
    """Share of records that preparing may lose: twice the share that the import left out, since the
    part of a run with --limit may have more of them; plus LOSSES.
    """
    return min(1.0, 2 * float((table["left_out"] != "").mean()) + LOSSES)


def index(table: pd.DataFrame, card: DatasetCard) -> pd.DataFrame:
    """One row per record, as in every dataset: record, patient, split, fold where there are folds,
    path, a column per label, and all other columns of the table.
    """
    frame = table[["record", "patient"]].copy()
    frame["path"] = [_named(path) for path in table["path"]]
    frame["split"] = split_of(table)
    if "fold" in table:
        frame["fold"] = frame[IMPORTED] = table["fold"].astype(int)
    frame["damaged"] = table["left_out"]
    labels = {label for task in card.tasks for label in task.labels}
    for task in card.tasks:
        for label, column in zip(task.labels, task.columns):
            frame[column] = pd.Series(values(table, label), index=frame.index, dtype="int8")
    return frame.join(table[[c for c in table if c not in labels and c not in OF_AN_INDEX]])


def recording(root: Path, row: Mapping[str, Any], options: ReadOptions) -> Recording:
    """The recording of a row of the index, in mV; BadRecord where it cannot be trusted."""
    path = within(root, row["path"], row["record"])
    if path.suffix.lower() not in by_suffix.READERS:
        path = path.with_name(f"{path.name}.hea")
    try:
        return by_suffix.read(path, row["record"], row["patient"], options)
    except BadSetting as error:  # a file that says less than it did when it was imported
        raise BadRecord(f"{row['record']}: {error}") from None


def _named(path: str) -> str:
    """A record of WFDB without the suffix of its header, as its other files lie beside it; but
    `a.edf.hea`, which would then be an EDF.
    """
    plain = path.removesuffix(".hea")
    return path if Path(plain).suffix.lower() in by_suffix.READERS else plain


def values(table: pd.DataFrame, label: str) -> list[int]:
    """1, 0 or UNKNOWN of each record; MissingData for any other cell."""
    if label not in table:
        raise MissingData(f"{FILE} has no column {label!r}, which is a label of the card")
    found = list[int]()
    for record, cell, value in zip(table["record"], table[label], hot(table[label])):
        if value is None:
            raise MissingData(
                f"{FILE}: record {record!r} has {cell!r} in the column {label!r}, where 0 or 1 "
                f"belongs"
            )
        found.append(value)
    return found
