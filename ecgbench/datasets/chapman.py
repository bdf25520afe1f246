"""Chapman: 10,646 recordings of 10 s from as many patients of Shaoxing People's Hospital, 33 beats
and conditions and nine rhythms.

J. Zheng et al., Sci Data 7:48 (2020), doi 10.1038/s41597-020-0386-x. Read from either release:

    chapman/Diagnostics.xlsx                     FileName, Rhythm, Beat (codes, or NONE), PatientAge
    chapman/ECGData/MUSE_20180113_171327_27000.csv    a line of names, then 5,000 lines in uV

    chapman/WFDBRecords/01/010/JS00001.{hea,mat}      PhysioNet ecg-arrhythmia 1.0.0, SNOMED CT

The first is that of the paper and is read where both lie there; ECGDataDenoised is never read. AF
is atrial flutter, AFIB fibrillation. The second is poorer: see the cautions.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.datasets._cards import card, listing
from ecgbench.datasets._labels import multi_hot
from ecgbench.datasets.indexing import challenge, tables
from ecgbench.datasets.indexing.folds import framed
from ecgbench.ecg.readers import csv, wfdb
from ecgbench.ecg.readers.arrays import FileFormat
from ecgbench.ecg.recording import Recording
from ecgbench.errors import MissingData

TABLE, SIGNALS, WFDB = "Diagnostics.xlsx", "ECGData", "WFDBRecords"
COLUMNS = ("FileName", "Rhythm", "Beat", "PatientAge", "Gender")
FORMAT = FileFormat(leads=None, fs=500.0, per_mv=1000.0)
LAST = 10_646
"""Number of the last record of Chapman in the WFDB release; later ones are Ningbo."""
CODES = challenge.snomed("chapman", "challenge_code")

CARD = card("chapman")
LISTING = listing("chapman")
TASK = CARD.tasks[0]


def index(root: Path) -> pd.DataFrame:
    """One row per record of the figshare release, or of the WFDB release where that is not there:
    record, patient, split, fold, path, age, sex and a column per label of the task of 42.
    """
    if not (root / TABLE).exists():
        return challenge.index(root, CARD, _ours, "wfdb_code")
    rows = tables.of_workbook(root / TABLE, COLUMNS, CARD.url)
    names = [name.strip().removesuffix(".csv") for name in rows["FileName"]]
    both = rows["Rhythm"] + " " + rows["Beat"]
    statements = [[code for code in own.split() if code != "NONE"] for own in both]
    if not any({*TASK.labels} & {*codes} for codes in statements):
        raise MissingData(
            f"{root / TABLE} has none of the rhythms and beats of {CARD.title}; take that of "
            f"{CARD.url}"
        )
    paths, people = [f"{SIGNALS}/{name}.csv" for name in names], rows[["PatientAge", "Gender"]]
    age, sex = people.to_numpy().T
    frame = framed(CARD, names, names, statements, paths, age=age, sex=sex)
    return frame.join(multi_hot([{*TASK.labels} & {*s} for s in statements], TASK.name))


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV; BadRecord where its file cannot be trusted or does not name its leads."""
    record, patient = row["record"], row["patient"]
    path = root / row["path"]
    if path.suffix == ".csv":
        return csv.read(path, record, patient, FORMAT)
    return wfdb.read(path, record, patient, CARD.fs, challenge.GAIN)


def _ours(record: str) -> bool:
    named = re.fullmatch(r"JS(\d{5})", record)
    return named is not None and int(named[1]) <= LAST
