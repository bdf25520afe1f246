"""What an earlier import left: the card and records.csv, which a person may edit, and a copy of
what was imported (as_imported.json), which tells such edits from corrections of the table.
"""

import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import pandas as pd

from ecgbench.core.cards import DatasetCard
from ecgbench.core.files import put, read_proved, sha256_of
from ecgbench.core.registry import Room
from ecgbench.data.own import found, records
from ecgbench.data.own.patients import person
from ecgbench.ecg.readers.said import Said
from ecgbench.errors import BadSetting

COPY = "as_imported.json"


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a person asks for."""

    folder: Path
    """Of the recordings."""
    labels: Path
    name: str
    """Of the dataset, its task and its card file."""
    to: Path
    """Folder that receives card file and records.csv."""
    said: Said = field(default_factory=Said)
    columns: tuple[str, ...] = ()
    """Of the table: those that are labels; where none is named, those of 0 and 1."""
    positive: str | None = None
    """The word that is 1 in a column of words; all others are 0."""
    partial: bool = False
    """Whether records of the table without a file are left out."""
    match_zeros: bool = False
    """Whether a record is found where zeros in front of its number were lost."""
    overwrite: bool = False
    """Whether what was edited by hand is written anew; patients stay in their splits."""

    of_run: bool = False
    """Whether `to` lies in the folder of a run."""

    @property
    def elsewhere(self) -> str:
        """The option that names another folder."""
        return "--out" if self.of_run else "--to"

    @property
    def card(self) -> Path:
        """The card file."""
        return self.to / f"{self.name}.py"


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What an earlier import left, and a person may have edited."""

    card: Path | None
    """The card file, which may have another name; None where it is gone."""
    module: ModuleType | None
    table: pd.DataFrame
    """records.csv, every value a str."""
    copy: dict[str, Any]
    """What the import wrote of itself; empty where that is gone.

    base: the table of labels. left_out: path -> reason. folds, homes: path, and patient, -> fold
    or split of all that were ever there. contents: path -> hash. labels. files: name -> text.
    """

    @property
    def base(self) -> pd.DataFrame:
        """What the table of labels said, every value a str; records.csv where that is not known."""
        return pd.DataFrame(self.copy["base"], dtype=str) if self.copy else self.table

    @property
    def column(self) -> str:
        """What its splits are in."""
        return "fold" if "fold" in self.table else "split"

    @property
    def folds(self) -> dict[str, str]:
        """Path -> fold or split."""
        now = dict(zip(self.table["path"], self.table[self.column]))
        return {**self._once("folds"), **now}

    @property
    def homes(self) -> dict[str, str]:
        """Patient -> fold or split."""
        once = {person(name): home for name, home in self._once("homes").items()}
        return once | dict(zip(map(person, self.table["patient"]), self.table[self.column]))

    def moved(self, contents: Mapping[str, str]) -> dict[str, str]:
        """Path that is gone -> path of the one file that holds what this file held.

        contents: path -> hash of the files that are there.
        """
        was, new = self.copy.get("contents", {}), {h: path for path, h in contents.items()}
        once = {h for h, n in Counter([*was.values(), *contents.values()]).items() if n == 2 and h}
        known = {*was, *self.table["path"]}
        gone = {p: new[h] for p, h in was.items() if p not in contents and h in once & {*new}}
        return {old: path for old, path in gone.items() if path not in known}

    def at(self, moved: Mapping[str, str]) -> "Earlier":
        """The same with other paths; moved: old -> new."""
        table, base = (
            frame.assign(path=[moved.get(path, path) for path in frame["path"]])
            for frame in (self.table, self.base)
        )
        copy = {**self.copy, "base": base}
        for what in ("left_out", "folds"):
            copy[what] = {moved.get(p, p): value for p, value in self.copy.get(what, {}).items()}
        return replace(self, table=table, copy=copy) if moved else self

    def _once(self, what: str) -> dict[str, str]:
        return self.copy.get(what, {}) if self.copy.get("column") == self.column else {}


def earlier(order: Order) -> Earlier | None:
    """The import to go on with, if there is one; what a kill left undone, or a person removed, is
    written first. BadSetting for a folder that holds something else.
    """
    copy = read_proved(order.to / COPY) or {}
    for name, text in copy.get("files", {}).items():
        file = order.to / name
        if not file.is_file() or copy["before"].get(name) == sha256_of(file):
            put(file, text)
    cards = [order.card, *(order.to / name for name in copy.get("files", {}) if name[-3:] == ".py")]
    card = next((file for file in cards if file.is_file()), None)
    others = sorted(path.name for path in order.to.glob("*.py"))
    if not (order.to / records.FILE).is_file():
        return None
    if card is None and others:
        raise BadSetting(
            f"{order.to} holds the records of {others[0]}; give another folder with "
            f"{order.elsewhere}, or --name {Path(others[0]).stem}"
        )
    module = _module(card) if card else None
    return Earlier(card=card, module=module, table=records.read(str(order.card)), copy=copy)


def _module(card: Path) -> ModuleType:
    room = Room("ecgbench.datasets", "dataset", ("CARD", "index", "read"), DatasetCard)
    try:
        module = room.get(str(card))
        found_at = module.__file__
    finally:
        room.forget()
    if found_at is None or not hasattr(module, "RECORDINGS") or not hasattr(module, "SAID"):
        raise BadSetting(f"{card} is no card of an import; import into another folder")
    return module


def files_of(folder: Path, paths: Iterable[str]) -> dict[str, list[Path]]:
    """The files of each recording: its own and those beside it that differ in the suffix only."""
    stems: dict[tuple[str, str], list[Path]] = defaultdict(list)
    paths = list(paths)
    for place in {str(PurePosixPath(path).parent) for path in paths}:
        for name in sorted(os.listdir(folder / place)) if (folder / place).is_dir() else ():
            stems[place, Path(name).stem].append(folder / place / name)
    return {p: stems[str(PurePosixPath(p).parent), PurePosixPath(p).stem] for p in paths}


def content(files: Iterable[Path]) -> str:
    """The hash of what the files of a recording hold; "" where one cannot be read."""
    try:
        return hashlib.sha256("".join(map(sha256_of, files)).encode()).hexdigest()
    except OSError:
        return ""


def request(order: Order) -> str:
    """The hash of all that an import rests on; no recording is read."""
    files = files_of(order.folder, found.files(order.folder, (order.labels, order.to)))
    stats = [[str(f), *_stat(f)] for parts in files.values() for f in parts]
    written = [sha256_of(f) for f in (order.labels, order.card, order.to / records.FILE)]
    asked = [repr((order.said, order.columns, order.positive, order.partial, order.match_zeros))]
    place = str(order.folder.resolve())
    return hashlib.sha256(json.dumps([place, written, asked, stats]).encode()).hexdigest()


def _stat(file: Path) -> tuple[int, ...]:
    try:
        stat = file.stat()
    except OSError:
        return ()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino
