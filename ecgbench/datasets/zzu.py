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
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.cards.dataset import DatasetCard, Download, Task
from ecgbench.datasets._labels import multi_hot, table
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.folds import framed
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import wfdb
from ecgbench.ecg.recording import Recording
from ecgbench.errors import MissingData

TABLE, SIGNALS = "AttributesDictionary.csv", "Child_ecg"
COLUMNS = ("Filename", "ECG_ID", "Patient_ID", "Age", "Gender", "Lead", "AHA_code", "ICD-10 code")
VOCABULARY = table("zzu_vocabulary")
AHA = {r["aha_code"]: r["description"] for r in VOCABULARY if r["reachable"] == "1"}
FINDINGS = {c: d for c, d in AHA.items() if not c.startswith("Modifier")}
WORDS = {r["description"].lower(): r["description"] for r in VOCABULARY if r["kind"] == "finding"}
WORDS["short pr interval"] = WORDS["short pr interva"]  # copies of the list differ here
YEARS = (1, 5, 12, 18)
"""Limits of the groups of age of the folds."""

LEAST, TWELVE = 10, 12_334
"""Records that a label has at least, and recordings of twelve leads in the release."""
TASK = Task(
    name="zzu",
    title="ZZU pECG",
    labels=tuple(sorted(AHA.values())),
    rule="reference code",
    paper=58,
    absent="not among its statements, or there with a modifier or in words",
    least=LEAST,
    complete=TWELVE,
)
CORRECTED = Task(
    name="zzu_corrected",
    title="ZZU pECG corrected",
    labels=tuple(sorted({*FINDINGS.values(), *WORDS.values()})),
    rule="ours",
    absent="not among its statements",
    least=LEAST,
    complete=TWELVE,
)
CARD = DatasetCard(
    title="ZZU pECG",
    version="figshare 27078763",
    doi="10.6084/m9.figshare.27078763",
    licence="CC BY 4.0",
    url="https://doi.org/10.6084/m9.figshare.27078763",
    folder="zzu",
    records=14_190,
    patients=11_643,
    fs=500.0,
    seconds=30.0,
    leads=LEADS,
    index_files=(TABLE, SIGNALS),
    tasks=(TASK, CORRECTED),
    splits=(
        "ours: 10 folds by patient, stratified on ICD-10 codes, sex and age, not on the labels "
        "(8 train, 1 val, 1 test)"
    ),
    min_seconds=10.0,
    country="China",
    cautions=(
        "labels that fewer than 10 of the 12,334 recordings of twelve leads carry are dropped "
        "on the complete release; the paper has 58, counted on the 12,328 of at least 10 s",
        "the rule of task zzu loses statements with modifiers and those in words, such as left "
        "ventricular high voltage (2,789 records)",
        "1,856 recordings without V2, V4 and V6 are left out, whose children are sick more often "
        "(50 % against 23 %)",
        "11.8 % of the recordings touch a rail at about 26.6 mV",
    ),
)
_FIGSHARE = "https://ndownloader.figshare.com/files/"
FILES = tuple(
    Download(url=f"{_FIGSHARE}{number}", path=path, md5=md5, size=size)
    for number, path, md5, size in (
        (53580632, TABLE, "ffbbb7ebd8ad4425b3a859739eb65eb1", 7_717_825),
        (53523902, f"{SIGNALS}.zip", "d7bb207d0f559c5f697bd7e442975718", 1_908_237_306),
        (53524583, f"{SIGNALS}.z01", "4782e8c17b478745853db85210ce46aa", 2_147_483_648),
    )
)


def index(root: Path) -> pd.DataFrame:
    """One row per recording of twelve leads: record, patient, split, fold, path, age in years, sex
    and a column per label of both tasks.
    """
    raw = tables.read(root / TABLE, COLUMNS, CARD.url)
    rows = raw[raw["Lead"].str.strip() == "12"].reset_index(drop=True)
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
    hot = (multi_hot(own, t.name, t.labels) for t, own in ((TASK, exact), (CORRECTED, found)))
    return pd.concat([frame, *hot], axis=1)


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV by the gain of each lead; BadRecord where it cannot be trusted."""
    return wfdb.read(root / row["path"], row["record"], row["patient"], CARD.fs)


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
