"""Repeated imports after corrections: patients stay in their splits, and changes are reported."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.contracts import Dataset
from ecgbench.core.files import put, read_proved
from ecgbench.core.registry import Room
from ecgbench.core.text import counted
from ecgbench.data.imported import records
from ecgbench.data.imported.people import person
from ecgbench.data.imported.splitting import split_of
from ecgbench.datasets.indexing.tables import alike
from ecgbench.errors import BadSetting, EcgbenchError
from ecgbench.stats.known import UNKNOWN

COPY = "as_imported.json"
NAMED = 3
"""Cases that a line lists."""
_OWN = ("record", "path", "fold", "split", "left_out")


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """An earlier import, perhaps edited since."""

    module: Any
    """The card; None where it is missing or is to be replaced."""
    table: pd.DataFrame
    """records.csv, every value a str."""
    copy: dict[str, Any]
    """The import's own record; empty where it is missing.

    homes: patient -> fold or split of every patient so far; column: which of both. labels. card:
    its text. files, before: name -> text of what was written, and of what was there before.
    """

    @property
    def column(self) -> str:
        """The column of splits: "fold" or "split"."""
        return "fold" if "fold" in self.table else "split"

    def homes(self, table: pd.DataFrame | None = None) -> dict[str, str]:
        """Patient -> fold or split: that of his records that were his before, else that of his
        records in `table`, else that of an earlier patient of this name.
        """
        people = [*map(person, self.table["patient"])]
        known = self.copy.get("homes", {}) if self.copy.get("column") == self.column else {}
        known = {**known, **dict(zip(people, self.table[self.column]))}
        folds = dict(zip(self.table["path"], self.table[self.column]))
        was = dict(zip(self.table["path"], people))
        own: dict[str, list[str]] = defaultdict(list)
        for patient, path in () if table is None else zip(table["patient"], table["path"]):
            own[person(patient)] += [path] if path in folds else []
        for patient, paths in own.items():
            if stay := [path for path in paths if was[path] == patient] or paths:
                known[patient] = Counter(folds[path] for path in stay).most_common(1)[0][0]
        return known


def restored(folder: Path) -> dict[str, Any]:
    """The record of an import, {} where there is none. A file that was removed since, or not
    written because of a kill, is written first.
    """
    copy = read_proved(folder / COPY) or {}
    for name, text in copy.get("files", {}).items():
        if text_of(folder / name) in ("", copy.get("before", {}).get(name)):
            put(folder / name, text)
    return copy


def edited(folder: Path) -> list[str]:
    """Names of the files that were edited since the import in a folder."""
    files = restored(folder).get("files", {})
    return [name for name, text in files.items() if text_of(folder / name) != text]


def text_of(file: Path) -> str:
    """Content of a file; "" where there is none."""
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def earlier(folder: Path, card: Path, overwrite: bool) -> Earlier | None:
    """The import in a folder to go on with, if there is one. BadSetting for a folder that holds
    something else, or a card that cannot be imported unless it is to be overwritten.
    """
    copy = restored(folder)
    if not (folder / records.FILE).is_file():
        return None
    others = sorted(path for path in folder.glob("*.py") if path != card)
    if others and not card.is_file():
        raise BadSetting(
            f"{folder} holds the records of {others[0].name}; give another folder (--to DIR)"
        )
    module = _module(card, overwrite) if card.is_file() else None
    return Earlier(module=module, table=records.read(str(card)), copy=copy)


def _module(card: Path, overwrite: bool) -> Dataset | None:
    room = Room("ecgbench.datasets", "dataset", Dataset)
    try:
        module = room.get(str(card))
    except EcgbenchError as error:
        if overwrite:
            return None
        anew = "" if "--overwrite" in str(error) else "; to write it anew: --overwrite"
        raise BadSetting(f"{error}{anew}") from error
    finally:
        room.forget()
    if not hasattr(module, "RECORDINGS") or not hasattr(module, "OPTIONS"):
        raise BadSetting(f"{card} is not the card of an import; give another folder (--to DIR)")
    return module


def texts(table: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """The table with every value a str; a label that is unknown is blank."""
    out = table.astype(str)
    out[[*labels]] = out[[*labels]].replace(str(UNKNOWN), "")
    return out


def changes(before: Earlier, out: pd.DataFrame, labels: Sequence[str]) -> Iterator[str]:
    """Changes from the earlier records.csv to the new one (`out`), and patients who moved to
    another split.
    """
    old, new = (t.set_index("path").to_dict("index") for t in (before.table, out))
    for word, here, there in (("added", new, old), ("dropped", old, new)):
        if names := [here[path]["record"] for path in here if path not in there]:
            yield f"{counted(len(names), 'record')} {word}: {some(names)}"
    known = before.copy.get("labels", labels)
    for word, these, those in (("new", labels, known), ("gone", known, labels)):
        if odd := [name for name in these if name not in those]:
            yield f"labels that are {word}: {', '.join(odd)}"
    for column in [c for c in out if c in before.table and c not in _OWN]:
        cells = [
            f"{row['record']}: {column} was {was or 'blank'}, is {row[column] or 'blank'} now"
            for path, row in new.items()
            if path in old and alike(was := old[path][column]) != alike(row[column])
        ]
        if cells:
            yield f"{column}: {counted(len(cells), 'record')} changed ({some(cells)})"
    was_in = dict(zip(before.table["path"], split_of(before.table)))
    moved: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, patient, split in zip(out["path"], out["patient"], split_of(out)):
        if was_in.get(path, split) != split:
            moved[was_in[path], split].append(patient)
    for (one, other), patients in moved.items():
        who = [*dict.fromkeys(patients)]
        records_ = counted(len(patients), "record")
        yield (
            f"{counted(len(who), 'patient')} moved from {one} to {other} ({some(who)}; {records_})"
        )


def card(base: str, now: str, new: str) -> tuple[str, bool]:
    """The edited card file (`now`) with the lines that changed from `base` to `new`. `new`, and
    True, where such a line was edited: the edits are lost.
    """
    old, lines, text = base.splitlines(True), new.splitlines(True), now
    if now in (base, new):
        return new, False
    if len(old) != len(lines):
        return new, True
    for was, line in zip(old, lines):
        if was != line and line not in text:
            if text.count(was) != 1:
                return new, True
            text = text.replace(was, line)
    return text, False


def some(names: Sequence[str], most: int = NAMED, between: str = "; ") -> str:
    """The first of some names, and the number of the others."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"
