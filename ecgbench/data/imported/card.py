"""The text of the card file of an imported dataset, an editable plug-in."""

import ast
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ecgbench.ecg.readers.notation import ReadOptions

_TEXT = '''"""{heading}: own recordings, as `ecgbench data import` found them. Edit it freely.

records.csv beside this file has a line per record: file, patient, fold (or split) and labels. A
line with a reason in the column left_out is counted and not used. Importing again takes what was
corrected in the table of labels, and keeps what was edited here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.core.cards import DatasetCard, Task
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.ecg.recording import Recording
from ecgbench.data.imported import records

RECORDINGS = {recordings}  # their folder: absolute, or from the folder of this file
OPTIONS = {options}  # of files that do not say it themselves
LABELS = {labels}
TABLE = records.read(__file__)

CARD = DatasetCard(
    title={title},
    version="1",  # raise it when you publish numbers on other records
    doi="",
    licence="own recordings",
    url="",
    folder={folder},  # below --data, where RECORDINGS is not there
    synthetic=False,
    records=len(TABLE),
    patients=TABLE["patient"].nunique(),
    patients_known={patients_known},
    fs={fs},  # of most records, Hz
    seconds={seconds},  # their mean duration
    leads={leads},
    any_leads=True,  # a record may have one of them, some, or all
    index_files=(),
    tasks=(
        Task(
            name={name},
            title={title},
            labels=LABELS,
            rule="ours",
            absent="not among its labels",  # what 0 means: say who looked, and for what
            masked={masked},  # whether a label of a record is unknown
        ),
    ),
    splits={splits},
    folds={folds},
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
    return records.recording(root, row, OPTIONS)
'''


def text(facts: Mapping[str, object], options: ReadOptions, recordings: Path, folder: Path) -> str:
    """The card file in `folder`, with a line per fact, so that a later import can change single
    lines. facts: its fields, with `name`, `labels`, `masked` and `folds` of its task.
    """
    return _TEXT.format(
        **{name: repr(value) for name, value in facts.items()},
        heading=(title := str(facts["name"]).replace("_", " ").capitalize()),
        title=repr(title),
        recordings=repr(_relative_or_absolute(recordings, folder)),
        folder=repr(recordings.resolve().name),
        options=repr(options),
    )


def options_of(card: Path) -> ReadOptions:
    """OPTIONS in a card file, which is read and not run: that of a run may come from anybody. None
    are set where there is no such file or line.
    """
    with suppress(OSError, SyntaxError, ValueError, TypeError):
        for node in ast.parse(card.read_text(encoding="utf-8")).body:
            match node:
                case ast.Assign(targets=[ast.Name(id="OPTIONS")], value=ast.Call() as call):
                    typed = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
                    return ReadOptions(**typed)
    return ReadOptions()


def _relative_or_absolute(recordings: Path, folder: Path) -> str:
    """From `folder` where the two lie beside or in one another, so that they can be moved together;
    else absolute.
    """
    recordings, folder = recordings.resolve(), folder.resolve()
    near = recordings.parent == folder.parent or folder in recordings.parents
    near |= recordings in folder.parents
    return os.path.relpath(recordings, folder) if near else str(recordings)
