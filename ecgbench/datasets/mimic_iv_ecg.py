"""MIMIC-IV-ECG: 800,035 ECGs of 161,352 patients of a hospital in Boston, 10 s at 500 Hz: a corpus
for pre-training, without labels.

B. Gow et al., MIMIC-IV-ECG, PhysioNet (2023), doi 10.13026/4nqg-sb35. Layout as published:

    mimic-iv-ecg/record_list.csv       subject_id, study_id, file_name, ecg_time, path
    mimic-iv-ecg/files/p1000/p10000032/s40689238/40689238.{hea,dat}

WFDB of format 16 with 200 steps per mV; aVF stands before aVL. In 10,554 records samples are marked
as missing: gaps of up to 0.05 s are filled in and longer ones quarantine a record, where the
reference benchmark fills in gaps of any length: of a gap longer than about half a QRS complex a
straight line would be an invention.
"""

from pathlib import Path

import pandas as pd

from ecgbench.datasets._cards import card
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.records import reader
from ecgbench.ecg.readers import wfdb

GAIN = 200.0
"""Digital steps per mV."""
CARD = card("mimic_iv_ecg")
(TABLE,) = CARD.index_files


def index(root: Path) -> pd.DataFrame:
    """One row per line of the list: record (the study), patient, split, path."""
    ids = "subject_id", "study_id", "path"
    listed = tables.read(root / TABLE, ids, CARD.url, ids=ids)
    return pd.DataFrame(
        {
            "record": listed["study_id"],
            "patient": listed["subject_id"],
            "split": "train",
            "path": listed["path"],
        }
    )


read = reader(wfdb.read, CARD.fs, GAIN, repair=CARD.repair)
