"""Challenge 2017: 8,528 recordings of one lead from a hand-held recorder, 9 to 61 s at 300 Hz, each
with one of four labels.

The training set of the PhysioNet/CinC Challenge 2017 (G. D. Clifford et al., Computing in
Cardiology 2017, doi 10.22489/CinC.2017.065-469; PhysioNet challenge-2017 1.0.0, doi
10.13026/d3hm-sf11), recorded with AliveCor's:

    cinc2017/REFERENCE-v3.csv              A00001,N without a head: N normal, A atrial fibrillation,
                                           O another rhythm, ~ too noisy to say
    cinc2017/training/A00/A00001.{hea,mat} one signal "ECG", which is lead I; WFDB format 16 behind
                                           the 24 bytes of a MATLAB head, 1000 steps per mV

The headers state no checksums (all are 0). The Challenge's own score, the mean F1 of N, A and O, is
`--metrics f1_challenge2017`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.cards.dataset import DatasetCard, Manifest, Task
from ecgbench.core.text import shortened
from ecgbench.datasets._labels import multi_hot
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.challenge import UNNAMED
from ecgbench.datasets.indexing.folds import framed
from ecgbench.ecg.readers import wfdb
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

TABLES = "REFERENCE-v3.csv|REFERENCE.csv"
"""The newest labels; the second name is that of copies which were unpacked from the archive."""
TASK = Task(
    name="cinc2017",
    title="Challenge 2017",
    labels=("N", "A", "O", "~"),
    rule="published",
    absent="another one of the four labels",
)
CARD = DatasetCard(
    title="Challenge 2017",
    version="1.0.0",
    doi="10.13026/d3hm-sf11",
    licence="ODC-By 1.0",
    url="https://physionet.org/content/challenge-2017/1.0.0/",
    folder="cinc2017",
    records=8_528,
    patients=8_528,
    fs=300.0,
    seconds=30.0,
    leads=("I",),
    index_files=(TABLES,),
    tasks=(TASK,),
    splits="ours: 10 folds by record, stratified on the label (8 train, 1 val, 1 test)",
    verified="genuine sample",
    patients_known=False,
    cautions=(
        UNNAMED,
        "its labels were corrected several times; those of REFERENCE-v3.csv are used where it is "
        "there, and older ones give other numbers",
        "a recorder may be held either way round, which inverts lead I: in 50 of 150 genuine "
        "recordings the larger deflection is downwards",
        "the test set of the Challenge is not published: scores here cannot be compared with those "
        "of its entries",
        "no checksum proves its samples",
    ),
)
MANIFEST = Manifest(
    base="https://physionet.org/files/challenge-2017/1.0.0/",
    folders=("training/",),
    suffixes=(".hea", ".mat"),
    tables=("REFERENCE-v3.csv", "LICENSE.txt"),
    size=170_000_000,
)
GAIN = 1000.0
"""Digital steps per mV in every published header."""


def index(root: Path) -> pd.DataFrame:
    """One row per line of the table of labels: record, patient, split, fold, path and a column per
    label; BadRecord for a line that such a table cannot have.
    """
    file = tables.either(root, TABLES)[0]
    lines = file.read_text(encoding="utf-8-sig", errors="replace").split()
    found = [re.fullmatch(r"(A\d{5}),([NAO~])", line) for line in lines]
    if None in found or not found:
        odd = shortened(lines[found.index(None)], 60) if found else ""
        raise BadRecord(f"{file}: {odd!r} is not A00001,N; download it again from {CARD.url}")
    records, labels = zip(*((one[1], [one[2]]) for one in found if one))
    # the release has 300 records a second time, as its validation set
    files = {f.stem: f.relative_to(root).with_suffix("") for f in sorted(root.rglob("*.hea"))}
    paths = [files[r].as_posix() if r in files else "" for r in records]
    damaged = ["" if r in files else "its header is not here" for r in records]
    frame = framed(CARD, records, records, labels, paths, damaged=damaged)
    return pd.concat([frame, multi_hot(labels, TASK.name, TASK.labels)], axis=1)


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV; BadRecord where its header or samples cannot be trusted."""
    names = {"ECG": "I"}
    return wfdb.read(root / row["path"], row["record"], row["patient"], CARD.fs, GAIN, names)
