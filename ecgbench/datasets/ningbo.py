"""Ningbo: 34,905 recordings of 10 s from Ningbo First Hospital, 68 diagnoses.

Part of the PhysioNet/CinC Challenge 2021 (M. A. Reyna et al., doi 10.13026/34va-7q14):

    ningbo/g1/JS20000.{hea,mat}

JS00001 to JS10646 are Chapman. One record is called S23074. Records with samples that are marked as
missing (97) are quarantined.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.cards import DatasetCard, Manifest, Task
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import wfdb
from ecgbench.ecg.recording import Recording
from ecgbench.indexing import challenge
from ecgbench.vocabulary import codes, table

TASK = Task(
    name="ningbo",
    title="Ningbo",
    labels=codes("ningbo"),
    rule="reference code",
    paper=68,
    absent="not among the codes of the header",
)
CARD = DatasetCard(
    title="Ningbo",
    version="1.0.3",
    doi="10.13026/34va-7q14",
    licence="CC BY 4.0",
    url="https://physionet.org/content/challenge-2021/1.0.3/",
    folder="ningbo",
    synthetic=False,
    records=34905,
    patients=34905,
    fs=500.0,
    seconds=10.0,
    leads=LEADS,
    index_files=(),
    tasks=(TASK,),
    splits="ours: 10 folds by record, stratified on all mapped codes (8 train, 1 val, 1 test)",
    verified="genuine sample",
    min_seconds=0.0,
    pretraining=True,
    country="China",
    cautions=(
        "no patients are named, so records of one patient may stand in two splits",
        "atrial fibrillation is coded as atrial flutter throughout (0 against 7,615 records)",
        "about 1,480 records have leads of zeros, most of them V1 to V6",
    ),
    patients_known=False,
)
MANIFEST = Manifest(
    base="https://physionet.org/files/challenge-2021/1.0.3/",
    below="training/ningbo/",
    suffixes=(".hea", ".mat"),
    size=4_210_000_000,
)


def index(root: Path) -> pd.DataFrame:
    """One row per header: record, patient, split, fold, path, age, sex and a column per label."""
    words = {TASK.name: challenge.labels_of(TASK, table(TASK.name))}
    return challenge.index(root, CARD, words, _ours)


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV; BadRecord where its header or samples cannot be trusted."""
    path = root / row["path"]
    return wfdb.read(path, row["record"], row["patient"], CARD.fs, challenge.GAIN)


def _ours(record: str) -> bool:
    """Chapman's records have lower numbers."""
    named = re.fullmatch(r"J?S(\d{5})", record)
    return named is not None and int(named[1]) > 10_646
