"""CODE-15%: 345,779 exams of 233,770 patients of a telehealth network in Brazil, 7 or 10 s at
400 Hz, with six flags.

A. H. Ribeiro et al., Nat Commun 11:1760 (2020), doi 10.1038/s41467-020-15432-4. Layout as published
on Zenodo, its archives unpacked:

    code15/exams.csv                exam_id, age, is_male, 1dAVb, ..., patient_id, ..., trace_file
    code15/exams_part0.hdf5         exam_id (N,) int64, tracings (N, 4096, 12) float32
    ...
    code15/exams_part17.hdf5

The rows of a part are in an order of their own, and one of them, of exam 0, holds zeros alone: an
exam is found by its exam_id. Tracings are centred between zeros: as in the reference benchmark,
half as many samples as are zero in all leads go at either end, and what is shorter than 10 s is
left out. The samples are taken for millivolts: in ten genuine tracings, lead II spans 1.4 to 4.1
within a second (median), which the unit of the page, 1e-4 V, would make 0.14 to 0.41 mV.

An exam without a flag may be normal or show something else: only `normal_ecg` says so. Task
`code15` takes every flag that is not raised for 0; in `code15_known` the labels of an exam that has
neither a flag nor that mark are unknown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.datasets._cards import card, listing
from ecgbench.datasets._labels import table
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.folds import framed, of_age
from ecgbench.datasets.indexing.records import places
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers.arrays import FileFormat, hdf5, unreadable
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, MissingData
from ecgbench.stats.known import UNKNOWN

FORMAT = FileFormat(leads=LEADS, fs=400.0, per_mv=1.0, leads_first=False, variable="tracings")
TURN = 10_000
"""Patients that are dealt to the folds at a time."""
NORMAL = "normal_ecg"
CARD = card("code15")
(TABLE,) = CARD.index_files
TASK, KNOWN = CARD.tasks
LISTING = listing("code15")


def index(root: Path) -> pd.DataFrame:
    """One row per line of the table: record, patient, split, fold, path, position in that file
    (-1: not there, or not once), age, sex and two columns per label: the flag, and the flag where
    it is known.

    MissingData where a flag is none, or a part is not there or cannot be read.
    """
    flags = [row["csv_column"] for row in table(TASK.name)]
    columns = ("exam_id", "patient_id", "age", "is_male", "trace_file", NORMAL, *flags)
    exams = tables.read(root / TABLE, columns, CARD.url, ids=columns[:2])
    exams[NORMAL] = exams[NORMAL].replace("", "False")  # nobody marked it
    marks = tables.flags(exams, "exam_id", [*flags, NORMAL], root / TABLE, CARD.url)
    hot = marks[flags].set_axis(TASK.columns, axis=1)
    known = hot.where(marks.any(axis=1), UNKNOWN).astype(np.int8).set_axis(KNOWN.columns, axis=1)
    strata = [
        ["any", f"male {male}", age, *np.array(TASK.labels)[row == 1].tolist()]
        for male, age, row in zip(exams["is_male"], of_age(exams["age"]), hot.to_numpy())
    ]
    names, files = exams["exam_id"], exams["trace_file"]
    frame = framed(
        CARD,
        names,
        exams["patient_id"],
        strata,
        files,
        TURN,
        position=_positions(root, names, files),
        age=exams["age"],
        sex=exams["is_male"].map(tables.FLAGS).map({1: "male", 0: "female"}).fillna(""),
    )
    return frame.join([hot, known])


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One exam in mV without its padding; BadRecord where it cannot be trusted."""
    import h5py

    record, position = row["record"], int(row["position"])
    file = root / row["path"]
    if position < 0:
        raise BadRecord(f"{record}: {file.name} does not hold this exam once")
    try:
        with h5py.File(file, "r") as part:
            stored = str(part["exam_id"][position])
    except (OSError, KeyError, ValueError, TypeError, IndexError) as error:
        raise unreadable(file, record, "HDF5", error) from error
    if stored != record:
        raise BadRecord(f"{record}: row {position} of {file.name} holds exam {stored} now")
    recording = hdf5(file, record, row["patient"], FORMAT, position)
    zeros = int((recording.signal == 0).all(axis=0).sum())
    end = recording.signal.shape[1] - zeros // 2
    if end <= zeros // 2:
        raise BadRecord(f"{record}: all samples are zero")
    return replace(recording, signal=recording.signal[:, zeros // 2 : end])


def _positions(root: Path, names: Iterable[str], files: Iterable[str]) -> list[int]:
    """(exam,) row in the file that the table names; -1 where that does not hold the exam once."""
    # a name with a folder is no part of the release; `read` refuses it record by record
    parts = [name for name in sorted({*files}) if PurePosixPath(name).name == name]
    missing = [name for name in parts if not (root / name).is_file()]
    if missing:
        raise MissingData(
            f"{root} lacks {', '.join(missing[:3])}{', ...' if missing[3:] else ''}, which "
            f"{TABLE} names; download and unpack all parts from {CARD.url}"
        )
    there = places([root / name for name in parts], CARD.url)
    rows = [[row for part, row in there[name] if part == file] for name, file in zip(names, files)]
    return [own[0] if len(own) == 1 else -1 for own in rows]
