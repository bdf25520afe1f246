"""A table that was corrected after an import: what goes, who stays where, and what is said of it.

Three tables are compared by the path of the recording: what the table of labels said at the last
import, records.csv as it is now, and what the table of labels says now.
"""

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import pandas as pd

from ecgbench.core.text import counted
from ecgbench.data.own.earlier import Earlier
from ecgbench.data.own.patients import person
from ecgbench.data.own.splitting import split_of
from ecgbench.data.select import SPLITS
from ecgbench.datasets.indexing.tables import alike
from ecgbench.stats.known import UNKNOWN

NAMED = 3
"""Cases that a line names."""
_OWN = ("record", "path", "fold", "split", "left_out")


def texts(table: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """The table with every value a str; a label that is unknown is blank."""
    out = table.astype(str)
    for label in labels:
        out[label] = out[label].replace(str(UNKNOWN), "")
    return out


def merged(
    before: Earlier, theirs: pd.DataFrame, source: str, overwrite: bool
) -> tuple[pd.DataFrame, list[str]]:
    """The rows of the table of labels (`theirs`, of str), with what a person edited in records.csv;
    and notes on these edits. source: the name of the table.
    """
    base = before.base.set_index("path").to_dict("index")
    table = before.base if overwrite else before.table
    ours, now = (frame.set_index("path").to_dict("index") for frame in (table, theirs))
    paths = [path for path in ours if path in now or path not in base]
    paths += [path for path in now if path not in ours and path not in base]
    added = [c for c in table if c not in before.base and c not in (*_OWN, *theirs)]
    rows, hand = [], list[str]()
    for path in paths:
        mine, new, was = (rows.get(path, {}) for rows in (ours, now, base))
        row = {**dict.fromkeys(theirs, ""), **mine, **new, "path": path}
        for column in [c for c in new if c not in ("record", "path") and c in mine and c in was]:
            same = person if column == "patient" else alike
            if same(mine[column]) not in (same(was[column]), same(new[column])):
                row[column] = mine[column]
                hand.append(
                    f"{row['record']}: {column} is {_cell(mine[column])}, {source} says "
                    f"{_cell(new[column])}"
                )
        rows.append({c: row.get(c, "") for c in (*theirs, *added)})
    if before.column not in theirs and not overwrite:
        once = before.copy.get("folds", {})
        hand += [
            f"{mine['record']}: {before.column} is {mine[before.column]}, it was {once[path]}"
            for path, mine in ours.items()
            if once.get(path, mine.get(before.column)) != mine.get(before.column)
        ]
    notes = [f"edited by hand, and kept: {some(hand)}"] if hand else []
    if out := [now[path]["record"] for path in now if path in base and path not in ours]:
        notes.append(f"removed by hand, and left out: {some(out)}")
    if own := [ours[path]["record"] for path in paths if path not in now]:
        notes.append(f"added by hand, and kept: {some(own)}")
    return pd.DataFrame(rows), notes


def homes(before: Earlier, table: pd.DataFrame) -> dict[str, str]:
    """Patient -> fold or split: that of his records that were his before, else of his records, else
    what a patient of this name had.
    """
    folds = before.folds
    was = dict(zip(before.table["path"], map(person, before.table["patient"])))
    own: dict[str, list[str]] = defaultdict(list)
    for patient, path in zip(map(person, table["patient"]), table["path"]):
        own[patient] += [path] if path in folds else []
    known = before.homes
    for patient, paths in own.items():
        stay = [path for path in paths if was.get(path) == patient] or paths
        if stay:
            known[patient] = Counter(folds[path] for path in stay).most_common(1)[0][0]
    return known


def said(before: Earlier, out: pd.DataFrame, labels: Sequence[str], source: str) -> Iterator[str]:
    """What is otherwise in records.csv now (`out`) than it was."""
    old, new = (t.set_index("path").to_dict("index") for t in (before.table, out))
    for word, here, there in (("added", new, old), ("dropped", old, new)):
        if names := [here[path]["record"] for path in here if path not in there]:
            yield f"{counted(len(names), 'record')} {word}: {some(names)}"
    known = before.copy.get("labels", labels)
    for word, these, those in (("new", labels, known), ("gone", known, labels)):
        if odd := [name for name in these if name not in those]:
            yield f"{word} in {source}: the label {', '.join(odd)}"
    for column in [c for c in out if c in before.table and c not in _OWN]:
        both = [(old[path], row) for path, row in new.items() if path in old]
        cells = [
            f"{row['record']}: {column} was {_cell(o[column])}, is {_cell(row[column])} now"
            for o, row in both
            if alike(o[column]) != alike(row[column])
        ]
        if cells:
            yield f"{column}: {counted(len(cells), 'record')} changed ({some(cells)})"


def moves(before: Earlier, table: pd.DataFrame, why: str) -> Iterator[str]:
    """Who is in another fold or split than before, and why."""
    was_split = dict(zip(before.table["path"], split_of(before.table)))
    was = dict(zip(before.table["path"], before.table[before.column].astype(str)))
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    rows = zip(table["path"], table["patient"], split_of(table), table.get("fold", table["path"]))
    for path, patient, split, fold in rows:
        if path in was and split != was_split[path]:
            found[was_split[path], split].append(patient)
        elif path in was and before.column == "fold" and "fold" in table and str(fold) != was[path]:
            found[f"fold {was[path]}", f"fold {fold}"].append(patient)
    for (old, new), patients in found.items():
        who = [*dict.fromkeys(patients)]
        yield (
            f"{counted(len(who), 'patient')} moved from {old} to {new}, {why} ({some(who)}; "
            f"{counted(len(patients), 'record')})"
        )


def not_scored(usable: pd.DataFrame, labels: Sequence[str]) -> Iterator[str]:
    """Labels that lack a value in a part, whose patients stay where they are."""
    split = split_of(usable)
    for label in labels:
        lacking = [
            f"no record {word} it in {part}"
            for part in SPLITS
            for value, word in ((1, "with"), (0, "without"))
            if not (usable[label][split == part].astype(int) == value).any()
        ]
        if lacking:
            yield (
                f"{label}: {', '.join(lacking)}, and patients stay in their splits; to deal them "
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
