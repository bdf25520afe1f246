"""Georgia: 10,344 recordings of 10 s from the south-east of the USA, 50 diagnoses.

Part of the PhysioNet/CinC Challenge 2021 (M. A. Reyna et al., doi 10.13026/34va-7q14):

    georgia/g1/E00001.{hea,mat}

Six records hold samples that are marked as missing and are quarantined; shorter ones than 10 s are
left out, as in the reference benchmark.
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
    name="georgia",
    title="Georgia",
    labels=codes("georgia"),
    rule="reference code",
    paper=50,
    absent="not among the codes of the header",
)
CARD = DatasetCard(
    title="Georgia",
    version="1.0.3",
    doi="10.13026/34va-7q14",
    licence="CC BY 4.0",
    url="https://physionet.org/content/challenge-2021/1.0.3/",
    folder="georgia",
    synthetic=False,
    records=10344,
    patients=10344,
    fs=500.0,
    seconds=10.0,
    leads=LEADS,
    index_files=(),
    tasks=(TASK,),
    splits="ours: 10 folds by record, stratified on all mapped codes (8 train, 1 val, 1 test)",
    verified="genuine sample",
    min_seconds=10.0,
    pretraining=True,
    country="USA",
    cautions=("no patients are named, so records of one patient may stand in two splits",),
    patients_known=False,
)
MANIFEST = Manifest(
    base="https://physionet.org/files/challenge-2021/1.0.3/",
    below="training/georgia/",
    suffixes=(".hea", ".mat"),
    size=1_250_000_000,
)


def index(root: Path) -> pd.DataFrame:
    """One row per header: record, patient, split, fold, path, age, sex and a column per label."""
    words = {TASK.name: challenge.labels_of(TASK, table(TASK.name))}
    return challenge.index(root, CARD, words, lambda r: bool(re.fullmatch(r"E\d{5}", r)))


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV; BadRecord where its header or samples cannot be trusted."""
    path = root / row["path"]
    return wfdb.read(path, row["record"], row["patient"], CARD.fs, challenge.GAIN)
