"""The text of the card file of an imported dataset: a dataset's plug-in that a person may edit."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers.said import Said

_TEXT = '''"""{title}: own recordings, as `ecgbench data import` found them. Edit it freely.

records.csv beside this file has a line per record: file, patient, fold (or split) and labels. A
line with a reason in the column left_out is counted and not used. Importing again takes what was
corrected in the table of labels, and keeps what was edited here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.core.cards import DatasetCard, Task
{more}from ecgbench.ecg.readers.said import Said
from ecgbench.ecg.recording import Recording
from ecgbench.data.own import records

RECORDINGS = {place}  # their folder: absolute, or from the folder of this file
SAID = {said}  # of files that do not say it themselves
TABLE = records.read(__file__)

CARD = DatasetCard(
    title={quoted},
    version="1",  # raise it when you publish numbers on other records
    doi="",
    licence="own recordings",
    url="",
    folder={folder},  # below --data, where RECORDINGS is not there
    synthetic=False,
    records=len(TABLE),
    patients=TABLE["patient"].nunique(),
    patients_known={known!r},
    fs={fs!r},  # of most records, Hz
    seconds={seconds!r},  # the usual duration
    leads={leads},
    any_leads=True,  # a record may have one of them, some, or all
    index_files=(),
    tasks=(
        Task(
            name={name},
            title={quoted},
            labels={labels},
            rule="ours",
            absent="not among its labels",  # what 0 means: say who looked, and for what{masked}
        ),
    ),
    splits={splits},
    folds={folds!r},
    losses=records.losses(TABLE),
    verified="genuine release",  # every file was read when it was imported
    access="own recordings",
    country="",
    cautions=(),  # what a reader of the numbers must know, one sentence each
)


def index(root: Path) -> pd.DataFrame:
    """One row per record of records.csv."""
    return records.index(TABLE, CARD)


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV."""
    return records.recording(root, row, SAID)
'''


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the card says of the recordings."""

    name: str
    labels: Sequence[str]
    leads: Sequence[str]
    fs: float
    seconds: float
    patients_known: bool
    splits: str
    folds: int
    masked: bool
    """Whether a label of a record is unknown."""


def text(found: Found, said: Said, recordings: Path, folder: Path) -> str:
    """The card file that will lie in `folder`."""
    title, whole = found.name.replace("_", " ").capitalize(), tuple(found.leads) == LEADS
    return _TEXT.format(
        more="from ecgbench.ecg.leads import LEADS\n" if whole else "",
        title=title,
        quoted=_quoted(title),
        name=_quoted(found.name),
        place=_quoted(_place(recordings, folder)),
        folder=_quoted(recordings.resolve().name),
        said=_said(said),
        known=found.patients_known,
        fs=found.fs,
        seconds=found.seconds,
        leads="LEADS" if whole else _tuple(found.leads),
        labels=_tuple(found.labels, 12),
        splits=_quoted(found.splits),
        folds=found.folds,
        masked="\n            masked=True," if found.masked else "",
    )


def _place(recordings: Path, folder: Path) -> str:
    """From `folder` where the two lie beside or in one another, so that they can be moved together;
    else absolute.
    """
    recordings, folder = recordings.resolve(), folder.resolve()
    near = recordings.parent == folder.parent or folder in recordings.parents
    near |= recordings in folder.parents
    return os.path.relpath(recordings, folder) if near else str(recordings)


def _said(said: Said) -> str:
    """What was said of the files, as code."""
    given = {name: value for name, value in asdict(said).items() if value}
    words = [
        f"{name}={_tuple(value) if isinstance(value, tuple) else json.dumps(value)}"
        for name, value in given.items()
    ]
    return f"Said({', '.join(words)})"


def _quoted(text: str) -> str:
    """A text as code: of JSON, which Python reads alike."""
    return json.dumps(text, ensure_ascii=False)


def _tuple(words: Sequence[str], indent: int = 4) -> str:
    short = "(" + ", ".join(map(_quoted, words)) + ("," if len(words) == 1 else "") + ")"
    if len(short) <= 76 - indent:
        return short
    gap = " " * indent
    return "(\n" + "".join(f"{gap}    {_quoted(word)},\n" for word in words) + f"{gap})"
