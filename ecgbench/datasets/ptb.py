"""PTB: 549 recordings of 290 people, 32 to 120 s at 1000 Hz, with the diagnoses of their hospital.

R. Bousseljot et al., Biomed Tech 40 (suppl 1):317 (1995), doi 10.13026/C28C71. Layout as published
on PhysioNet:

    ptbdb/patient001/s0010_re.hea    15 signals, 2000 steps per mV, comments, lines that end in CRLF
    ptbdb/patient001/s0010_re.dat    the twelve leads, WFDB format 16
    ptbdb/patient001/s0010_re.xyz    the leads of Frank, which are not read

Labels are the comments "Reason for admission" and "Additional diagnoses" (separated by commas). As
in the reference benchmark, variants of a spelling are one diagnosis, and an infarction is acute
where the recording follows its date by 0 to 3 days, else old; an acute one is catheterized where
the (second) date of a catheterization is not before that of the infarction, even if it is after the
recording. A header without a diagnosis gives a row of zeros.
"""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pandas as pd

from ecgbench.datasets._cards import card, manifest
from ecgbench.datasets._labels import multi_hot, table
from ecgbench.datasets.indexing.folds import framed
from ecgbench.datasets.indexing.records import headers, reader
from ecgbench.ecg.readers import wfdb
from ecgbench.errors import MissingData

GAIN = 2000.0
"""Digital steps per mV in every published header."""
CARD = card("ptb")
MANIFEST = manifest("ptb")
(TASK,) = CARD.tasks

NONE = ("", "no", "n/a", "unknown", "M. Bechterew", "M. Basedow")
"""What stands for no diagnosis; the last two the reference benchmark leaves out by name."""
# "Coronary artery disease (PTCA+Stent)" stays apart: the reference's entry for it never matches
SPELLINGS = {
    other: row["code"] for row in table("ptb") for other in row["spellings"].split("|") if other
}
INFARCTION = "Myocardial infarction"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def index(root: Path) -> pd.DataFrame:
    """One row per header: record, patient, split, fold, path, age, sex and a column per label.

    MissingData where there is no header, or one whose comments cannot be understood.
    """
    files = headers(
        root,
        CARD,
        lambda file: re.fullmatch(r"patient\d{3}", file.parent.name),
        "patient000/*.hea",
    )
    notes = {file: wfdb.comments(file) for file in files.values()}
    diagnosed = [diagnoses(file, note) for file, note in notes.items()]
    records = Counter(d for own in diagnosed for d in set(own))
    frequent = sorted(d for d, n in records.items() if n >= (TASK.least or 0))
    labels = tuple(dict.fromkeys([*TASK.labels, *frequent]))
    # folds rest on the labels: counted ones where the release is complete
    strata = frequent if len(notes) == TASK.complete else TASK.labels
    known = [[d for d in own if d in strata] for own in diagnosed]
    frame = framed(
        CARD,
        [file.stem for file in notes],
        [file.parent.name for file in notes],
        known,
        list(files),
        age=[note.get("age", "") for note in notes.values()],
        sex=[note.get("sex", "") for note in notes.values()],
    )
    hot = [[d for d in own if d in labels] for own in diagnosed]
    return frame.join(multi_hot(hot, TASK.name, labels))


read = reader(wfdb.read, CARD.fs, GAIN)


def diagnoses(file: Path, note: Mapping[str, str]) -> tuple[str, ...]:
    """The diagnoses in the comments of a header, as often as they are mentioned."""
    try:
        mentioned = [note["Reason for admission"], *note["Additional diagnoses"].split(",")]
        stage = _stage(note)
    except (KeyError, ValueError) as error:
        raise MissingData(
            f"{file} has no comment that can be understood ({error}); download it again from "
            f"{CARD.url}"
        ) from error
    diagnosed = [d.strip() for d in mentioned if d.strip() not in NONE]
    names = [SPELLINGS.get(d, d) for d in diagnosed]
    return tuple(d + stage if d == INFARCTION else d for d in names)


def _stage(note: Mapping[str, str]) -> str:
    recorded = _date(note["ECG date"], r"(\d+)/(\d+)/(\d{4})")
    infarction = _date(note["Infarction date (acute)"], r"(\d+)-(\w{3})-(\d\d)")
    catheter = _date(note["Catheterization date"], r"(\d+)-(\w{3})-(\d\d)")
    if not recorded or not infarction or not 0 <= (recorded - infarction).days <= 3:
        return " old"
    return " acute catheterized" if catheter and catheter >= infarction else " acute"


def _date(text: str, form: str) -> date | None:
    """A date, years without a century as POSIX reads them; None where there is none."""
    if text in (*NONE, "-"):
        return None
    found = re.fullmatch(form, text)
    if found is None:
        raise ValueError(f"{text!r} is no date")
    day, month, year = found.groups()
    number = int(month) if month.isdigit() else 1 + MONTHS.index(month)
    century = 0 if len(year) == 4 else 1900 if int(year) > 68 else 2000
    return date(century + int(year), number, int(day))
