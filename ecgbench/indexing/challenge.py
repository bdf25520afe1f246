"""The collections of the PhysioNet/CinC Challenge 2021: a header and a MATLAB file of integers a
record, diagnoses as SNOMED CT codes in a comment of the header.

    training/georgia/g1/E00001.hea     #Age: 68, #Sex: Female, #Dx: 426783006,164889003
    training/georgia/g1/E00001.mat     WFDB signal of format 16 behind the 24 bytes of a MATLAB head
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from ecgbench.cards import DatasetCard, Task
from ecgbench.ecg.readers import wfdb
from ecgbench.errors import MissingData
from ecgbench.indexing.folds import splits, stratified
from ecgbench.vocabulary import multi_hot

GAIN = 1000.0
"""Digital steps per mV of the release 1.0.3; older archives had headers with wrong ones."""
Dx = Mapping[str, str]
"""SNOMED CT code -> the label it stands for in a task; a code without one counts for none."""


def index(
    root: Path,
    card: DatasetCard,
    words: Mapping[str, Dx],
    wanted: Callable[[str], bool] = lambda record: True,
) -> pd.DataFrame:
    """record, patient, split, fold, path, age, sex and the labels of the tasks, for every header
    below `root`.

    words: task -> its codes. wanted: which records belong to the dataset. No patients are
    published: each record counts as one. Folds are stratified on every code that any task maps.
    MissingData: no header.
    """
    listed = [f for f in sorted(root.rglob("*.hea")) if f.is_file() and wanted(f.stem)]
    files = {f.stem: f for f in listed}
    if len(files) < len(listed):
        seen = Counter(f.stem for f in listed)
        twice = next(name for name, count in seen.items() if count > 1)
        raise MissingData(f"{twice}.hea lies {seen[twice]} times below {root}; remove all but one")
    if not files:
        raise MissingData(
            f"no header (.hea) of {card.title} below {root}; download it from {card.url}"
        )
    notes = {record: wfdb.comments(file) for record, file in files.items()}
    notes = {r: {word.casefold(): text for word, text in note.items()} for r, note in notes.items()}
    codes = {r: tuple(re.findall(r"\d+", note.get("dx", ""))) for r, note in notes.items()}
    mapped = {code for task in words.values() for code in task}
    fold = stratified(
        card.folder,
        list(files),
        [[c for c in codes[record] if c in mapped] for record in files],
        card.folds,
    )
    table = pd.DataFrame(
        {
            "record": list(files),
            "patient": list(files),
            "split": splits(fold),
            "fold": fold,
            "path": [f.relative_to(root).with_suffix("").as_posix() for f in files.values()],
            "age": [note.get("age", "") for note in notes.values()],
            # what lists no diagnosis is no record without one
            "damaged": ["" if "dx" in note else "its header has no Dx" for note in notes.values()],
            "sex": [note.get("sex", "") for note in notes.values()],
        }
    )
    hot = [
        multi_hot([{task[c] for c in codes[r] if c in task} for r in files], name)
        for name, task in words.items()
    ]
    return pd.concat([table, *hot], axis=1)


def labels_of(task: Task, rows: tuple[dict[str, str], ...]) -> Dx:
    """SNOMED CT code -> label, from the rows of the task's label table; a label may have several
    codes, separated by `|`.
    """
    own = {code: row["code"] for row in rows for code in row["snomed_code"].split("|")}
    assert set(own.values()) == set(task.labels)
    return own
