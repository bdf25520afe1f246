"""EchoNext: 82,543 recordings of 10 s and the eleven findings of structural heart disease in their
echocardiograms.

T. J. Poterucha et al., Nature 644 (2025), doi 10.1038/s41586-025-09227-0. PhysioNet echonext 1.1.0:

    echonext/echonext_metadata_100k.csv           also published as EchoNext_metadata_100k.csv
    echonext/EchoNext_train_waveforms.npy         (72,475, 1, 2500, 12) float64; val, test likewise

Row i of a split's array is the i-th line of the table that has this split, in its order. The
recordings are filtered, clipped and standardised with constants that are not published, lead by
lead: they have no millivolts, and the limb leads follow from one another only roughly. They are
taken as they are.

A flag is 0 where the finding was not there, and where its quantity was not measured. Task
`echonext` takes the flags as they are; in `echonext_measured` a flag 0 is unknown where the columns
of its quantity are empty. A flag 1 stays: somebody raised it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cards.dataset import Limb
from ecgbench.datasets._cards import card
from ecgbench.datasets._labels import table
from ecgbench.datasets.indexing import tables
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import arrays
from ecgbench.ecg.readers.arrays import FileFormat
from ecgbench.ecg.recording import Recording
from ecgbench.errors import MissingData
from ecgbench.stats.known import UNKNOWN

FLAGS = {row["csv_column"]: row["code"] for row in table("echonext")}
MEASURED = {row["csv_column"]: row["measurement_column"].split("|") for row in table("echonext")}
"""Flag -> columns of its quantity; the thickness of the wall has two, and one of them is enough."""
QUANTITIES = [column for own in MEASURED.values() for column in own]
FORMAT = FileFormat(leads=LEADS, fs=250.0, per_mv=None, leads_first=False)
PEOPLE = {"age": "age_at_ecg", "sex": "sex", "site": "location_setting"}
"""Column of the index -> column of the table, for facts of the patient."""
EMPTY = ("", "nan", "none", "null", "na")
"""How a table says that there is no value."""

CARD = card(
    "echonext",
    limb=Limb(within=None, why="each lead was filtered, clipped and standardised by itself"),
)
(TABLE,) = CARD.index_files
TASK, KNOWN = CARD.tasks


def index(root: Path) -> pd.DataFrame:
    """One row per record that has a split: record, patient, split, path, position in its array,
    age, sex and site where the table has them, and two columns per label: the flag, and the flag
    where it is known. MissingData where table and arrays do not belong together.
    """
    file = tables.first(root, TABLE)
    columns = ["ecg_key", "patient_key", "split", *FLAGS, *QUANTITIES]
    raw = tables.read(file, columns, CARD.url, ids=columns[:2])
    raw["position"] = raw.groupby("split").cumcount()  # before any row is dropped
    rows = raw[raw["split"].isin(["train", "val", "test"])].reset_index(drop=True)
    paths = {s: _array(root, str(s), n) for s, n in rows["split"].value_counts().items()}
    hot = tables.flags(rows, "ecg_key", [*FLAGS], file, CARD.url)
    frame = pd.DataFrame(
        {
            "record": rows["ecg_key"],
            "patient": rows["patient_key"],
            "split": rows["split"],
            "path": rows["split"].map(paths),
            "position": rows["position"],
            **{name: rows.get(column, "") for name, column in PEOPLE.items()},
        }
    )
    known = hot.where((hot == 1) | _measured(rows), UNKNOWN).astype(np.int8)
    return frame.join([hot.set_axis(TASK.columns, axis=1), known.set_axis(KNOWN.columns, axis=1)])


def _measured(rows: pd.DataFrame) -> pd.DataFrame:
    """(record, flag) bool: whether a column of its quantity holds a value."""
    said = rows[QUANTITIES].apply(lambda column: ~column.str.strip().str.lower().isin(EMPTY))
    return pd.DataFrame({flag: said[own].any(axis=1) for flag, own in MEASURED.items()})


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in the standardised values that are published; only its row is read."""
    path = root / row["path"]
    return arrays.numpy(path, row["record"], row["patient"], FORMAT, int(row["position"]))


def _array(root: Path, split: str, rows: int) -> str:
    """The name of a split's array, which must hold as many recordings as the table has lines: else
    every label would stand beside another record.
    """
    file = tables.first(root, f"EchoNext_{split}_waveforms.npy|echonext_{split}_waveforms.npy")
    try:
        stored = len(np.load(file, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError, TypeError) as error:
        raise MissingData(
            f"{file} is missing or no array ({type(error).__name__}); download it from {CARD.url}"
        ) from error
    if stored != rows:
        raise MissingData(
            f"{file} holds {stored:,} recordings, and the table has {rows:,} of split {split}; "
            f"download both again from {CARD.url}"
        )
    return file.name
