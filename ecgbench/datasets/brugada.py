"""Brugada-HUCA: 363 recordings of 12 s at 100 Hz from as many persons, 69 of them with a confirmed
Brugada syndrome.

Hospital Universitario Central de Asturias, PhysioNet brugada-huca 1.0.0, doi 10.13026/0m2w-dy83:

    brugada_huca/metadata.csv                       patient_id,basal_pattern,sudden_death,brugada
    brugada_huca/files/188981/188981.{hea,dat}      WFDB format 16, 1000 steps per mV

`brugada` is 0 (healthy, 287), 1 (confirmed, 69) or 2 (other or atypical, 7). The syndrome shows in
V1 to V3, so it asks which leads are needed where the limb leads see little.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cards.dataset import DatasetCard, Limb, Manifest, Task
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.folds import framed
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import wfdb
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

TABLE = "metadata.csv"
GAIN = 1000.0
VALUES = {"brugada": ("0", "1", "2"), "basal_pattern": ("0", "1"), "sudden_death": ("0", "1")}
"""What the columns of the table may hold."""


def _task(name: str, title: str, label: str, absent: str) -> Task:
    return Task(name=name, title=title, labels=(label,), rule="published", absent=absent)


CARD = DatasetCard(
    title="Brugada-HUCA",
    version="1.0.0",
    doi="10.13026/0m2w-dy83",
    licence="CC BY-SA 4.0",
    url="https://physionet.org/content/brugada-huca/1.0.0/",
    folder="brugada_huca",
    records=363,
    patients=363,
    fs=100.0,
    seconds=12.0,
    leads=LEADS,
    index_files=(TABLE,),
    tasks=(
        _task("brugada", "Brugada", "confirmed", "healthy, or another or atypical case"),
        _task("brugada_any", "Brugada or other", "confirmed or other", "healthy"),
        _task("brugada_pattern", "Brugada pattern", "basal pattern", "no basal pattern"),
    ),
    splits="ours: 5 folds by patient, stratified on the three columns (3 train, 1 val, 1 test)",
    verified="genuine release",
    folds=5,
    limb=Limb(
        within=0.2,
        why="each lead was filtered by itself: the largest miss of a record is 0.027 mV in the "
        "median, and five of 363 go beyond 0.2 (aVF of four of them is another signal)",
    ),
    country="Spain",
    cautions=(
        "7 records are neither healthy nor confirmed (class 2): they count as 0 in task brugada "
        "and as 1 in task brugada_any",
        "recorded at 100 Hz, so what models receive at 250 or 500 Hz holds nothing above 50 Hz",
        "the limb leads follow from I and II only to 5 % (median; at most 16 %)",
        "the test split holds about 14 confirmed cases",
        "five recordings are there under two patients: four pairs count as one patient, the fifth "
        "(1371554 = 1381534), which is both confirmed and healthy, is left out",
    ),
)
MANIFEST = Manifest(
    base="https://physionet.org/files/brugada-huca/1.0.0/",
    folders=("files/",),
    suffixes=(".hea", ".dat"),
    tables=("metadata.csv",),
    size=10_800_000,
)


SAME = {"1366050": "1228746", "844915": "841869", "972330": "1220716", "1307673": "1303729"}
"""Patient -> another one of whom the same recording is, bit for bit (`data duplicates`)."""
TWO_LABELS = ("1371554", "1381534")
"""One recording, cut 0.16 s later in the second, of a confirmed and of a healthy patient."""


def index(root: Path) -> pd.DataFrame:
    """One row per person: record, patient, split, fold, path, sudden_death and a column per task;
    BadRecord for a value that the table cannot have.
    """
    rows = tables.read(root / TABLE, ["patient_id", *VALUES], CARD.url)
    for column, values in VALUES.items():
        odd = rows[~rows[column].isin(values)]
        if len(odd):
            record, value = odd[["patient_id", column]].iloc[0]
            raise BadRecord(f"{record}: {column} {value[:60]!r} in {root / TABLE}")
    known = [[f"{c} {row[c]}" for c in VALUES] for row in rows.to_dict("records")]
    people = rows["patient_id"].replace(SAME).tolist()
    two = rows["patient_id"].isin(TWO_LABELS)
    labels = {
        "brugada:confirmed": rows["brugada"] == "1",
        "brugada_any:confirmed or other": rows["brugada"] != "0",
        "brugada_pattern:basal pattern": rows["basal_pattern"] == "1",
    }
    return framed(
        CARD,
        rows["patient_id"],
        people,
        known,
        [f"files/{p}/{p}" for p in rows["patient_id"]],
        damaged=np.where(two, "the same recording has both labels", ""),
        sudden_death=rows["sudden_death"],
    ).assign(**{column: values.astype(np.int8) for column, values in labels.items()})


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV; BadRecord where its header or samples cannot be trusted."""
    return wfdb.read(root / row["path"], row["record"], row["patient"], CARD.fs, GAIN)
