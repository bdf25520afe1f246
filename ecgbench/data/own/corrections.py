"""A table that was corrected after an import: what goes, who stays where, and what has changed.

Three tables are compared by the path of the recording: what the table of labels said at the last
import, records.csv as it is now, and what the table of labels says now.
"""

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
from ecgbench.data.own import records
from ecgbench.data.own.people import person
from ecgbench.data.own.splitting import split_of
from ecgbench.datasets.indexing.tables import alike
from ecgbench.errors import BadSetting
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

    base: the table of labels, with folds. left_out: path -> reason. homes: patient -> fold or split
    of all that were ever there. labels. card, files: name -> text.
    """

    @property
    def base(self) -> pd.DataFrame:
        """What the table of labels said, every value a str; records.csv where that is not known."""
        return pd.DataFrame(self.copy["base"], dtype=str) if self.copy else self.table

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

    def leave_out_by_hand(self, table: pd.DataFrame) -> None:
        """Put the reasons that a person wrote into records.csv into a new table."""
        read = self.copy.get("left_out", {})
        for path, reason in zip(self.table["path"], self.table["left_out"]):
            if self.copy and reason and read.get(path, "") != reason:
                table.loc[(table["path"] == path) & (table["left_out"] == ""), "left_out"] = reason


def earlier(folder: Path, card: Path) -> Earlier | None:
    """The import in a folder to go on with, if there is one; a file that a person removed is
    written first. BadSetting for a folder that holds something else.
    """
    copy = read_proved(folder / COPY) or {}
    for name, text in copy.get("files", {}).items():
        if not (folder / name).is_file():
            put(folder / name, text)
    if not (folder / records.FILE).is_file():
        return None
    others = sorted(path for path in folder.glob("*.py") if path != card)
    if others and not card.is_file():
        raise BadSetting(
            f"{folder} holds the records of {others[0].name}; give another folder, or --name "
            f"{others[0].stem}"
        )
    module = _module(card) if card.is_file() else None
    return Earlier(module=module, table=records.read(str(card)), copy=copy)


def _module(card: Path) -> ModuleType:
    room = Room("ecgbench.datasets", "dataset", ("CARD", "index", "read"), DatasetCard)
    try:
        module = room.get(str(card))
    finally:
        room.forget()
    if not hasattr(module, "RECORDINGS") or not hasattr(module, "SAID"):
        raise BadSetting(f"{card} is no card of an import; import into another folder")
    return module


def texts(table: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """The table with every value a str; a label that is unknown is blank."""
    out = table.astype(str)
    out[[*labels]] = out[[*labels]].replace(str(UNKNOWN), "")
    return out


def merged(
    before: Earlier, theirs: pd.DataFrame, overwrite: bool
) -> tuple[pd.DataFrame, list[str]]:
    """The rows of the table of labels (`theirs`, of str), with what a person edited in records.csv
    unless `overwrite`; and notes on these edits. BadSetting where the two have no recording in
    common.
    """
    table = before.base if overwrite else before.table
    base, ours, now = (
        frame.set_index("path").to_dict("index") for frame in (before.base, table, theirs)
    )
    if not {*ours} & {*now}:
        raise BadSetting(
            f"{records.FILE} holds other recordings ({next(iter(ours))} and others), none of which "
            f"the table of labels names; import into another folder"
        )
    paths = [path for path in ours if path in now or path not in base]
    paths += [path for path in now if path not in ours and path not in base]
    added = [c for c in table if c not in before.base and c not in (*_OWN, *theirs)]
    rows, hand = [], list[str]()
    for path in paths:
        mine, new, was = (rows_.get(path, {}) for rows_ in (ours, now, base))
        row = {**dict.fromkeys(theirs, ""), **mine, **new, "path": path}
        for column in [c for c in was if c != "record" and c in mine and new]:
            same, right = person if column == "patient" else alike, new.get(column, was[column])
            if same(mine[column]) not in (same(was[column]), same(right)):
                row[column] = mine[column]
                hand.append(f"{row['record']}: {column} is {mine[column] or 'blank'}, not {right}")
        rows.append({c: row.get(c, "") for c in (*theirs, *added)})
    gone = [now[path]["record"] for path in now if path in base and path not in ours]
    more = [ours[path]["record"] for path in paths if path not in now]
    kinds = {
        "edited by hand, and kept": hand,
        "removed by hand, and left out": gone,
        "added by hand, and kept": more,
    }
    return pd.DataFrame(rows), [f"{what}: {some(cases)}" for what, cases in kinds.items() if cases]


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
