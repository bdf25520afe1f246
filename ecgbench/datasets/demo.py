"""The demo: 180 synthetic twelve-lead ECGs, generated as they are read, so that everything runs
without a download.

Each of some 130 patients has a heart drawn from their name, each record of a patient a rate, an
electrode placement and a noise of its own. Nothing here says anything about patients: scores on the
demo show that the machinery works, and how leads matter where the truth is known (anterior
infarction lives in V1-V4 and hardly reaches the limb leads).
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.core.seeds import rng
from ecgbench.datasets._cards import card
from ecgbench.datasets._labels import codes
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.recording import Recording
from ecgbench.ecg.synthetic.conditions import heart
from ecgbench.ecg.synthetic.dipole import FS, simulate
from ecgbench.errors import BadRecord

LABELS = codes("demo")

SPLITS = {"train": 120, "val": 20, "test": 40}
"""Records of each split; patients have one to four records and never cross."""

PATIENTS = {
    "NORM": (26, 4, 7),
    "AFIB": (7, 1, 2),
    "IMI": (7, 1, 2),
    "AMI": (8, 1, 3),
    "LBBB": (7, 1, 2),
    "RBBB": (6, 0, 2),
    "LVH": (6, 1, 2),
    "1AVB": (6, 0, 2),
    "AFIB+LBBB": (2, 0, 1),
    "AFIB+RBBB": (2, 0, 1),
    "AFIB+LVH": (2, 1, 1),
    "AFIB+IMI": (1, 0, 0),
    "IMI+1AVB": (2, 1, 1),
    "IMI+RBBB": (1, 0, 1),
    "AMI+RBBB": (1, 1, 1),
    "AMI+AFIB": (1, 0, 0),
    "LBBB+1AVB": (1, 1, 1),
    "RBBB+1AVB": (1, 1, 0),
    "LVH+1AVB": (1, 1, 1),
}
"""Patients with each combination of labels in train, val and test."""

CARD = card("demo")


def index(root: Path | None) -> pd.DataFrame:
    """One row per record: record, patient, split and an int8 column per label; `root` is not
    used.
    """
    return _index().copy()


@cache
def _index() -> pd.DataFrame:
    rows = [
        (split, combination)
        for combination, counts in PATIENTS.items()
        for split, n in zip(SPLITS, counts)
        for _ in range(n)
    ]
    order = rng("demo", "patients").permutation(len(rows))
    people = pd.DataFrame([rows[i] for i in order], columns=["split", "combination"])
    people["patient"] = [f"P{i:03d}" for i in range(1, len(people) + 1)]
    table = people.loc[people.index.repeat(_records_of(people["split"]))].reset_index(drop=True)
    table["record"] = [f"D{i:03d}" for i in range(1, len(table) + 1)]
    columns = CARD.task("demo").columns
    for label, column in zip(LABELS, columns):
        table[column] = np.array([label in c.split("+") for c in table["combination"]], np.int8)
    return table[["record", "patient", "split", *columns]]


def read(root: Path | None, row: Mapping[str, Any]) -> Recording:
    """The record of one row of the index, generated anew: the same bytes whenever it is asked for;
    `root` is not used.
    """
    labels = frozenset(
        label for label, column in zip(LABELS, CARD.task("demo").columns) if row[column]
    )
    beating = heart(labels, rng("demo", "patient", row["patient"]))
    signal = simulate(beating, rng("demo", "record", row["record"]))
    return Recording(
        signal=signal, unit="mV", leads=LEADS, fs=FS, record=row["record"], patient=row["patient"]
    )


def recording(number: int) -> Recording:
    """One record by its number, 1 for D001: for examples and checks. BadRecord when the demo has no
    such record.
    """
    table = _index()
    if not 1 <= number <= len(table):
        raise BadRecord(f"the demo has no record {number}; its records are 1 to {len(table)}")
    return read(None, {str(column): value for column, value in table.iloc[number - 1].items()})


def _records_of(split: pd.Series) -> np.ndarray:
    """(patient,) int: one record each, and what the split still lacks given away at random, at most
    three more each.
    """
    counts = np.ones(len(split), int)
    for name, records in SPLITS.items():
        members = np.flatnonzero(split == name)
        extra = rng("demo", "extra", name).permutation(np.repeat(members, 3))[
            : records - len(members)
        ]
        np.add.at(counts, extra, 1)
    return counts
