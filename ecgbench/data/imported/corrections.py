"""A table of labels that was corrected after an import: who stays where, and what has changed."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from ecgbench.core.cards import DatasetCard
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
"""Cases that a line names."""
_OWN = ("record", "path", "fold", "split", "left_out")


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What an earlier import left, and a person may have edited."""

    module: ModuleType | None
    """The card; None where it is gone."""
    table: pd.DataFrame
    """records.csv, every value a str."""
    copy: dict[str, Any]
    """What the import wrote of itself; empty where that is gone.

    homes: patient -> fold or split of all that were ever there; column: which of both. labels.
    card: its text. files, before: name -> text of what was written, and of what was there then.
    """

    @property
    def column(self) -> str:
        """What its splits are in."""
        return "fold" if "fold" in self.table else "split"

    def homes(self, table: pd.DataFrame | None = None) -> dict[str, str]:
        """Patient -> fold or split: that of his records that were his before, else of his records
        in `table`, else what a patient of this name had.
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
    """What an import wrote of itself, {} where there is none; a file that a person removed since,
    or that a kill kept from being written, is written first.
    """
    copy = read_proved(folder / COPY) or {}
    for name, text in copy.get("files", {}).items():
        if text_of(folder / name) in ("", copy.get("before", {}).get(name)):
            put(folder / name, text)
    return copy


def edited(folder: Path) -> list[str]:
    """Names of the files that are not as the import in a folder has written them."""
    files = restored(folder).get("files", {})
    return [name for name, text in files.items() if text_of(folder / name) != text]


def text_of(file: Path) -> str:
    """What a file holds; "" where there is none."""
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
            f"{folder} holds the records of {others[0].name}; give another folder, or --name "
            f"{others[0].stem}"
        )
    module = _module(card, overwrite) if card.is_file() else None
    return Earlier(module=module, table=records.read(str(card)), copy=copy)


def _module(card: Path, overwrite: bool) -> ModuleType | None:
    room = Room("ecgbench.datasets", "dataset", ("CARD", "index", "read"), DatasetCard)
    try:
        module = room.get(str(card))
    except EcgbenchError as error:
        if overwrite:
            return None
        raise BadSetting(f"{error}; to write it anew: ecgbench data import --overwrite") from error
    finally:
        room.forget()
    if not hasattr(module, "RECORDINGS") or not hasattr(module, "OPTIONS"):
        raise BadSetting(f"{card} is no card of an import; import into another folder")
    return module


def texts(table: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """The table with every value a str; a label that is unknown is blank."""
    out = table.astype(str)
    out[[*labels]] = out[[*labels]].replace(str(UNKNOWN), "")
    return out


def changes(before: Earlier, out: pd.DataFrame, labels: Sequence[str]) -> Iterator[str]:
    """What is otherwise in records.csv now (`out`) than it was, and who is in another split."""
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
    """The card file with what a person edited (`now`) and the lines that changed from `base` to
    `new`; `new`, and that the edits are lost, where such a line was edited.
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
    """The first of what a line names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"
