"""Own recordings: the dataset that an import wrote, as data.

    mine/card.toml      what a person says of them, and what the import found
    mine/records.csv    a line per record
    mine/prepared/      the recordings as they are used (`data.copy`)

    record,file,patient,fold,af,age,leads,fs,seconds,sha256,left_out
    A1,a/A1.csv,P1,3,1,63,I+II,100,10,5f2a...,
    A2,a/A2.csv,P1,3,0,63,,,,77b0...,A2.csv is truncated: ...

`file` is from the folder of the recordings. `fold` (the last is the test split, the one before it
the validation split) may be `split` instead. A label is 0, 1, or empty where it is unknown. A
reason in `left_out` keeps a record out of everything but the list of what was left out.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cards.checked import CheckedFields
from ecgbench.cards.dataset import DatasetCard, Task
from ecgbench.core.text import one_line
from ecgbench.datasets.indexing import sheet
from ecgbench.datasets.indexing.folds import splits
from ecgbench.datasets.indexing.tables import one_spelling
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import by_suffix
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting, MissingData, UnknownName
from ecgbench.stats.known import UNKNOWN

CARD, TABLE, COPIES = "card.toml", "records.csv", "prepared"
"""Files and folder of an import."""
IMPORTED = "import_fold"
"""Column of an imported index: the fold from the import or from the table."""
FOUND = ("leads", "fs", "seconds", "sha256")
"""Columns of what was found in the files of a record."""
OF_AN_INDEX = (
    *("record", "file", "patient", "path", "split", "fold", "left_out", "damaged", *FOUND),
    *("samples", "flat", "available", "found", "fixed", "strata", "turn", IMPORTED),
)
"""Columns of every index, or of every import; no other column may have these names."""
LOSSES = 0.005
"""Share of the records that may be lost besides those that the import left out."""


def _with(remark: str, **more: Any) -> Any:
    return field(metadata={"": remark}, **more)


@dataclass(frozen=True, kw_only=True)
class Card(CheckedFields):
    """What card.toml says, a line per field."""

    title: str
    absent: str = _with("what a label of 0 means", default="not among its labels")
    version: str = _with("raise it when you publish numbers on other records", default="1")
    licence: str = "own recordings"
    country: str = ""
    cautions: tuple[str, ...] = _with("what a reader of the numbers must know", default=())
    recordings: str = _with("their folder, from the folder of this file")
    fs: float = _with("Hz, of files that do not state it; 0: all do", default=0)
    unit: str = _with("of files that do not state it", default="")
    signals: tuple[str, ...] = _with("leads in the order of the file, or NAME=LEAD", default=())
    name: str
    labels: tuple[str, ...] = _with(f"columns of {TABLE}")
    patients_known: bool
    splits: str = ""
    request: str = _with("sha256 of the options, the table of labels and all files")
    table: str = _with(f"sha256 of {TABLE}", default="")
    before: str = _with("and of the one that it replaced", default="")
    typed: dict[str, Any] = field(default_factory=dict)
    dropped: dict[str, Any] = field(default_factory=dict)
    """Earlier patients, and where they were."""

    @property
    def options(self) -> ReadOptions:
        """Of files that do not say it themselves."""
        return ReadOptions(fs=self.fs or None, unit=self.unit or None, signals=tuple(self.signals))

    @property
    def text(self) -> str:
        """The file."""
        head = "# Own recordings, imported by ecgbench. The lines above recordings are yours."
        each = [(f"{one.name} = {_toml(getattr(self, one.name))}", one) for one in fields(self)]
        remarks = [f"{line}  # {one.metadata['']}" if one.metadata else line for line, one in each]
        return "\n".join([head, *remarks, ""])


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml(key)} = {_toml(of)}' for key, of in value.items())}}}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def card(file: Path) -> Card:
    """What a card.toml says; BadSetting in one line."""
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadSetting(f"{file} cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise BadSetting(f"{file} is not TOML: {error}; correct that line") from None
    known = {one.name: one for one in fields(Card)}
    if unknown := [name for name in said if name not in known]:
        raise BadSetting(f"{file}: {UnknownName('setting', unknown[0], known)}")
    for name, one in known.items():
        if name not in said and one.default is one.default_factory is MISSING:
            raise BadSetting(f"{file} has no line {name}; {AGAIN}")
    try:
        made = Card(**said)
        made.options  # noqa: B018  (refuses a unit that is none)
    except BadSetting as error:
        raise BadSetting(f"{file}: {str(error).removeprefix('Card: ').lstrip('-')}") from None
    return made


AGAIN = "import the recordings again: ecgbench data import FOLDER --labels TABLE"
_NUMBER = r"\d+([.]\d+)?(e[+-]?\d+)?"


def table(file: Path) -> pd.DataFrame:
    """records.csv, every value a str; MissingData in one line where it is none."""
    found = sheet.read(file)
    made = found.rows
    column = "fold" if "fold" in made else "split"
    for name in ("record", "file", "patient", column, *FOUND):
        if name not in made:
            raise MissingData(f"{file} lacks the column {name!r}; {AGAIN}")
    made["left_out"] = made.get("left_out", "")
    used, place = made["left_out"] == "", r"\d+" if column == "fold" else "train|val|test"
    odd = {
        "is there twice; remove one of the lines": made["file"][made["file"].duplicated()],
        f"is no {column}": made[column][~made[column].str.fullmatch(place)],
        "is no number of Hz": made["fs"][used & ~made["fs"].str.fullmatch(_NUMBER)],
        "is no number of s": made["seconds"][used & ~made["seconds"].str.fullmatch(_NUMBER)],
    }
    for what, cells in odd.items():
        for line, cell in cells.items():
            raise MissingData(f"{found.at(line)}: {cell!r} {what}")
    return made.assign(patient=one_spelling(made["patient"])).reset_index(drop=True)


def split_of(table: pd.DataFrame) -> np.ndarray:
    """(record,) the split of each record, from its fold where there are folds."""
    if "fold" in table:
        return splits(table["fold"].astype(int).to_numpy())
    return table["split"].to_numpy(object)


class Recordings(ModuleType):
    """The recordings of one's own in a folder, as a plug-in."""

    def __init__(self, file: Path, said: Card, table: pd.DataFrame) -> None:
        super().__init__(f"ecgbench_own_{said.name}", f"{said.title}: own recordings.")
        self.__file__ = str(file)
        self.said, self.table = said, table

    @property
    def column(self) -> str:
        """The column of splits: "fold" or "split"."""
        return "fold" if "fold" in self.table else "split"

    @property
    def home(self) -> Path:
        """Folder of its prepared copies."""
        return Path(str(self.__file__)).absolute().with_name(COPIES)

    @property
    def root(self) -> Path:
        """Folder of the recordings, as the card says it; it may not exist."""
        return place(Path(str(self.__file__)), self.said)[0]

    @cached_property
    def CARD(self) -> DatasetCard:
        """Facts of the usable records, and what card.toml says."""
        said, table = self.said, self.table
        usable = table[table["left_out"] == ""]
        have = {lead for leads in usable["leads"] for lead in leads.split("+")}
        task = Task(
            rule="ours",
            labels=tuple(said.labels),
            **{name: getattr(said, name) for name in ("name", "title", "absent")},
            masked=any(UNKNOWN in values(table, name) for name in said.labels),
        )
        same = ("title", "version", "licence", "patients_known", "splits", "country")
        return DatasetCard(
            **{name: getattr(said, name) for name in same},
            folder=self.root.name,
            records=len(table),
            patients=table["patient"].nunique(),
            fs=float(usable["fs"].astype(float).mode().min()),
            seconds=round(float(usable["seconds"].astype(float).mean()), 3),
            leads=tuple(lead for lead in LEADS if lead in have),
            any_leads=True,
            tasks=(task,),
            folds=int(table["fold"].astype(int).max()) if "fold" in table else 3,
            # a run with --limit may have more of those that the import left out
            losses=min(1.0, 2 * float((table["left_out"] != "").mean()) + LOSSES),
            verified="these files",  # every file was read when it was imported
            access="own recordings",
            cautions=tuple(said.cautions),
        )

    def index(self, root: Path) -> pd.DataFrame:
        """One row per record, as in every dataset: record, patient, split, fold where there are
        folds, path, a column per label, and all other columns of the table.
        """
        table = self.table
        frame = table[["record", "patient"]].copy()
        frame["path"] = [named(path) for path in table["file"]]
        frame["split"] = split_of(table)
        if "fold" in table:
            frame["fold"] = frame[IMPORTED] = table["fold"].astype(int)
        frame["damaged"] = table["left_out"]
        for label, column in zip(labels := self.said.labels, self.CARD.tasks[0].columns):
            frame[column] = pd.Series(values(table, label), index=frame.index, dtype="int8")
        return frame.join(table[[c for c in table if c not in (*labels, *OF_AN_INDEX)]])

    def read(self, root: Path, row: Mapping[str, Any]) -> Recording:
        """The recording of a row of the index, in mV; BadRecord where it cannot be trusted."""
        path = root / row["path"]
        if path.suffix.lower() not in by_suffix.READERS:
            path = path.with_name(f"{path.name}.hea")
        return recording(path, row["record"], row["patient"], self.said.options)


