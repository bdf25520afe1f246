"""ZZU pECG: 14,190 recordings of 5 to 120 s from 11,643 children, statements after the AHA.

First Affiliated Hospital of Zhengzhou University, figshare, doi 10.6084/m9.figshare.27078763:

    zzu/AttributesDictionary.csv                  a line per recording; values in single quotes
    zzu/Child_ecg/P00/P00001/P00001_E01.{hea,dat} of Child_ecg.zip and .z01, joined (7z, zip -s 0)

Recordings of nine leads and those shorter than 10 s are left out, as in the reference benchmark.
Its rule is the task `zzu`: a statement counts where it equals a code of the AHA list, so one with a
modifier (`F60+Modifier310`) and a finding without an AHA code, which stands in words, are lost. The
task `zzu_corrected` reads both; modifiers themselves are no labels in it.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from ecgbench.datasets._cards import card, downloads
from ecgbench.datasets._labels import multi_hot, table
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.folds import framed
from ecgbench.datasets.indexing.records import reader
from ecgbench.ecg.readers import wfdb
from ecgbench.errors import MissingData

COLUMNS = ("Filename", "ECG_ID", "Patient_ID", "Age", "Gender", "Lead", "AHA_code", "ICD-10 code")
VOCABULARY = table("zzu_vocabulary")
AHA = {r["aha_code"]: r["description"] for r in VOCABULARY if r["reachable"] == "1"}
FINDINGS = {c: d for c, d in AHA.items() if not c.startswith("Modifier")}
WORDS = {r["description"].lower(): r["description"] for r in VOCABULARY if r["kind"] == "finding"}
WORDS["short pr interval"] = WORDS["short pr interva"]  # copies of the list differ here
YEARS = (1, 5, 12, 18)
"""Limits of the groups of age of the folds."""

CARD = card(
    "zzu",
    labels={
        "zzu": sorted(AHA.values()),
        "zzu_corrected": sorted({*FINDINGS.values(), *WORDS.values()}),
    },
)
FILES = downloads("zzu")
TABLE, SIGNALS = CARD.index_files
TASK, CORRECTED = CARD.tasks


def index(root: Path) -> pd.DataFrame:
    """One row per recording of twelve leads: record, patient, split, fold, path, age in years, sex
    and a column per label of both tasks.
    """
    raw = tables.read(root / TABLE, COLUMNS, CARD.url, ids=COLUMNS[:3])
    leads = raw["Lead"].str.strip()
    for odd in leads[~leads.isin(["9", "12"])]:
        raise MissingData(
            f"{root / TABLE}: a recording has {odd[:20]!r} leads, not 9 or 12; download it again "
            f"from {CARD.url}"
        )
    rows = raw[leads == "12"].reset_index(drop=True)
    if rows.empty:
        raise MissingData(f"{root / TABLE} names no recording of 12 leads; take that of {CARD.url}")
    sex = rows["Gender"].map(lambda value: "".join(_items(value)))
    known = [
        ["every", f"sex {s}", f"age {_group(age)}", *_items(icd)]
        for s, age, icd in zip(sex, rows["Age"], rows["ICD-10 code"])
    ]
    paths, ages = f"{SIGNALS}/" + rows["Filename"], [_years(age) for age in rows["Age"]]
    frame = framed(CARD, rows["ECG_ID"], rows["Patient_ID"], known, paths, age=ages, sex=sex)
    stated = [_items(value) for value in rows["AHA_code"]]
    exact = [{AHA[s] for s in statements if s in AHA} for statements in stated]
    found = [findings(statements) for statements in stated]
    for task, own in ((TASK, exact), (CORRECTED, found)):
        frame = frame.join(multi_hot(own, task.name, task.labels))
    return frame


read = reader(wfdb.read, CARD.fs)


def findings(statements: Iterable[str]) -> set[str]:
    """The findings in some statements, without their modifiers.

    >>> sorted(findings(["F60+Modifier310", "Abnormal Q wave", "N(180 + 181)", "Modifier308"]))
    ['Abnormal Q wave', 'Pacing rhythm', 'Ventricular premature complex(es)']
    """
    parts = {p.strip() for s in statements for p in re.split(r"\+(?![^(]*\))", s)}
    found = {FINDINGS.get(p) or WORDS.get(" ".join(p.lower().split())) for p in parts}
    return {f for f in found if f}


def _items(packed: str) -> list[str]:
    """`'A1';'C21'` as A1, C21."""
    return [item for part in packed.split(";") if (item := part.strip().strip("'\"").strip())]


def _years(age: str) -> str:
    """The years of an age in days as in `572d`; "" where it is not known.

    >>> _years("572d")
    '1.57'
    """
    days = age.strip().removesuffix("d")
    return f"{int(days) / 365.25:.2f}" if days.isdigit() else ""


def _group(age: str) -> str:
    """The group of an age in days as in `572d`; one for all that are not known."""
    days = age.strip().removesuffix("d")
    return str(sum(int(days) / 365.25 >= limit for limit in YEARS)) if days.isdigit() else "?"
