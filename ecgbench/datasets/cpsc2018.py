"""CPSC2018: 6,877 recordings of 6 to 144 s from eleven hospitals in China, nine rhythms and
conduction disorders.

Part of the PhysioNet/CinC Challenge 2021 (M. A. Reyna et al., doi 10.13026/34va-7q14):

    cpsc_2018/g1/A0001.{hea,mat}

Records shorter than 10 s are left out, as in the reference benchmark. A code that the task does not
know counts for no label.
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
    name="cpsc2018",
    title="CPSC2018",
    labels=codes("cpsc2018"),
    rule="reference code",
    paper=9,
    absent="not among the codes of the header",
)
CARD = DatasetCard(
    title="CPSC2018",
    version="1.0.3",
    doi="10.13026/34va-7q14",
    licence="CC BY 4.0",
    url="https://physionet.org/content/challenge-2021/1.0.3/",
    folder="cpsc_2018",
    synthetic=False,
    records=6877,
    patients=6877,
    fs=500.0,
    seconds=15.0,
    leads=LEADS,
    index_files=(),
    tasks=(TASK,),
    splits="ours: 10 folds by record, stratified on all mapped codes (8 train, 1 val, 1 test)",
    verified="genuine sample",
    min_seconds=10.0,
    pretraining=True,
    country="China",
    cautions=(
        "no patients are named, so records of one patient may stand in two splits",
        "the length of a record depends on its diagnosis",
    ),
    patients_known=False,
)
MANIFEST = Manifest(
    base="https://physionet.org/files/challenge-2021/1.0.3/",
    below="training/cpsc_2018/",
    suffixes=(".hea", ".mat"),
    size=1_330_000_000,
)


def index(root: Path) -> pd.DataFrame:
    """One row per header: record, patient, split, fold, path, age, sex and a column per label."""
    words = {TASK.name: challenge.labels_of(TASK, table(TASK.name))}
    return challenge.index(root, CARD, words, lambda r: bool(re.fullmatch(r"A\d{4}", r)))


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV; BadRecord where its header or samples cannot be trusted."""
    path = root / row["path"]
    return wfdb.read(path, row["record"], row["patient"], CARD.fs, challenge.GAIN)
