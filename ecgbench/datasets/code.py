"""CODE: 2.3 million ECGs of 1.7 million patients of the Telehealth Network of Minas Gerais, Brazil:
a corpus for pre-training, given on request.

A. H. Ribeiro et al., Nat Commun 11:1760 (2020), doi 10.1038/s41467-020-15432-4; data doi
10.17044/scilifelab.15169716. Layout as the reference benchmark reads it:

    code/annotations.csv       id_exam, id_patient, date_exam, sex, age, six diagnoses
    code/wfdb/RECORDS.txt      a record a line, below wfdb/: S0010/TNMG1_N1
    code/wfdb/S0010/TNMG1_N1.{hea,dat}

An exam (the number behind TNMG) has one record or several. Leads carry a D: DI, DII, DIII. The
diagnoses are not read: nothing is tested on these records, of which CODE-15% is a part; a part of
them with diagnoses is the dataset ribeiro_dev. An exam that the annotations name twice has no
patient and no diagnosis that could be trusted: its records are quarantined.
"""

import re
from pathlib import Path

import pandas as pd

from ecgbench.datasets._cards import card
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.records import reader
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import wfdb
from ecgbench.errors import MissingData

NAMES = {f"D{lead.upper()}": lead for lead in LEADS}
"""As the headers spell leads, in capitals -> standard names."""
CARD = card("code")
TABLE, LIST = CARD.index_files


def index(root: Path) -> pd.DataFrame:
    """One row per line of the list: record, patient, split, path, exam, damaged."""
    notes = tables.read(root / TABLE, ("id_exam", "id_patient"), CARD.url)
    patients = dict(zip(notes["id_exam"], notes["id_patient"], strict=True))
    twice = {*notes.loc[notes["id_exam"].duplicated(), "id_exam"]}
    text = (root / LIST).read_text(encoding="utf-8-sig", errors="replace")
    paths = [line.strip().removesuffix(".hea") for line in text.splitlines() if line.strip()]
    stems = [path.rpartition("/")[2] for path in paths]
    named = [re.fullmatch(r"TNMG(\d+)_N\d+", stem) for stem in stems]
    if not paths or None in named:
        odd = stems[named.index(None)] if paths else "nothing"
        raise MissingData(
            f"{root / LIST} lists {odd[:60]!r}, where records are called TNMG<exam>_N<number>; "
            f"ask for it again: {CARD.url}"
        )
    exams = [match[1] for match in named if match]
    return pd.DataFrame(
        {
            "record": stems,
            "patient": [patients.get(exam) or f"exam {exam}" for exam in exams],
            "split": "train",
            "path": [f"wfdb/{path}" for path in paths],
            "exam": exams,
            "damaged": [
                f"{TABLE} names its exam {exam} twice" if exam in twice else "" for exam in exams
            ],
        }
    )


read = reader(wfdb.read, names=NAMES)  # at the rate of each record
