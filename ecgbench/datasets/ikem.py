"""IKEM: 98,130 ECGs of 30,290 patients of a hospital in Prague, without diagnoses: a corpus for
pre-training.

IKEM dataset v1.0.0, University of West Bohemia (2023), doi 10.5281/zenodo.8393007. Layout as
published on Zenodo:

    ikem/exams.csv             exam_id, patient_id, ...; -1 stands for a value that is missing
    ikem/*.hdf5                three parts: exam_id, hashes, real_lengths, tracings (N, 4096, 8)

Samples are 16-bit counts of V1 to V6, II and I at 500 Hz, of 1 uV each by their amplitude (the page
says 4.88 uV). A record of 10 s was cut to 4,096 samples; a shorter one is padded.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.datasets._cards import card, listing
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.records import places
from ecgbench.ecg.leads import CHEST
from ecgbench.ecg.readers.arrays import FileFormat, hdf5
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

FORMAT = FileFormat(
    leads=(*CHEST, "II", "I"), fs=500.0, per_mv=1000.0, leads_first=False, variable="tracings"
)
STORED = 4096
"""Samples of a lead in the files."""
PADDING = (0, -1)
"""Counts that may fill up a record shorter than that."""
CARD = card("ikem")
LISTING = listing("ikem")
(TABLE,) = CARD.index_files


def index(root: Path) -> pd.DataFrame:
    """One row per exam of the table: record, patient, split, path, position in that file, real
    length, damaged.

    MissingData where a part cannot be read or holds none of the arrays.
    """
    ids = "exam_id", "patient_id"
    exams = tables.read(root / TABLE, ids, CARD.url, ids=ids)
    there = places(sorted([*root.glob("*.hdf5"), *root.glob("*.h5")]), CARD.url, "real_lengths")
    stored = [there[exam] or [("", -1, 0)] for exam in exams["exam_id"]]
    patients = exams["patient_id"].where(exams["patient_id"] != "-1", "exam " + exams["exam_id"])
    return pd.DataFrame(
        {
            "record": exams["exam_id"],
            "patient": patients,
            "split": "train",
            **dict(zip(("path", "position", "real_length"), zip(*(own[-1] for own in stored)))),
            "damaged": [
                "the HDF5 files hold its exam twice" if len(own) > 1 else "" for own in stored
            ],
        }
    )


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV, with all twelve leads; BadRecord where it cannot be trusted."""
    record = row["record"]
    if not row["path"]:
        raise BadRecord(f"{record}: the exam is in none of the HDF5 files")
    recording = hdf5(root / row["path"], record, row["patient"], FORMAT, int(row["position"]))
    length = min(int(row["real_length"]), STORED)
    signal = recording.signal
    if length < STORED:
        counts = np.rint(signal * 1000)
        filled = ~np.any([(counts == pad).all(axis=0) for pad in PADDING], axis=0)
        own = np.flatnonzero(filled)
        signal = signal[:, own[0] : own[-1] + 1] if len(own) else signal[:, :0]
    if not 0 < signal.shape[1] <= length:
        raise BadRecord(
            f"{record}: {signal.shape[1]} samples without the padding, where its real length is "
            f"{row['real_length']}"
        )
    return replace(recording, signal=signal).completed()
