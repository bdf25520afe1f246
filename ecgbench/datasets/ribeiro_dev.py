"""Ribeiro-dev: CODE without most of its recordings that show none of six diagnoses, on which
choices of pre-training are compared before anything else is tested.

E. Coppola et al., medRxiv 2024.11.14.24317328, and the paper of LAEF name it, 220,000 people of
CODE, and publish neither list nor share. It is made from the files of CODE as they lie there:

    code/annotations.csv       id_exam, id_patient, 1dAVb, RBBB, LBBB, SB, AF, ST
    code/wfdb/RECORDS.txt      a record a line, below wfdb/: S0010/TNMG1_N1
    code/wfdb/S0010/TNMG1_N1.{hea,dat}

Of 2,322,465 labelled exams 2,051,701 have none of the six. DROPPED of the patients lose all such
recordings, drawn by the name of the patient; whoever has a diagnosis keeps those with it. That
leaves about 312,000 recordings, which at CODE's 1.39 a patient are those of some 220,000.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.core.seeds import seed_of
from ecgbench.datasets import code
from ecgbench.datasets._cards import card
from ecgbench.datasets._labels import table
from ecgbench.datasets.code15 import TURN
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.folds import dealt
from ecgbench.errors import MissingData

NAME = "ribeiro_dev"
DROPPED = 0.98
"""Share of the patients whose recordings without a diagnosis are left out."""
COLUMNS = {row["csv_column"]: f"{NAME}:{row['code']}" for row in table("code15")}
"""Of the annotations -> of the index; CODE has the six of CODE-15%."""
CARD = card(NAME)
(TASK,) = CARD.tasks


def index(root: Path) -> pd.DataFrame:
    """One row per record that stays: record, patient, split, fold, path, exam, age and sex
    where the list has them, and a column per label.

    MissingData where a flag is none, or no record stays.
    """
    notes = tables.read(root / code.TABLE, ("id_exam", *COLUMNS), CARD.url)
    hot = tables.flags(notes, "id_exam", [*COLUMNS], root / code.TABLE, CARD.url).rename(
        columns=COLUMNS
    )
    people = {name: notes.get(name, "") for name in ("age", "sex")}
    known = hot.assign(exam=notes["id_exam"], **people).drop_duplicates("exam")
    every = code.index(root).drop(columns="split").merge(known, on="exam", how="inner")
    has_finding = every[[*COLUMNS.values()]].to_numpy(bool)
    stays = has_finding.any(axis=1) | ~every["patient"].map(dropped).to_numpy(bool)
    kept, has_finding = every[stays].reset_index(drop=True), has_finding[stays]
    if kept.empty:
        raise MissingData(
            f"{root / code.TABLE} names no record of {code.LIST}; ask for both again: {CARD.url}"
        )
    strata = [["any", *np.array(TASK.labels)[row].tolist()] for row in has_finding]
    return kept.assign(**dealt(CARD.folder, kept["patient"].tolist(), strata, CARD.folds, TURN))


def dropped(patient: str) -> bool:
    """Whether a patient's recordings without a diagnosis are left out."""
    return seed_of(NAME, patient) < DROPPED * 2**64


read = code.read
