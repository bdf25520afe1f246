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
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
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


@dataclass(frozen=True, kw_only=True)
class Card(CheckedFields):
    """What card.toml says, a line per field."""

    title: str
    absent: str = field(default="not among its labels", metadata={"": "what a label of 0 means"})
    version: str = field(
        default="1", metadata={"": "raise it when you publish numbers on other records"}
    )
    licence: str = "own recordings"
    country: str = ""
    cautions: tuple[str, ...] = field(
        default=(), metadata={"": "what a reader of the numbers must know, one sentence each"}
    )
    recordings: str = field(metadata={"": "their folder, from the folder of this file"})
    fs: float = field(default=0, metadata={"": "Hz, of files that do not state it; 0: all do"})
    unit: str = field(default="", metadata={"": "of files that do not state it"})
    signals: tuple[str, ...] = field(
        default=(), metadata={"": "leads in the order of the file, or NAME=LEAD"}
    )
    name: str
    labels: tuple[str, ...] = field(metadata={"": f"columns of {TABLE}"})
    patients_known: bool
    splits: str = ""
    request: str = field(metadata={"": "sha256 of the options, the table of labels and all files"})
    table: str = field(default="", metadata={"": f"sha256 of {TABLE}"})
    before: str = field(default="", metadata={"": "and of the one that it replaced"})
    typed: dict[str, Any] = field(
        default_factory=dict, metadata={"": "of the table of labels, but for what is as usual"}
    )
    dropped: dict[str, Any] = field(
        default_factory=dict, metadata={"": "earlier patients, and where they were"}
    )

    @property
    def options(self) -> ReadOptions:
        """Of files that do not say it themselves."""
        return ReadOptions(fs=self.fs or None, unit=self.unit or None, signals=tuple(self.signals))

    @property
    def text(self) -> str:
        """The file."""
        return "".join(_lines(self))


_HEADINGS = {
    "title": "Own recordings, imported by ecgbench. These lines are yours; importing again keeps "
    "them:",
    "recordings": "How the files are read:",
    "name": "What the import found, written anew by each:",
}
"""Comments, before the line of a field."""


