"""Toy CSV: a dataset whose recordings are tables, a line per sample, in microvolts, with a column
that is no lead.

    toy_csv/records.csv        record,patient,split,tall,slow
    toy_csv/signals/R01.csv    time,AVR,I,II,...

Enters as `--tasks tests/plugins/toy_csv.py`, or by an entry point of the group `ecgbench.datasets`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.cards.dataset import DatasetCard, Task
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import csv
from ecgbench.ecg.readers.arrays import FileFormat
from ecgbench.ecg.recording import Recording

FORMAT = FileFormat(leads=None, fs=100.0, per_mv=1000.0)
LABELS = ("tall", "slow")

CARD = DatasetCard(
    title="Toy CSV",
    version="1",
    doi="",
    licence="MIT",
    url="https://example.org/toy_csv",
    folder="toy_csv",
    synthetic=True,
    records=60,
    patients=60,
    fs=FORMAT.fs,
    seconds=5.0,
    leads=LEADS,
    index_files=("records.csv",),
    tasks=(Task(name="toy", title="Toy waves", labels=LABELS),),
    splits="fixed: 36 train, 12 val, 12 test",
)


def index(root: Path) -> pd.DataFrame:
    """One row per record: record, patient, split, path and a column per label."""
    table = pd.read_csv(root / "records.csv", dtype={"record": str, "patient": str})
    table["path"] = "signals/" + table["record"] + ".csv"
    return table.rename(columns=dict(zip(LABELS, CARD.task("toy").columns)))


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV."""
    return csv.read(root / row["path"], row["record"], row["patient"], FORMAT)
