"""NAME: recordings of our clinic, 10 s at 500 Hz, read by two cardiologists."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.cards.dataset import DatasetCard, Task
from ecgbench.datasets.indexing import folds, tables
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import csv
from ecgbench.ecg.readers.arrays import FileFormat
from ecgbench.ecg.recording import Recording

FORMAT = FileFormat(leads=None, fs=500.0, per_mv=1000.0)  # names in the first line, microvolts
LABELS = ("af", "lbbb")

CARD = DatasetCard(
    title="NAME",
    version="1",
    doi="",
    licence="not to be shared",
    url="https://example.org/NAME",  # where a person gets it
    folder="NAME",  # below --data
    synthetic=False,
    records=60,
    patients=30,
    fs=FORMAT.fs,
    seconds=10.0,
    leads=LEADS,
    index_files=("records.csv",),
    tasks=(
        Task(
            name="NAME",
            title="NAME",
            labels=LABELS,
            rule="ours",
            absent="looked for and not found",  # what 0 means: it decides what a score means
        ),
    ),
    splits="ours: 10 folds by patient, stratified on the labels",
    verified="genuine release",
    country="",
)


def index(root: Path) -> pd.DataFrame:
    """One row per record: record, patient, split, path, and a column per label."""
    table = tables.read(root / "records.csv", ("record", "patient", *LABELS), CARD.url)
    present = [[name for name in LABELS if row[name] == "1"] for _, row in table.iterrows()]
    table = table.assign(**folds.dealt("NAME", list(table["patient"]), present, CARD.folds))
    table["path"] = "signals/" + table["record"] + ".csv"
    for name in LABELS:
        table[f"NAME:{name}"] = (table[name] == "1").astype("int8")
    return table.drop(columns=list(LABELS))


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV; BadRecord, which costs this record alone, where it cannot be trusted."""
    path = tables.within(root, row["path"], row["record"])
    return csv.read(path, row["record"], row["patient"], FORMAT)
