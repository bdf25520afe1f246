"""The table of labels: which record has which label, whose it is and in which split, checked line
by line.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ecgbench.errors import BadSetting
from ecgbench.imported.cells import Sheet, hot, read
from ecgbench.indexing.tables import one_spelling
from ecgbench.prepared.subset import SPLITS
from ecgbench.stats.known import UNKNOWN
from ecgbench.text import shortened

RECORD, PATIENT = ("record", "file", "filename", "path"), ("patient", "patient_id", "subject")
WORDS = ("label", "labels")
NONE = "none"
"""The word of a record that has no label."""
NO_LABELS = ("age", "sex", "gender", "male", "female")
"""Columns that may hold 0 and 1 and are no labels."""
OF_AN_INDEX = (
    *("record", "patient", "path", "split", "fold", "left_out", "damaged"),
    *("samples", "fs", "flat", "sha256", "available", "found", "fixed", "strata", "turn"),
)
"""Columns of every index, which no other may be called."""
_SPLITS = {
    **{name: name for name in SPLITS},
    "training": "train",
    "valid": "val",
    "validation": "val",
    "testing": "test",
}


@dataclass(frozen=True)
class Labels:
    """A table of labels that was checked."""

    file: Path
    table: pd.DataFrame
    """A row per record: record, `line`; patient, split or fold where the table has them; a column
    of 1, 0 and UNKNOWN per label; what else the table holds, as text.
    """
    labels: tuple[str, ...]
    kept: tuple[str, ...]
    """Columns that are no labels and are kept as they are."""
    notes: tuple[str, ...] = ()
    """What was joined, guessed or counted as unknown, a sentence each."""

    @property
    def patients_known(self) -> bool:
        """Whether the table says whose a record is."""
        return "patient" in self.table


def checked(file: Path, columns: Sequence[str] = (), positive: str | None = None) -> Labels:
    """The table in `file`; `columns`: those that are labels, else those that hold 0 and 1, and the
    words of a column `label`. BadSetting in one line, with the line of the file, for what is odd.
    """
    sheet = read(file)
    named = {name.lower().replace(" ", "_"): name for name in sheet.rows.columns}
    record = next((named[name] for name in RECORD if name in named), None)
    if record is None:
        raise BadSetting(
            f"{file.name} has no column 'record' (the file's name); it has "
            f"{', '.join(map(repr, sheet.rows.columns))}"
        )
    table = pd.DataFrame({"record": sheet.rows[record], "line": sheet.lines})
    for row in table.index[table["record"] == ""]:
        raise BadSetting(f"{sheet.place(row)}: no record is named")
    taken = {record}
    if patient := next((named[name] for name in PATIENT if name in named), None):
        table["patient"] = _patients(sheet, patient)
        taken.add(patient)
    for name, given in (("split", _splits), ("fold", _folds)):
        if name in named:
            table[name] = given(sheet, named[name])
            taken.add(named[name])
    if {"split", "fold"} <= {*table.columns}:
        raise BadSetting(f"{file.name} has the columns split and fold; leave out one of them")
    words = [named[name] for name in WORDS if name in named and named[name] not in columns]
    left = [name for name in sheet.rows.columns if name not in taken]
    return _labelled(sheet, table, left, words, columns)


def _labelled(
    sheet: Sheet, table: pd.DataFrame, left: list[str], words: list[str], columns: Sequence[str]
) -> Labels:
    """The table with its labels, from the columns that are `left`."""
    if absent := [name for name in columns if name not in left]:
        raise BadSetting(
            f"--label-columns {','.join(columns)}: {sheet.file.name} has no column {absent[0]!r}; "
            f"it has {', '.join(left)}"
        )
    found: dict[str, list[int]] = {}
    for name in left:
        if name in words and None in hot(sheet.rows[name]):
            own = _of_words(sheet, name)
        elif name in columns or (not columns and _is_label(sheet, name)):
            own = {name: _of_cells(sheet, name)}
        else:
            continue
        if twice := [label for label in own if label in found]:
            raise BadSetting(f"{sheet.file.name} has the label {twice[0]!r} twice")
        found |= own
    if not found:
        raise BadSetting(
            f"{sheet.file.name} has no label: no column of 0 and 1, and no column 'label' of words"
        )
    for label in found:
        if label.lower() in (*OF_AN_INDEX, "line"):
            raise BadSetting(
                f"{sheet.file.name}: no label can be called {label!r}, the name of a column of "
                f"every dataset; rename it"
            )
    kept = [name for name in left if name not in found and name not in words]
    spelled = [_kept_name(name) for name in kept]
    if clash := [name for name in spelled if name in found]:
        raise BadSetting(f"{sheet.file.name} has a column and a label {clash[0]!r}; rename one")
    other = sheet.rows[kept].set_axis(spelled, axis=1)
    labelled = pd.concat([table, pd.DataFrame(found, index=table.index), other], axis=1)
    return Labels(sheet.file, labelled, tuple(found), tuple(spelled))


def _kept_name(name: str) -> str:
    """Of a column that is kept: no name that an index has itself, and no mark of its labels."""
    plain = name.replace(":", "_")
    return f"{plain}_given" if plain.lower() in (*OF_AN_INDEX, "line") else plain


def _is_label(sheet: Sheet, name: str) -> bool:
    """Whether most of what a column says is 0 or 1, and both its name and its cells are those of a
    label.
    """
    values = [value for value in hot(sheet.rows[name]) if value != UNKNOWN]
    known = sum(value is not None for value in values)
    return name.lower() not in NO_LABELS and bool(values) and 2 * known > len(values)


def _of_cells(sheet: Sheet, name: str) -> list[int]:
    values = hot(sheet.rows[name])
    if None in values:
        row = values.index(None)
        cell = shortened(str(sheet.rows[name].iloc[row]), 40)
        raise BadSetting(
            f"{sheet.place(row)}: the column {name!r} says {cell!r}, where 0 or 1 belongs (a "
            f"column that is no label: name the others with --label-columns)"
        )
    return [value for value in values if value is not None]


def _of_words(sheet: Sheet, name: str) -> dict[str, list[int]]:
    said = [
        {word for part in re.split(r"[;|]", cell) if (word := " ".join(part.split()))}
        for cell in sheet.rows[name]
    ]
    for row, words in enumerate(said):
        if odd := [word for word in words if not word.isprintable()]:
            raise BadSetting(f"{sheet.place(row)}: {odd[0]!r} is no name for a label")
        if NONE in {word.lower() for word in words} and len(words) > 1:
            raise BadSetting(f"{sheet.place(row)}: {NONE!r} stands beside another label")
    every = sorted({word for words in said for word in words if word.lower() != NONE})
    return {label: [int(label in words) if words else UNKNOWN for words in said] for label in every}


def _patients(sheet: Sheet, name: str) -> list[str]:
    values = list(sheet.rows[name])
    if "" in values:
        raise BadSetting(
            f"{sheet.place(values.index(''))}: no patient; fill in that cell, or leave the column "
            f"{name!r} out (each record then counts as a patient)"
        )
    return one_spelling(values)


def _splits(sheet: Sheet, name: str) -> list[str]:
    values = [_SPLITS.get(value.lower(), "") for value in sheet.rows[name]]
    if "" in values:
        row = values.index("")
        raise BadSetting(
            f"{sheet.place(row)}: the split {sheet.rows[name].iloc[row]!r} is none of "
            f"{', '.join(SPLITS)}"
        )
    return values


def _folds(sheet: Sheet, name: str) -> list[int]:
    found = [re.fullmatch(r"(\d+)([.,]0)?", value) for value in sheet.rows[name]]
    if None in found:
        row = found.index(None)
        raise BadSetting(
            f"{sheet.place(row)}: the fold {sheet.rows[name].iloc[row]!r} is no whole number"
        )
    return [int(match[1]) for match in found if match]
