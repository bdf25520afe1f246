"""The collections of the PhysioNet/CinC Challenge 2021: a header and a MATLAB file of integers a
record, diagnoses as SNOMED CT codes in a comment of the header.

    training/georgia/g1/E00001.hea     #Age: 68, #Sex: Female, #Dx: 426783006,164889003
    training/georgia/g1/E00001.mat     WFDB signal of format 16 behind the 24 bytes of a MATLAB head
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from ecgbench.cards.dataset import DatasetCard
from ecgbench.datasets._labels import multi_hot, table
from ecgbench.datasets.indexing.folds import framed
from ecgbench.datasets.indexing.records import headers, reader
from ecgbench.ecg.readers import wfdb
from ecgbench.errors import MissingData

GAIN = 1000.0
"""Digital steps per mV of the release 1.0.3; older archives had headers with wrong ones."""
RATE = 500.0
"""Hz, of the four collections with loaders of their own."""

read = reader(wfdb.read, RATE, GAIN)


def index(
    root: Path, card: DatasetCard, wanted: Callable[[str], object], column: str = "snomed_code"
) -> pd.DataFrame:
    """record, patient, split, fold, path, age, sex and the labels of the first task, for every
    header below `root`.

    wanted: whether a record belongs to the dataset. column: of its label table, with the codes. No
    patients are published: each record counts as one. Folds are stratified on every code that the
    task knows. MissingData: no header.
    """
    files = headers(root, card, lambda file: wanted(file.stem))
    records = [file.stem for file in files.values()]
    twice, count = Counter(records).most_common(1)[0]
    if count > 1:
        raise MissingData(f"{twice}.hea lies {count} times below {root}; remove all but one")
    notes = [
        {word.casefold(): text for word, text in wfdb.comments(file).items()}
        for file in files.values()
    ]
    task = card.tasks[0].name
    label = {
        code: name for name, own in snomed(task, column).items() for code in own.split("|") if own
    }
    codes_of = [re.findall(r"\d+", note.get("dx", "")) for note in notes]
    strata = [[code for code in own if code in label] for own in codes_of]
    frame = framed(
        card,
        records,
        records,
        strata,
        list(files),
        age=[note.get("age", "") for note in notes],
        # what lists no diagnosis is no record without one
        damaged=["" if "dx" in note else "its header has no Dx" for note in notes],
        sex=[note.get("sex", "") for note in notes],
    )
    return frame.join(multi_hot([{label[c] for c in own} for own in strata], task))


def snomed(task: str, column: str = "snomed_code") -> dict[str, str]:
    """Label -> SNOMED CT code, several separated by `|`, from the label table of a task: `CODES` of
    its dataset.
    """
    return {row["code"]: row[column] for row in table(task) if row[column]}
