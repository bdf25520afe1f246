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
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.core.text import one_line, shortened
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
    rows = pd.DataFrame(
        [_row(file, *values) for values in raw[list(COLUMNS)].itertuples(index=False)]
    )
    present = rows.pop("codes").tolist()
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
    over = pd.to_numeric(described["age"], errors="coerce") == OVER_89
    return described.assign(
        age=described["age"].mask(over, "90"),
        sex=described["sex"].str.removesuffix(".0").map(SEX).fillna(""),
        device=described["device"].str.split().str.join(" ").astype(str),
        site=described["site"].str.removesuffix(".0"),
        noted=_noted(raw),
    )


def _noted(raw: pd.DataFrame) -> pd.Series:
    if not {*NOTED} <= {*raw}:
        return pd.Series("", raw.index)
    said = raw[list(NOTED)].apply(lambda column: column.str.strip() != "").any(axis=1)
    return said.map({True: "yes", False: "no"})


def _whole(text: str) -> str:
    """A whole number as it is written, without the `.0` of some and without zeros before it. A
    float would make one of several that are large.
    """
    found = re.fullmatch(r"\s*(-?\d+)(\.0*)?\s*", text)
    if found is None:
        raise ValueError(f"{text} is not a whole number")
    return str(int(found[1])) if re.fullmatch("[0-9]+", found[1]) else found[1]


def _row(
    file: Path, ecg_id: str, patient_id: str, scp_codes: str, strat_fold: str, filename_hr: str
) -> dict[str, object]:
    """One checked row; BadRecord names the file, the record and the value."""
    try:
        # the official file writes whole numbers, some of them as 10.0
        number, fold, patient = _whole(ecg_id), int(_whole(strat_fold)), _whole(patient_id)
        present = ast.literal_eval(scp_codes)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise BadRecord(
            f"{file}: the row of ecg_id {ecg_id[:60]!r} is malformed ({one_line(error)})"
        ) from error
    if not isinstance(present, dict) or not 1 <= fold <= 10 or not filename_hr:
        raise BadRecord(
            f"{file}: ecg_id {ecg_id}: scp_codes {scp_codes[:60]!r}, strat_fold {strat_fold!r}, "
            f"filename_hr {filename_hr!r}"
        )
    unknown = sorted({str(c) for c in present} - set(codes("ptbxl_all")))
    if unknown:
        raise BadRecord(
            f"{file}: ecg_id {ecg_id} carries {shortened(', '.join(unknown), 200)}, not among the "
            f"71 SCP statements of PTB-XL 1.0.3"
        )
    split = {9: "val", 10: "test"}.get(fold, "train")
    return {
        # the files of a record are named by its number in five digits
        "record": number.zfill(5) if re.fullmatch("[0-9]+", number) else number,
        "patient": patient,
        "split": split,
        "fold": fold,
        "path": filename_hr,
        "codes": tuple(present),
    }
