"""The table of labels: which record has which label, whose it is and in which split, checked line
by line.

A label is a column of 0 and 1 (or yes and no), or a word of a column of words: `AF; PVC`.
"""

import json
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from ecgbench.core.text import counted, shortened
from ecgbench.data.own import people
from ecgbench.data.own.tables import PAIRS, UNKNOWN_WORDS, Sheet, hot, plain, read, squeezed
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
OF_WORDS = ("label", "labels")
"""Columns of words that are labels without being named."""
NONE = "none"
"""The word of a record that has no label."""
YES_OR_NO = {word for pair in PAIRS.items() for word in pair if len(word) > 1}
"""Words that name no label."""
_SPLITS = dict(zip(SPLITS, SPLITS))
_SPLITS |= {"training": "train", "valid": "val", "validation": "val", "testing": "test"}
_BETWEEN = re.compile(r"[;,|\r\n\t]")
_CODES = re.compile(r"\d{6,}(?:[\s,]+\d{6,})+")
"""Numbers of SNOMED CT."""
_NO_LABEL = re.compile(
    r".*[^\W\d]\s*[=:]\s*(?:\d.*|true|false|yes|no|[yntf])|.*\?|[\W_]*|-\d+|[\[{].*", re.I
)
"""A value such as `AF=1` (but not a `2:1`), a guess, a number for what is missing, a list that
is none, a dict.
"""


