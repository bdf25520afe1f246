"""MIMIC-IV-ECG: 800,035 ECGs of 161,352 patients of a hospital in Boston, 10 s at 500 Hz: a corpus
for pre-training, without labels.

B. Gow et al., MIMIC-IV-ECG, PhysioNet (2023), doi 10.13026/4nqg-sb35. Layout as published:

    mimic-iv-ecg/record_list.csv       subject_id, study_id, file_name, ecg_time, path
    mimic-iv-ecg/files/p1000/p10000032/s40689238/40689238.{hea,dat}

WFDB of format 16 with 200 steps per mV; aVF stands before aVL. In 10,554 records samples are marked
as missing: short gaps are filled in and longer ones quarantine a record, as REPAIR says.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.cards.dataset import DatasetCard
from ecgbench.datasets.indexing import tables
from ecgbench.ecg.leads import MIMIC_LEADS
from ecgbench.ecg.readers import wfdb
from ecgbench.ecg.recording import Recording
from ecgbench.ecg.repair import Repair

TABLE = "record_list.csv"
GAIN = 200.0
"""Digital steps per mV."""
REPAIR = Repair(gap_seconds=0.05, clip_mv=3.0)
"""The reference benchmark fills in gaps of any length, and limits to 3 mV as here. Of a longer gap
than about half a QRS complex a straight line would be an invention.
"""
CARD = DatasetCard(
    title="MIMIC-IV-ECG",
    version="1.0",
    doi="10.13026/4nqg-sb35",
    licence="ODbL 1.0",
    url="https://physionet.org/content/mimic-iv-ecg/1.0/",
    folder="mimic-iv-ecg",
    records=800_035,
    patients=161_352,
    fs=500.0,
    seconds=10.0,
    leads=MIMIC_LEADS,
    index_files=(TABLE,),
    splits="none: every record is for pre-training",
    losses=0.02,
    repair=REPAIR,
    pretraining=True,
    country="USA",
    cautions=(
        "10,554 records hold samples that are marked as missing: gaps of up to 0.05 s are filled "
        "in along a line, longer ones quarantine the record, where the reference benchmark fills "
        "in all of them; all samples are limited to 3 mV, as there",
        "1,950 records have leads of zeros",
    ),
)


def index(root: Path) -> pd.DataFrame:
    """One row per line of the list: record (the study), patient, split, path."""
    listed = tables.read(root / TABLE, ("subject_id", "study_id", "path"), CARD.url)
    return pd.DataFrame(
        {
            "record": listed["study_id"],
            "patient": listed["subject_id"],
            "split": "train",
            "path": listed["path"],
        }
    )


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV; BadRecord where its header or samples cannot be trusted."""
    return wfdb.read(
        root / row["path"], row["record"], row["patient"], CARD.fs, GAIN, repair=REPAIR
    )