def _lines(card: Card) -> Iterator[str]:
    for one in fields(card):
        value, remark = getattr(card, one.name), one.metadata.get("")
        if one.name in _HEADINGS:
            yield f"{'' if one.name == 'title' else chr(10)}# {_HEADINGS[one.name]}\n"
        about = f"  # {remark}" if remark else ""
        if isinstance(value, dict):
            yield f"\n[{one.name}]{about}\n" if value else ""
            yield from (f"{_toml(key)} = {_toml(of)}\n" for key, of in value.items())
        else:
            yield f"{one.name} = {_toml(value)}{about}\n"


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def card(file: Path) -> Card:
    """What a card.toml says; BadSetting in one line, with the line of the file."""
    try:
        text = file.read_text(encoding="utf-8-sig")
        said = tomllib.loads(text)
    except OSError as error:
        raise BadSetting(f"{file} cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise BadSetting(f"{file} is not TOML: {error}; correct that line") from None

    def at(name: str) -> str:
        before = re.split(rf"(?m)^[ \t]*\[?{re.escape(name)}\b", text)[0]
        return f"{file}, line {1 + before.count(chr(10))}"

    known = {one.name: one for one in fields(Card)}
    if unknown := [name for name in said if name not in known]:
        raise BadSetting(f"{at(unknown[0])}: {UnknownName('setting', unknown[0], known)}")
    for name, one in known.items():
        if name not in said and one.default is one.default_factory is MISSING:
            raise BadSetting(f"{file} has no line {name}; {AGAIN}")
    try:
        made = Card(**said)
        made.options  # noqa: B018  (refuses a unit that is none)
    except BadSetting as error:
        what = str(error).removeprefix("Card: ").removeprefix("--")
        raise BadSetting(f"{at(what.split()[0])}: {what}") from None
    return made


AGAIN = "import the recordings again: ecgbench data import FOLDER --labels TABLE"


def table(file: Path) -> pd.DataFrame:
    """records.csv, every value a str; MissingData in one line where it is none."""
    found = sheet.read(file)
    made = found.rows
    missing = [name for name in ("record", "file", "patient", *FOUND) if name not in made]
    if missing or not {"fold", "split"} & {*made}:
        what = (missing or ["fold (or split)"])[0]
        raise MissingData(f"{file} lacks the column {what!r}; {AGAIN}")
    for line, fold in made.get("fold", pd.Series(dtype=str)).items():
        if not fold.isdecimal():
            raise MissingData(f"{found.at(line)}: the fold {fold!r} is no whole number")
    for line, path in made.loc[made["file"].duplicated(), "file"].items():
        raise MissingData(
            f"{found.at(line)}: the file {path} is there twice; remove one of the lines"
        )
    made["left_out"] = made.get("left_out", "")
    for line, cells in made.loc[made["left_out"] == "", ["fs", "seconds"]].iterrows():
        if odd := [cell for cell in cells if not re.fullmatch(r"\d+([.]\d+)?(e[+-]?\d+)?", cell)]:
            raise MissingData(f"{found.at(line)}: {odd[0]!r} is no number of Hz or s; {AGAIN}")
    made = made.reset_index(drop=True)
    made["patient"] = one_spelling(made["patient"])
    return made


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
        return _folder(Path(str(self.__file__)), self.said)

    @cached_property
    def CARD(self) -> DatasetCard:
        """Facts of the usable records, and what card.toml says."""
        said, table = self.said, self.table
        usable = table[table["left_out"] == ""]
        known = {name: values(table, name) for name in said.labels}
        rates = Counter(map(float, usable["fs"]))
        have = {lead for leads in usable["leads"] for lead in leads.split("+")}
        task = Task(
            name=said.name,
            title=said.title,
            labels=tuple(said.labels),
            rule="ours",
            absent=said.absent,
            masked=any(UNKNOWN in own for own in known.values()),
        )
        return DatasetCard(
            title=said.title,
            version=said.version,
            licence=said.licence,
            folder=self.root.name,
            records=len(table),
            patients=table["patient"].nunique(),
            patients_known=said.patients_known,
            fs=max(sorted(rates), key=rates.__getitem__, default=0.0),
            seconds=round(float(usable["seconds"].astype(float).mean()), 3),
            leads=tuple(lead for lead in LEADS if lead in have),
            any_leads=True,
            tasks=(task,),
            splits=said.splits,
            folds=int(table["fold"].astype(int).max()) if "fold" in table else 3,
            # a run with --limit may have more of those that the import left out
            losses=min(1.0, 2 * float((table["left_out"] != "").mean()) + LOSSES),
            verified="these files",  # every file was read when it was imported
            access="own recordings",
            country=said.country,
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
        for task in self.CARD.tasks:
            for label, column in zip(task.labels, task.columns):
                frame[column] = pd.Series(values(table, label), index=frame.index, dtype="int8")
        return frame.join(table[[c for c in table if c not in (*self.said.labels, *OF_AN_INDEX)]])

    def read(self, root: Path, row: Mapping[str, Any]) -> Recording:
        """The recording of a row of the index, in mV; BadRecord where it cannot be trusted."""
        path = root / row["path"]
        if path.suffix.lower() not in by_suffix.READERS:
            path = path.with_name(f"{path.name}.hea")
        return recording(path, row["record"], row["patient"], self.said.options)


def _folder(file: Path, said: Card) -> Path:
    return Path(os.path.abspath(file.absolute().parent / Path(said.recordings).expanduser()))


def place(file: Path) -> tuple[Path, ReadOptions]:
    """The folder of the recordings of a card.toml, and how they are read."""
    said = card(file)
    return _folder(file, said), said.options


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
    except BadSetting as error:
        raise BadRecord(f"{record}: {error}") from error
    except (BadRecord, OSError):
        raise
    except Exception as error:
        raise BadRecord(f"{record}: cannot be read ({one_line(error)})") from None
    lowest, highest = found.extremes
    leads = "+".join(lead for lead in LEADS if lead in found.leads)
    notes = ("leads", leads), ("swing", f"{float((highest - lowest).max()):.6g}")
    return replace(found, notes=(*found.notes, *notes))


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
    found = list[int]()
    for record, cell, value in zip(table["record"], table[label], sheet.hot(table[label])):
        if value is None:
            raise MissingData(
                f"{TABLE}: record {record!r} has {cell!r} in the column {label!r}, where 0 or 1 "
                f"belongs"
            )
        found.append(value)
    return found
