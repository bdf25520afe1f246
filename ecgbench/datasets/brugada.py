"""Brugada-HUCA: 363 recordings of 12 s at 100 Hz from as many persons, 69 of them with a confirmed
Brugada syndrome.

Hospital Universitario Central de Asturias, PhysioNet brugada-huca 1.0.0, doi 10.13026/0m2w-dy83:

    brugada_huca/metadata.csv                       patient_id,basal_pattern,sudden_death,brugada
    brugada_huca/files/188981/188981.{hea,dat}      WFDB format 16, 1000 steps per mV

`brugada` is 0 (healthy, 287), 1 (confirmed, 69) or 2 (other or atypical, 7). The syndrome shows in
V1 to V3, so it asks which leads are needed where the limb leads see little.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.datasets._cards import card, manifest
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.folds import framed
from ecgbench.datasets.indexing.records import reader
from ecgbench.ecg.readers import wfdb
from ecgbench.errors import BadRecord

GAIN = 1000.0
VALUES = {"brugada": ("0", "1", "2"), "basal_pattern": ("0", "1"), "sudden_death": ("0", "1")}
"""What the columns of the table may hold."""


CARD = card("brugada")
MANIFEST = manifest("brugada")
(TABLE,) = CARD.index_files


SAME = {"1366050": "1228746", "844915": "841869", "972330": "1220716", "1307673": "1303729"}
"""Patient -> another one of whom the same recording is, bit for bit (`data duplicates`)."""
TWO_LABELS = ("1371554", "1381534")
"""One recording, cut 0.16 s later in the second, of a confirmed and of a healthy patient."""


def index(root: Path) -> pd.DataFrame:
    """One row per person: record, patient, split, fold, path, sudden_death and a column per task;
    BadRecord for a value that the table cannot have.
    """
    rows = tables.read(root / TABLE, ["patient_id", *VALUES], CARD.url, ids=["patient_id"])
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


read = reader(wfdb.read, CARD.fs, GAIN)
