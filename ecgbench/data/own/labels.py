"""The table of labels: which record has which label, whose it is and in which split, checked line
by line.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from ecgbench.core.text import counted, shortened
from ecgbench.data.own import age_sex, patients, words
from ecgbench.data.own.cells import (
    MISSING,
    PAIRS,
    UNKNOWN_WORDS,
    Sheet,
    hot,
    plain,
    read,
    squeezed,
)
from ecgbench.data.select import SPLITS
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN

RECORD = ("record", "file", "filename", "path")
OF_AN_INDEX = (
    *("record", "patient", "path", "split", "fold", "left_out", "damaged"),
    *("samples", "fs", "flat", "sha256", "available", "found", "fixed", "strata", "turn"),
    "import_fold",
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
    """Sentences: what was joined, counted as unknown, or taken for the positive."""

    @property
    def patients_known(self) -> bool:
        """Whether the table says whose a record is."""
        return "patient" in self.table


def checked(file: Path, columns: Sequence[str] = (), positive: str | None = None) -> Labels:
    """The table in `file`; `columns`: those that are labels, else those that hold 0 and 1 or yes
    and no, and the words of a column `label`. positive: the word that is 1 in a column of words,
    where all others are 0. BadSetting in one line, with the line of the file, for what is odd.
    """
    sheet = read(file)
    named = {squeezed(name): name for name in reversed([*sheet.rows.columns])}
    record = next((named[name] for name in RECORD if name in named), None)
    if record is None:
        raise BadSetting(
            f"{file.name} has no column 'record' (the file's name); it has "
            f"{', '.join(map(repr, sheet.rows.columns))}"
        )
    table = pd.DataFrame({"record": sheet.rows[record], "line": sheet.lines})
    for row in table.index[table["record"] == ""]:
        raise BadSetting(f"{sheet.place(row)}: no record is named")
    taken, notes = {record}, list[str]()
    if patient := patients.column(sheet, [n for n in sheet.rows.columns if n != record]):
        table["patient"], notes = patients.spelled(sheet, patient)
        if patient.casefold() != "patient":
            notes.append(f"patients are those of the column {patient!r}")
        taken.add(patient)
    for name in [name for name in ("split", "fold") if name in named]:
        table[name] = _divided(sheet, named[name])
        taken.add(named[name])
    if {"split", "fold"} <= {*table.columns}:
        raise BadSetting(f"{file.name} has the columns split and fold; leave out one of them")
    left = [name for name in sheet.rows.columns if name not in taken]
    found, used, more = _labels(sheet, left, columns, positive)
    kept = [name for name in left if name not in used]
    if patient is None:
        more += patients.candidate(sheet, kept)
    other, odd = age_sex.read(sheet.rows[kept])
    made = _labelled(sheet, table, found, other)
    return replace(made, notes=(*notes, *more, *odd))


def _labels(
    sheet: Sheet, left: list[str], columns: Sequence[str], positive: str | None
) -> tuple[dict[str, list[int]], list[str], list[str]]:
    """Values by label from the columns that are `left`, the columns that were used, and notes."""
    chosen = {plain(name) for name in columns}
    if absent := [name for name in columns if plain(name) not in map(plain, left)]:
        raise BadSetting(
            f"--label-columns {','.join(columns)}: {sheet.file.name} has no column {absent[0]!r}; "
            f"it has {', '.join(left)}"
        )
    found: dict[str, list[int]] = {}
    used, notes, seen = list[str](), list[str](), positive is None
    for name in left:
        has = positive is not None and words.key(positive) in map(words.key, sheet.rows[name])
        if not (plain(name) in chosen if chosen else has or _is_label(sheet, name)):
            notes += [] if chosen else _passed_over(sheet, name)
            continue
        if has or _of_words(sheet, name):
            column = words.read(sheet, name)
            has = positive is not None and words.key(positive) in column.spelled
            own = words.labels(column, positive if has else None)
            notes += column.notes
        else:
            own = {name: _of_cells(sheet, name, notes)}
        if twice := [label for label in own if label in found]:
            raise BadSetting(
                f"{sheet.file.name} has the label {twice[0]!r} twice; rename one (the columns "
                f"{', '.join(used)} and {name})"
            )
        found |= own
        used.append(name)
        seen |= has
        if unknown := [c for c, v in zip(sheet.rows[name], next(iter(own.values()), ())) if v < 0]:
            said = {f"{shortened(c, 20)!r}" if c else "blank" for c in unknown}
            notes.append(
                f"{name}: unknown of {counted(len(unknown), 'record')} ({', '.join(sorted(said))})"
            )
    if not seen:
        raise BadSetting(f"--positive {positive}: no column of labels of {sheet.file.name} says it")
    return found, used, notes


def _labelled(
    sheet: Sheet, table: pd.DataFrame, found: dict[str, list[int]], other: pd.DataFrame
) -> Labels:
    """The table with its labels and the other columns, which are kept."""
    kept = [str(name) for name in other]
    if not found:
        few = [n for n in kept if 1 < other[n].map(plain).nunique() <= len(table) / 2]
        hint = f" (--label-columns {','.join(few[:3])} takes the words of columns)" if few else ""
        raise BadSetting(
            f"{sheet.file.name} has no label: no column of 0 and 1, and no column 'label' of words"
            f"{hint}"
        )
    for label in found:
        if label.lower() in (*OF_AN_INDEX, "line"):
            raise BadSetting(
                f"{sheet.file.name}: no label can be called {label!r}, the name of a column of "
                f"every dataset; rename it"
            )
    spelled = [_kept_name(name) for name in kept]
    if clash := [name for name in spelled if name in found]:
        raise BadSetting(f"{sheet.file.name} has a column and a label {clash[0]!r}; rename one")
    other = other.set_axis(spelled, axis=1)
    labelled = pd.concat([table, pd.DataFrame(found, index=table.index), other], axis=1)
    return Labels(sheet.file, labelled, tuple(found), tuple(spelled))


def _kept_name(name: str) -> str:
    """Of a column that is kept: no name that an index has itself, and no mark of its labels."""
    plain = name.replace(":", "_")
    return f"{plain}_given" if plain.lower() in (*OF_AN_INDEX, "line") else plain


def _is_label(sheet: Sheet, name: str) -> bool:
    """Whether both a column's name and most of its cells are those of a label."""
    return not age_sex.kind(name) and (
        name.lower() in words.COLUMNS or _is_hot(sheet, name) or _asks(sheet, name)
    )


