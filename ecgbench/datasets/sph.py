"""SPH: 25,770 recordings of 10 to 56 s of 24,666 patients of Shandong Provincial Hospital, with 35
of the AHA's diagnostic statements.

H. Liu et al., Sci Data 9:272 (2022), doi 10.1038/s41597-022-01403-5. Layout as published on
figshare (records.tar.gz is a plain tar: `tar -xf`):

    sph/metadata.csv         ECG_ID, AHA_Code, Patient_ID, Age, Sex, N, Date
    sph/records/A00001.h5    `ecg`: (12, N) float16, mV, 500 Hz

A label is the primary code of a statement: `60+310;147` are the statements 60, modified by 310, and
147. As in the reference benchmark, codes of fewer than 10 records are no labels.
"""

import re
from pathlib import Path

import pandas as pd

from ecgbench.datasets._cards import card, listing
from ecgbench.datasets._labels import multi_hot
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.folds import framed, of_age
from ecgbench.datasets.indexing.records import reader
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers.arrays import FileFormat, hdf5
from ecgbench.errors import MissingData

COLUMNS = ("ECG_ID", "AHA_Code", "Patient_ID", "Age", "Sex")
FORMAT = FileFormat(leads=LEADS, fs=500.0, per_mv=1.0, variable="ecg")
RARE = ("31", "81", "83", "84", "87", "102", "143", "152", "166")
"""Primary codes of 3 to 9 records."""
STATEMENTS = re.compile(r"\d+(\+\d+)*(;\d+(\+\d+)*)*")
CARD = card("sph")
LISTING = listing("sph")
(TABLE,) = CARD.index_files
(TASK,) = CARD.tasks


def index(root: Path) -> pd.DataFrame:
    """One row per line of the table: record, patient, split, fold, path, age, sex and a column per
    label.

    MissingData where a line cannot be understood.
    """
    rows = tables.read(root / TABLE, COLUMNS, CARD.url, ids=("ECG_ID", "Patient_ID"))
    for record, statements in zip(rows["ECG_ID"], rows["AHA_Code"]):
        unknown = _primary(statements) - {*TASK.labels, *RARE}
        if unknown or not STATEMENTS.fullmatch(statements):
            raise MissingData(
                f"{root / TABLE}: ECG_ID {record} has AHA_Code {statements[:60]!r}, which is no "
                f"list of the 44 known statements; download it again from {CARD.url}"
            )
    records, age, sex = rows["ECG_ID"], rows["Age"], rows["Sex"]
    strata = [
        ["any", f"sex {sex}", age, *statements.split(";")]
        for statements, sex, age in zip(rows["AHA_Code"], sex, of_age(age))
    ]
    paths = "records/" + records + ".h5"
    table = framed(CARD, records, rows["Patient_ID"], strata, paths, age=age, sex=sex)
    present = [_primary(statements) - {*RARE} for statements in rows["AHA_Code"]]
    return table.join(multi_hot(present, TASK.name))


read = reader(hdf5, FORMAT)


def _primary(statements: str) -> set[str]:
    """The codes before the first `+` of each statement."""
    return {statement.partition("+")[0] for statement in statements.split(";")}