@dataclass(frozen=True)
class Labels:
    """A table of labels that was checked."""

    file: Path
    table: pd.DataFrame
    """A row per record, by its line of the file: record; patient, split or fold where the table has
    them; a column of 1, 0 and UNKNOWN per label; what else the table holds, as text.
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
    names = [str(name) for name in sheet.rows]
    known = {squeezed(name): name for name in reversed(names)}
    record = next((known[name] for name in RECORD if name in known), None)
    if record is None:
        raise BadSetting(
            f"{file.name} has no column 'record' (the file's name); it has "
            f"{', '.join(map(repr, names))}"
        )
    table = pd.DataFrame({"record": sheet.rows[record]})
    for line in table.index[table["record"] == ""]:
        raise BadSetting(f"{sheet.place(line)}: no record is named")
    used, notes = {record}, list[str]()
    if patient := people.patient_column(sheet, [name for name in names if name != record]):
        table["patient"], notes = people.patients(sheet, patient)
        if patient.casefold() != "patient":
            notes.append(f"patients are those of the column {patient!r}")
        used.add(patient)
    for name in [name for name in ("split", "fold") if name in known]:
        table[name] = _splits(sheet, known[name])
        used.add(known[name])
    if {"split", "fold"} <= {*table}:
        raise BadSetting(f"{file.name} has the columns split and fold; leave out one of them")
    left = [name for name in names if name not in used]
    found, of, more = _labels(sheet, left, columns, positive)
    other, odd = people.age_and_sex(sheet.rows[[name for name in left if name not in of]])
    other = other.rename(columns=_kept_name)
    _demand_names(sheet, found, [str(name) for name in other])
    table = pd.concat([table, pd.DataFrame(found, index=table.index), other], axis=1)
    return Labels(file, table, tuple(found), tuple(map(str, other)), (*notes, *more, *odd))


def _splits(sheet: Sheet, name: str) -> list[str | int]:
    """The splits or folds in a column."""
    found: list[str | int] = []
    kind = squeezed(name)
    for line, value in sheet.rows[name].items():
        if kind == "fold" and (fold := re.fullmatch(r"(\d+)([.,]0)?", value)):
            found.append(int(fold[1]))
        elif kind == "split" and value.lower() in _SPLITS:
            found.append(_SPLITS[value.lower()])
        else:
            what = f"none of {', '.join(SPLITS)}" if kind == "split" else "no whole number"
            raise BadSetting(f"{sheet.place(line)}: the {kind} {value!r} is {what}")
    return found


def _labels(
    sheet: Sheet, left: Sequence[str], columns: Sequence[str], positive: str | None
) -> tuple[dict[str, list[int]], list[str], list[str]]:
    """Values by label from the columns that are `left`, the columns that were used, and notes."""
    chosen = {plain(name) for name in columns}
    if absent := [name for name in columns if plain(name) not in map(plain, left)]:
        raise BadSetting(
            f"--label-columns {','.join(columns)}: {sheet.file.name} has no column {absent[0]!r}; "
            f"it has {', '.join(left)}"
        )
    found: dict[str, list[int]] = {}
    used, notes, is_found = list[str](), list[str](), positive is None
    for name in left:
        cells = sheet.rows[name]
        own_positive = positive if positive and _says(cells, positive) else None
        if not (plain(name) in chosen if chosen else own_positive or _is_label(name, cells)):
            continue
        if own_positive or _is_of_words(name, cells):
            own = _of_words(sheet, name, own_positive, notes)
        else:
            own = {name: _of_cells(sheet, name, notes)}
        if twice := [label for label in own if label in found]:
            raise BadSetting(
                f"{sheet.file.name} has the label {twice[0]!r} twice; rename one (the columns "
                f"{', '.join(used)} and {name})"
            )
        found |= own
        used.append(name)
        is_found |= own_positive is not None
        unknown = [c for c, v in zip(cells, next(iter(own.values()), ())) if v == UNKNOWN]
        if unknown:
            words = sorted({repr(shortened(c, 20)) if c else "blank" for c in unknown})
            notes.append(
                f"{name}: unknown of {counted(len(unknown), 'record')} ({', '.join(words)})"
            )
    if not is_found:
        raise BadSetting(f"--positive {positive}: no column of labels of {sheet.file.name} says it")
    return found, used, notes


def _demand_names(sheet: Sheet, found: Mapping[str, object], kept: Sequence[str]) -> None:
    """BadSetting where there is no label, or one with the name of another column."""
    if not found:
        raise BadSetting(
            f"{sheet.file.name} has no label: no column of 0 and 1, and no column 'label' of words "
            f"(--label-columns {','.join(kept[:3]) or 'NAME'} takes the words of columns)"
        )
    for label in found:
        if label.lower() in OF_AN_INDEX:
            raise BadSetting(
                f"{sheet.file.name}: no label can be called {label!r}, the name of a column of "
                f"every dataset; rename it"
            )
        if label in kept:
            raise BadSetting(f"{sheet.file.name} has a column and a label {label!r}; rename one")


def _kept_name(name: str) -> str:
    """Of a column that is kept: no name that an index has itself, and no mark of its labels."""
    spelled = name.replace(":", "_")
    return f"{spelled}_given" if spelled.lower() in OF_AN_INDEX else spelled


# ---- columns of 0 and 1


def _is_hot(cells: pd.Series) -> bool:
    """Whether most of what a column says is 0 or 1."""
    values = [value for value in hot(cells) if value != UNKNOWN]
    return 2 * sum(value is not None for value in values) > len(values)


def _is_label(name: str, cells: pd.Series) -> bool:
    return not people.kind(name) and (name.lower() in OF_WORDS or _is_hot(cells))


def _is_of_words(name: str, cells: pd.Series) -> bool:
    """Whether a column of labels holds their names: also 0, 1, 2, the numbers of classes."""
    odd = [plain(cell) for cell, value in zip(cells, hot(cells)) if value is None]
    classes = name.lower() in OF_WORDS and all(word.isdecimal() for word in odd)
    return bool(odd) and (classes or not _is_hot(cells))


def _of_cells(sheet: Sheet, name: str, notes: list[str]) -> list[int]:
    values, cells = hot(sheet.rows[name]), sheet.rows[name]
    for (line, cell), value in zip(cells.items(), values):
        if value is None:
            raise BadSetting(
                f"{sheet.place(line)}: the column {name!r} says {shortened(cell, 40)!r}, where 0 "
                f"or 1 belongs (leave it blank where it is unknown; --positive WORD: all other "
                f"words are 0; a column that is no label: name the others with --label-columns)"
            )
    said = {(value, plain(cell)) for value, cell in zip(values, cells) if value != UNKNOWN}
    if {word for _, word in said} - {"0", "1", "false", "true"}:
        means = [f"{word!r} is {value}" for value, word in sorted(said, reverse=True)]
        notes.append(f"{name}: {', '.join(means)}")
    return [value for value in values if value is not None]


# ---- columns of words


def key(word: str) -> str:
    """What spellings of one label have in common: neither case, a last dot nor the kind of gap
    between its words.

    >>> key("Sinus_Rhythm") == key("sinus rhythm."), key("T-"), key("AV-Block")
    (True, 't-', 'av block')
    """
    text = plain(word)
    return re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", text.rstrip(".") or text)


def _says(cells: pd.Series, word: str) -> bool:
    """Whether one of the labels in a column is a word."""
    return any(key(word) in map(key, _parts(cell)) for cell in cells)


def _of_words(
    sheet: Sheet, name: str, positive: str | None, notes: list[str]
) -> dict[str, list[int]]:
    """1, 0 or UNKNOWN of each record by label; BadSetting for a cell that names no label.

    positive: the word that is 1 where all others are 0.
    """
    rows: list[set[str] | None] = []
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for line, cell in sheet.rows[name].items():
        words = _parts(cell)
        rows.append(_keys(words, partial(_odd, sheet, name, line)))
        for word in words if rows[-1] is not None else ():
            spellings[key(word)][word] += 1
    spelled = {of: ways.most_common(1)[0][0] for of, ways in spellings.items()}
    notes += [
        f"{name}: {' and '.join(map(repr, ways))} are one label"
        for of, ways in spellings.items()
        if len(ways) > 1 and of != NONE
    ]
    words = sorted(spelled.keys() - {NONE}, key=spelled.__getitem__)
    ones = [key(positive)] if positive else words
    if zeros := [repr(spelled[word]) for word in words if word not in ones]:
        more = f" and {len(zeros) - 5:,} other words" if len(zeros) > 5 else ""
        verb = "are" if len(zeros) > 1 else "is"
        notes.append(f"{name}: {spelled[ones[0]]!r} is 1, {', '.join(zeros[:5])}{more} {verb} 0")
    elif len(ones) == 2 and all(len(row & {*ones}) == 1 for row in rows if row is not None):
        first, second = (spelled[word] for word in ones)
        notes.append(
            f"{name}: every record is {first!r} or {second!r}, counted as two labels "
            f"(--positive {shlex.quote(first)} makes them one)"
        )
    own_name = positive is not None and name.lower() not in OF_WORDS
    return {
        name if own_name or word in YES_OR_NO else spelled[word]: [
            UNKNOWN if row is None else int(word in row) for row in rows
        ]
        for word in ones
    }


def _parts(cell: str) -> list[str]:
    """What stands between separators or in a list."""
    words = re.split(r"[\s,]+", cell) if _CODES.fullmatch(cell) else _BETWEEN.split(cell)
    if cell.startswith("["):
        with suppress(ValueError):  # else it is refused as no name of a label
            words = [*map(str, json.loads(cell.replace("'", '"')))] or [NONE]
    return [part for word in words if (part := " ".join(word.split()))]


def _keys(words: Sequence[str], odd: Callable[[str], BadSetting]) -> set[str] | None:
    """The keys of a cell's words; None where it says that nothing is known."""
    if all(plain(word) in UNKNOWN_WORDS for word in words):
        return None
    for word in words:
        if len(words) > 1 and (plain(word) in UNKNOWN_WORDS or key(word) == NONE):
            raise odd(f"{word!r} stands beside another label; leave out one")
        if _NO_LABEL.fullmatch(word):
            raise odd(
                f"{word!r} is no name of a label; write those that the record has: 'AF; PVC', and "
                f"leave the cell blank where it is unknown",
            )
    return {*map(key, words)}


def _odd(sheet: Sheet, name: str, line: object, why: str) -> BadSetting:
    """The error of a cell that makes it impossible to go on."""
    cell = shortened(dict(sheet.rows[name].items())[line], 60)
    return BadSetting(f"{sheet.place(line)}: the column {name!r} says {cell!r}; {why}")