def _passed_over(sheet: Sheet, name: str) -> list[str]:
    """A note on a column that says only yes, or only no, and is not taken for a label."""
    said = {*map(plain, sheet.rows[name])} - UNKNOWN_WORDS
    if not said or age_sex.kind(name) or not said <= {*PAIRS, *PAIRS.values()}:
        return []
    return [f"{name}: {' and '.join(map(repr, sorted(said)))} is not taken for a label"]


def _is_hot(sheet: Sheet, name: str) -> bool:
    """Whether most of what a column says is 0 or 1."""
    values = [value for value in hot(sheet.rows[name]) if value != UNKNOWN]
    return 2 * len([value for value in values if value is not None]) > len(values)


def _asks(sheet: Sheet, name: str) -> bool:
    """Whether a column holds 0, 1 and numbers that may stand for missing values."""
    values, cells = hot(sheet.rows[name]), map(plain, sheet.rows[name])
    odd = [cell for cell, value in zip(cells, values) if value is None]
    return bool(odd) and {0, 1} <= {*values} and all(map(MISSING.fullmatch, odd))


def _of_words(sheet: Sheet, name: str) -> bool:
    """Whether a column of labels holds their names."""
    said = {*map(plain, sheet.rows[name])} - UNKNOWN_WORDS
    if None not in hot(sheet.rows[name]) or _asks(sheet, name) or said == {"0", "1", words.NONE}:
        return False
    return name.lower() in words.COLUMNS or not _is_hot(sheet, name)


def _of_cells(sheet: Sheet, name: str, notes: list[str]) -> list[int]:
    values, cells = hot(sheet.rows[name]), sheet.rows[name]
    if None in values:
        row = values.index(None)
        cell = shortened(str(cells.iloc[row]), 40)
        raise BadSetting(
            f"{sheet.place(row)}: the column {name!r} says {cell!r}, where 0 or 1 belongs (leave "
            f"it blank where it is unknown; --positive WORD: all other words are 0; a column that "
            f"is no label: name the others with --label-columns)"
        )
    said = Counter((value, plain(cell)) for value, cell in zip(values, cells) if value != UNKNOWN)
    if {word for _, word in said} - {"0", "1", "false", "true"}:
        means = [f"{word!r} is {value}" for value, word in sorted(said, reverse=True)]
        notes.append(f"{name}: {', '.join(means)}")
    return [value for value in values if value is not None]


def _divided(sheet: Sheet, name: str) -> list[str | int]:
    """The splits or folds in a column."""
    found: list[str | int] = []
    for row, value in enumerate(sheet.rows[name]):
        fold = re.fullmatch(r"(\d+)([.,]0)?", value)
        if squeezed(name) == "fold" and fold:
            found.append(int(fold[1]))
        elif squeezed(name) == "split" and value.lower() in _SPLITS:
            found.append(_SPLITS[value.lower()])
        else:
            what = (
                f"none of {', '.join(SPLITS)}" if squeezed(name) == "split" else "no whole number"
            )
            raise BadSetting(f"{sheet.place(row)}: the {squeezed(name)} {value!r} is {what}")
    return found
