"""Hefei: 20,036 recordings of 10 s from the Hefei Hi-tech Cup of 2019 (Tianchi competition 231754),
the training set of its second round. Its first round is another set; the two are not to be mixed.

    hefei/hf_round2_train.txt               100001.txt<TAB>age<TAB>sex<TAB>label<TAB>label ...
    hefei/hf_round2_train/100001.txt        a line of names, then 5,000 lines of 8 whole numbers

The files hold I, II and V1 to V6 in steps of 4.88 uV; the other four leads follow from I and II.
The competition has 34 labels. The 29 with at least 20 records are the task, which is the simplest
way to the 29 of the paper; it does not say which they are.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.datasets._cards import card
from ecgbench.datasets._labels import multi_hot
from ecgbench.datasets.indexing.folds import framed
from ecgbench.ecg.leads import CHEST
from ecgbench.ecg.readers import csv
from ecgbench.ecg.readers.arrays import FileFormat
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, MissingData

STORED = ("I", "II", *CHEST)
FORMAT = FileFormat(leads=None, fs=500.0, per_mv=1000 / 4.88)
RARE = ("QRS低电压", "起搏心律", "前间壁R波递增不良", "融合波", "非特异性ST段与T波异常")
"""Labels of the competition with fewer than 20 records; no columns of the task."""

CARD = card("hefei")
(TABLE,), SIGNALS = CARD.index_files, "hf_round2_train"
(TASK,) = CARD.tasks


def index(root: Path) -> pd.DataFrame:
    """One row per line of the label file: record, patient, split, fold, path, age, sex and a column
    per label. MissingData where it is another file.
    """
    lines = _lines(root / TABLE)
    names = [name.removesuffix(".txt") for name, *_ in lines]
    present = [[label for label in labels if label] for *_, labels in lines]
    _, age, sex, _ = zip(*lines)
    paths = [f"{SIGNALS}/{name}.txt" for name in names]
    table = framed(CARD, names, names, present, paths, age=age, sex=sex)
    kept = [set(labels) - {*RARE} for labels in present]
    return table.join(multi_hot(kept, TASK.name))


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV, completed to twelve leads; BadRecord where its file cannot be trusted."""
    record = row["record"]
    recording = csv.read(root / row["path"], record, row["patient"], FORMAT, separator=" ")
    if sorted(recording.leads) != sorted(STORED):
        raise BadRecord(
            f"{record}: the leads {', '.join(recording.leads)} instead of {', '.join(STORED)}"
        )
    return recording.completed()


def _lines(file: Path) -> list[tuple[str, str, str, list[str]]]:
    """File name, age, sex (both perhaps "") and labels of each line, which differ in length."""
    again = f"take {TABLE} of round 2 from {CARD.url}"
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeError) as error:
        raise MissingData(
            f"{file} is no text in UTF-8 ({type(error).__name__}); {again}"
        ) from error
    known, found = {*TASK.labels, *RARE}, []
    for line in filter(str.strip, lines):
        fields = [*map(str.strip, line.split("\t"))]
        name, age, sex, *labels = fields + [""] * (3 - len(fields))
        unknown = sorted({*labels} - known - {""})
        if not re.fullmatch(r"\w+\.txt", name) or unknown:
            what = f"carries {', '.join(unknown)}" if unknown else "begins with no file name"
            raise MissingData(f"{file}: a line of {name[:40]!r} {what}; {again}")
        found.append((name, age, sex, labels))
    if not found:
        raise MissingData(f"{file} has no lines; {again}")
    return found