def place(file: Path, said: Card | None = None) -> tuple[Path, ReadOptions]:
    """The folder of the recordings of a card.toml, and how they are read."""
    said = said or card(file)
    folder = file.absolute().parent / Path(said.recordings).expanduser()
    return Path(os.path.abspath(folder)), said.options


def name_of(file: Path) -> str:
    """The name of the dataset of a card.toml."""
    return card(file).name


def module(file: Path) -> Recordings:
    """The plug-in of a card.toml; BadSetting, MissingData in one line where it is none."""
    return Recordings(file, card(file), table(file.with_name(TABLE)))


def recording(path: Path, record: str, patient: str, options: ReadOptions) -> Recording:
    """A recording in a file, with notes of its own leads and of the largest range of one, in mV.
    BadRecord, whatever a library makes of the file, from BadSetting where something must be stated.
    """
    try:
        found = by_suffix.read(path, record, patient, options)
    except (BadRecord, OSError):
        raise
    except Exception as error:
        what = error if isinstance(error, BadSetting) else f"cannot be read ({one_line(error)})"
        raise BadRecord(f"{record}: {what}") from error
    swing = float(np.subtract(*found.extremes[::-1]).max())
    leads = "+".join(lead for lead in LEADS if lead in found.leads)
    return replace(found, notes=(*found.notes, ("leads", leads), ("swing", f"{swing:.6g}")))


def named(path: str) -> str:
    """A record of WFDB without the suffix of its header, as its other files lie beside it; but
    `a.edf.hea`, which would then be an EDF.
    """
    plain = path.removesuffix(".hea")
    return path if Path(plain).suffix.lower() in by_suffix.READERS else plain


def values(table: pd.DataFrame, label: str) -> list[int]:
    """1, 0 or UNKNOWN of each record; MissingData for any other cell."""
    if label not in table:
        raise MissingData(f"{TABLE} has no column {label!r}, which is a label of {CARD}; {AGAIN}")
    found = sheet.hot(table[label])
    for record, cell in table.loc[[v is None for v in found], ["record", label]].to_numpy():
        raise MissingData(
            f"{TABLE}: record {record!r} has {cell!r} in the column {label!r}, where 0 or 1 belongs"
        )
    return [value for value in found if value is not None]
