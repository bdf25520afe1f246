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
from pathlib import Path

import pandas as pd

from ecgbench.core.text import shortened
from ecgbench.datasets._cards import card, manifest
from ecgbench.datasets._labels import multi_hot
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.folds import framed
from ecgbench.datasets.indexing.records import reader
from ecgbench.ecg.readers import wfdb
from ecgbench.errors import BadRecord

CARD = card("cinc2017")
MANIFEST = manifest("cinc2017")
(TASK,) = CARD.tasks
GAIN = 1000.0
"""Digital steps per mV in every published header."""


def index(root: Path) -> pd.DataFrame:
    """One row per line of the table of labels: record, patient, split, fold, path and a column per
    label; BadRecord for a line that such a table cannot have.
    """
    file = tables.first(root, CARD.index_files[0])
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
    return frame.join(multi_hot(labels, TASK.name, TASK.labels))


read = reader(wfdb.read, CARD.fs, GAIN, {"ECG": "I"})
