"""PTB-XL: 21,799 clinical 12-lead ECGs of 18,869 patients, 10 s at 500 Hz, labelled with 71 SCP-ECG
statements.

P. Wagner et al., Sci Data 7:154 (2020), doi 10.1038/s41597-020-0495-6. Layout as published on
PhysioNet:

    ptbxl/ptbxl_database.csv
    ptbxl/records500/00000/00001_hr.{hea,dat}   WFDB format 16, 1000 steps per mV

A statement counts as present when it is a key of `scp_codes`, whatever its likelihood (0 means
unknown, not absent). Records without any label of a task stay in it as rows of zeros.
"""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.datasets._cards import card, manifest
from ecgbench.datasets._labels import codes, multi_hot, table
from ecgbench.datasets.indexing import tables
from ecgbench.datasets.indexing.records import reader
from ecgbench.ecg.readers import wfdb
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

GAIN = 1000.0
"""Digital steps per mV in every published header."""


CARD = card("ptbxl")
MANIFEST = manifest("ptbxl")
(TABLE,) = CARD.index_files

COLUMNS = ("ecg_id", "patient_id", "scp_codes", "strat_fold", "filename_hr")
SEX = {"0": "male", "1": "female"}
NOTED = ("baseline_drift", "static_noise", "burst_noise", "electrodes_problems")
"""Columns in which a technician noted what disturbs a recording."""
OVER_89 = 300.0
"""How the table says an age of more than 89 years; 90 stands in the index."""


def index(root: Path) -> pd.DataFrame:
    """One row per record of the copy at `root`: record, patient, split, fold, path, age, sex,
    device, site, noted, and a column per label.

    MissingData when the table lacks a column or cannot be parsed; BadRecord for a row that cannot
    be trusted.
    """
    file = root / TABLE
    raw = tables.read(file, COLUMNS, CARD.url)
    # whole numbers, some of them as 10.0; a float would make one of several that are large
    number = raw[["ecg_id", "patient_id", "strat_fold"]].apply(
        lambda column: column.str.extract(r"^\s*0*([0-9]+)(?:\.0*)?\s*$")[0]
    )
    fold = pd.to_numeric(number["strat_fold"])
    present = [_statements(text) for text in raw["scp_codes"]]
    known = {*codes("ptbxl_all")}
    sound = number.notna().all(axis=1) & fold.between(1, 10) & (raw["filename_hr"] != "")
    sound &= np.array([known.issuperset(own) for own in present])
    for row in raw.loc[~sound, list(COLUMNS)].to_dict("records"):
        said = ", ".join(f"{column} {value[:60]!r}" for column, value in row.items())
        raise BadRecord(
            f"{file}: a row cannot be understood, or has other statements than the 71 of PTB-XL "
            f"1.0.3: {said}; download it again from {CARD.url}"
        )
    rows = pd.DataFrame(
        {
            # the files of a record are named by its number in five digits
            "record": number["ecg_id"].str.zfill(5),
            "patient": number["patient_id"],
            "split": fold.map({9: "val", 10: "test"}).fillna("train"),
            "fold": fold.astype(int),
            "path": raw["filename_hr"],
        }
    )
    classes = {r["scp_code"]: r for r in table("ptbxl_scp")}
    diagnostic = [
        [classes[code] for code in own if classes[code]["diagnostic"] == "1"] for own in present
    ]
    hot = [
        multi_hot(present, "ptbxl_all"),
        *(
            multi_hot([{one[of] for one in own} for own in diagnostic], f"ptbxl_{of[:-5]}")
            for of in ("subclass", "superclass")
        ),
    ]
    return rows.join([_people(raw), *hot])


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """The record of one row of the index at 500 Hz in mV, leads in clinical order; BadRecord if it
    cannot be trusted.
    """
    return _read(root, row).clinical()


_read = reader(wfdb.read, CARD.fs, GAIN)


def _people(raw: pd.DataFrame) -> pd.DataFrame:
    """age, sex, device, site and whether a technician noted bad quality ("yes", "no") as text; ""
    where the table does not say it.
    """
    described = raw.reindex(columns=["age", "sex", "device", "site"], fill_value="")
    noted = raw.reindex(columns=[*NOTED], fill_value="").apply(
        lambda column: column.str.strip() != ""
    )
    noted = noted.any(axis=1).map({True: "yes", False: "no"})
    over = pd.to_numeric(described["age"], errors="coerce") == OVER_89
    return described.assign(
        age=described["age"].mask(over, "90"),
        sex=described["sex"].str.removesuffix(".0").map(SEX).fillna(""),
        device=described["device"].str.split().str.join(" ").astype(str),
        site=described["site"].str.removesuffix(".0"),
        noted=noted if {*NOTED} <= {*raw} else "",
    )


def _statements(text: str) -> tuple[str, ...]:
    """The keys of a dictionary as it is written; "" where it is none, which is no statement."""
    try:
        said = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return ("",)
    return tuple(said) if isinstance(said, dict) else ("",)
