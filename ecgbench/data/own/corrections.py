"""A table that was corrected after an import: what goes, who stays where, and what has changed.

Three tables are compared by the path of the recording: what the table of labels said at the last
import, records.csv as it is now, and what the table of labels says now.
"""

import difflib
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
from ecgbench.data.own.order import Order
from ecgbench.data.own.patients import person
from ecgbench.data.own.splitting import split_of
from ecgbench.data.select import SPLITS
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
    of all that were ever there. labels. files: name -> text.
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


def earlier(order: Order) -> Earlier | None:
    """The import to go on with, if there is one; a file that a person removed is written first.
    BadSetting for a folder that holds something else.
    """
    copy = read_proved(order.to / COPY) or {}
    for name, text in copy.get("files", {}).items():
        if not (order.to / name).is_file():
            put(order.to / name, text)
    others = sorted(path for path in order.to.glob("*.py") if path != order.card)
    if not (order.to / records.FILE).is_file():
        return None
    if others and not order.card.is_file():
        raise BadSetting(
            f"{order.to} holds the records of {others[0].name}; give another folder with "
            f"{order.elsewhere}, or --name {others[0].stem}"
        )
    module = _module(order.card) if order.card.is_file() else None
    return Earlier(module=module, table=records.read(str(order.card)), copy=copy)


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


def merged(before: Earlier, theirs: pd.DataFrame, order: Order) -> tuple[pd.DataFrame, list[str]]:
    """The rows of the table of labels (`theirs`, of str), with what a person edited in records.csv;
    and notes on these edits. BadSetting where the two have no recording in common.
    """
    table = before.base if order.overwrite else before.table
    base, ours, now = (
        frame.set_index("path").to_dict("index") for frame in (before.base, table, theirs)
    )
    if not {*ours} & {*now}:
        raise BadSetting(
            f"{order.to} holds the records of other recordings ({next(iter(ours))} and others), "
            f"none of which {order.labels.name} names in {order.folder}; import into another "
            f"folder with {order.elsewhere}"
        )
    paths = [path for path in ours if path in now or path not in base]
    paths += [path for path in now if path not in ours and path not in base]
    added = [c for c in table if c not in before.base and c not in (*_OWN, *theirs)]
    rows, hand = [], list[str]()
    for path in paths:
        mine, new, was = (rows.get(path, {}) for rows in (ours, now, base))
        row = {**dict.fromkeys(theirs, ""), **mine, **new, "path": path}
        for column in [c for c in was if c != "record" and c in mine and new]:
            same, right = person if column == "patient" else alike, new.get(column, was[column])
            if same(mine[column]) not in (same(was[column]), same(right)):
                row[column] = mine[column]
                hand.append(f"{row['record']}: {column} is {_cell(mine[column])}, not {right}")
        rows.append({c: row.get(c, "") for c in (*theirs, *added)})
    kinds = {
        "edited by hand, and kept": hand,
        "removed by hand, and left out": [
            now[path]["record"] for path in now if path in base and path not in ours
        ],
        "added by hand, and kept": [ours[path]["record"] for path in paths if path not in now],
    }
    return pd.DataFrame(rows), [f"{what}: {some(cases)}" for what, cases in kinds.items() if cases]


def changes(
    before: Earlier, out: pd.DataFrame, labels: Sequence[str], source: str
) -> Iterator[str]:
    """What is otherwise in records.csv now (`out`) than it was. source: the table of labels."""
    old, new = (t.set_index("path").to_dict("index") for t in (before.table, out))
    for word, here, there in (("added", new, old), ("dropped", old, new)):
        if names := [here[path]["record"] for path in here if path not in there]:
            yield f"{counted(len(names), 'record')} {word}: {some(names)}"
    known = before.copy.get("labels", labels)
    for word, these, those in (("new", labels, known), ("gone", known, labels)):
        if odd := [name for name in these if name not in those]:
            yield f"{word} in {source}: the label {', '.join(odd)}"
    for column in [c for c in out if c in before.table and c not in _OWN]:
        cells = [
            f"{row['record']}: {column} was {_cell(old[path][column])}, is {_cell(row[column])} now"
            for path, row in new.items()
            if path in old and alike(old[path][column]) != alike(row[column])
        ]
        if cells:
            yield f"{column}: {counted(len(cells), 'record')} changed ({some(cells)})"


def moves(before: Earlier, table: pd.DataFrame, why: str) -> Iterator[str]:
    """Who is in another fold or split than before, and why."""
    split, now = split_of(table), table.get("fold", table["path"])
    places = dict(zip(before.table["path"], before.table[before.column].astype(str)))
    was = dict(zip(places, split_of(before.table)))
    folds = before.column == "fold" and "fold" in table
    moved: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, patient, new, fold in zip(table["path"], table["patient"], split, map(str, now)):
        if path in was and new != was[path]:
            moved[was[path], new].append(patient)
        elif path in was and folds and fold != places[path]:
            moved[f"fold {places[path]}", f"fold {fold}"].append(patient)
    for (old, new), patients in moved.items():
        who = [*dict.fromkeys(patients)]
        yield (
            f"{counted(len(who), 'patient')} moved from {old} to {new}, {why} ({some(who)}; "
            f"{counted(len(patients), 'record')})"
        )


def not_scored(usable: pd.DataFrame, labels: Sequence[str]) -> Iterator[str]:
    """Labels that lack a value in a part, whose patients stay where they are."""
    split = split_of(usable)
    for label in labels:
        missing = [
            f"no record {word} it in {part}"
            for part in SPLITS
            for value, word in ((1, "with"), (0, "without"))
            if not (usable[label][split == part].astype(int) == value).any()
        ]
        if missing:
            yield (
                f"{label}: {', '.join(missing)}, and patients stay in their splits; to deal them "
                f"anew import into another folder, or give a column fold"
            )


def card(base: str, now: str, new: str) -> tuple[str, list[str]]:
    """The card file with what a person edited (`now`) and what changes from `base` to `new`; and
    the lines of `new` that have no place in it.
    """
    old, lines, out = base.splitlines(True), new.splitlines(True), now
    lost = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, lines, False).get_opcodes():
        # with the line before it, which says where a new line belongs
        was, then = "".join(old[max(a - 1, 0) : b]), "".join(lines[max(c - 1, 0) : d])
        if kind == "equal" or (kind != "delete" and then in out):
            continue
        if out.count(was) == 1:
            out = out.replace(was, then)
        elif kind == "replace" and out.count("".join(old[a:b])) == 1:
            out = out.replace("".join(old[a:b]), "".join(lines[c:d]))
        else:
            lost += [line.strip() for line in lines[c:d] or old[a:b]]
    return out, lost


def _cell(text: str) -> str:
    return text or "blank"


def some(names: Sequence[str], most: int = NAMED, between: str = "; ") -> str:
    """The first of what a line names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"
