"""The table of labels: labels, patients and splits of records, checked line by line.

A label is a column of 0 and 1 (or true and false, yes and no), or a part of a column of words:
`AF; PVC`.
"""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from ecgbench.core.text import counted, shortened
from ecgbench.data.imported import people
from ecgbench.data.select import SPLITS
from ecgbench.datasets.indexing.sheet import (
    UNKNOWN_WORDS,
    Sheet,
    hot,
    plain,
    read,
    squeezed,
)
from ecgbench.datasets.own import OF_AN_INDEX
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN

RECORD = ("record", "file", "filename", "path")
OF_WORDS = ("label", "labels")
"""Columns of words that are labels without being named."""
NONE = "none"
"""The word of a record without a label."""
_SPLITS = dict(zip(SPLITS, SPLITS))
_SPLITS |= {"training": "train", "valid": "val", "validation": "val", "testing": "test"}
_SPLITS |= {"dev": "val"}
_FOLD = re.compile(r"(\d+)([.,]0)?")
FOLDS = range(4, 21)
"""How many folds a column of numbers may hold."""
SURE, PERHAPS = ";", r"(?<=\S)\s*(?:[|,/+&\r\n\t]|\b(?:and)\b)\s*(?=\S)"
"""What stands between labels; what may, or may belong to a name."""
BETWEEN = "|,\n\t"
"""What stands between labels where it alone does so in a column."""
_ABSENT = re.compile(r"no\b.*|non?e?|nein|neg.*|normal|absent|healthy|controls?|without.*|0|false")
"""Words that hardly name what is looked for."""
_NO_LABEL = re.compile(r"[\[{].*|.*=.*|.*\?|[-.]+|-\d+")
"""A list or a dict of a program, a value such as `AF=1`, a guess, a mark for what is missing."""


@dataclass(frozen=True)
class Labels:
    """A checked table of labels."""

    file: Path
    table: pd.DataFrame
    """A row per record, indexed by the line of the file: record; patient, split or fold where the
    table has them; a column of 1, 0 and UNKNOWN per label; all other columns as text.
    """
    labels: tuple[str, ...]
    others: tuple[str, ...]
    """Columns that are not labels."""
    notes: tuple[str, ...] = ()
    """Sentences about joined spellings, unknown values, and the words that mean 1."""

    @property
    def patients_known(self) -> bool:
        """Whether the table names patients."""
        return "patient" in self.table


def checked(
    file: Path,
    columns: Sequence[str] = (),
    positive: str | None = None,
    whose: str | None = None,
    split: str | None = None,
) -> Labels:
    """The table in `file`. columns: those of labels, else those of 0 and 1 or yes and no, and the
    words of a column `label`. positive: the word that means 1 in a column of words, where all
    others mean 0. whose: the pattern of `people.patients`. split: the column of splits or folds,
    if not that of this name. BadSetting in one line, with the line of the file, for anything else.
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
        raise BadSetting(f"{sheet.at(line)}: no record is named")
    used, notes = {record}, list[str]()
    if patient := people.patient_column(sheet, [name for name in names if name != record]):
        table["patient"], notes = people.patients(sheet, patient, whose)
        if patient.casefold() != "patient":
            notes.append(f"patients are those of the column {patient!r}")
        used.add(patient)
    if whose and patient is None:
        raise BadSetting(f"--patients {whose}: {file.name} has no column patient")
    wanted = [squeezed(split)] if split else ["split", "fold"]
    given = [known[name] for name in wanted if name in known]
    if split and not given:
        raise BadSetting(
            f"--split {split}: {file.name} has no such column; it has {', '.join(names)}"
        )
    if len(given) > 1:
        raise BadSetting(f"{file.name} has the columns split and fold; leave out one of them")
    for name in given:
        kind, values = _splits(sheet, name)
        table[kind] = values
        used.add(name)
    candidates = [name for name in names if name not in used]
    if not given:
        notes += _seen_splits(sheet, candidates)
    if not patient:
        notes += people.perhaps(sheet, candidates)
    found, of, more = _labels(sheet, candidates, columns, positive)
    other, odd = people.age_and_sex(sheet.rows[[name for name in candidates if name not in of]])
    other = other.rename(columns=_free_name)
    _demand_names(sheet, found, [str(name) for name in other])
    table = pd.concat([table, pd.DataFrame(found, index=table.index), other], axis=1)
    return Labels(file, table, tuple(found), tuple(map(str, other)), (*notes, *more, *odd))


def _splits(sheet: Sheet, name: str) -> tuple[str, list[str | int]]:
    """ "split" or "fold", and the values in a column of them."""
    cells = sheet.rows[name]
    kind = "fold" if _FOLD.fullmatch(cells.iloc[0]) else "split"
    found: list[str | int] = []
    for line, value in cells.items():
        if kind == "fold" and (fold := _FOLD.fullmatch(value)):
            found.append(int(fold[1]))
        elif kind == "split" and value.lower() in _SPLITS:
            found.append(_SPLITS[value.lower()])
        else:
            what = f"none of {', '.join(SPLITS)}" if kind == "split" else "no whole number"
            raise BadSetting(f"{sheet.at(line)}: the {kind} {value!r} is {what}")
    return kind, found


def _seen_splits(sheet: Sheet, names: Sequence[str]) -> list[str]:
    """Which columns have the values of splits, or of folds of about one size, and how to use
    them.
    """
    notes = []
    for name in names:
        counts = sheet.rows[name].map(plain).value_counts()
        words = len(counts) > 1 and {*counts.index} <= {*_SPLITS}
        folds = len(counts) in FOLDS and {*counts.index} in [
            {str(i + first) for i in range(len(counts))} for first in (0, 1)
        ]
        if words or (folds and not people.kind(name) and counts.max() <= 2 * counts.min()):
            what = "splits" if words else f"{len(counts)} folds of about one size"
            notes.append(
                f"the column {name!r} may be {what}, and is not used as such; to use it: "
                f"--split {shlex.quote(name)}"
            )
    return notes


def _labels(
    sheet: Sheet, candidates: Sequence[str], columns: Sequence[str], positive: str | None
) -> tuple[dict[str, list[int]], list[str], list[str]]:
    """Values by label, the columns among the `candidates` that were used, and notes."""
    chosen = {plain(name) for name in columns}
    if absent := [name for name in columns if plain(name) not in map(plain, candidates)]:
        raise BadSetting(
            f"--label-columns {','.join(columns)}: {sheet.file.name} has no column {absent[0]!r}; "
            f"it has {', '.join(candidates)}"
        )
    found: dict[str, list[int]] = {}
    used, notes, is_found = list[str](), list[str](), positive is None
    for name in candidates:
        cells = sheet.rows[name]
        positive_here = positive if positive and _says(cells, positive) else None
        if not (plain(name) in chosen if chosen else positive_here or _is_label(name, cells)):
            continue
        if positive_here or _is_of_words(name, cells):
            values = _of_words(sheet, name, positive_here, notes)
        else:
            values = {name: _of_cells(sheet, name, notes)}
        if twice := [label for label in values if label in found]:
            raise BadSetting(
                f"{sheet.file.name} has the label {twice[0]!r} twice; rename one (the columns "
                f"{', '.join(used)} and {name})"
            )
        found |= values
        used.append(name)
        is_found |= positive_here is not None
        unknown = [c for c, v in zip(cells, next(iter(values.values()), ())) if v == UNKNOWN]
        if unknown:
            words = sorted({repr(shortened(c, 20)) if c else "blank" for c in unknown})
            notes.append(
                f"{name}: unknown of {counted(len(unknown), 'record')} ({', '.join(words)})"
            )
    if not is_found:
        raise BadSetting(
            f"--positive {positive}: no column of labels of {sheet.file.name} has this word"
        )
    return found, used, notes


def _demand_names(sheet: Sheet, found: Mapping[str, object], others: Sequence[str]) -> None:
    """BadSetting where there is no label, or one with the name of another column."""
    if not found:
        advice = "--label-columns NAME takes the words of a column"
        advice += f" ({', '.join(others)})" if others else ""
        for name in others:  # of two words one may mean 1
            cells = sheet.rows[name] if name in sheet.rows else pd.Series(dtype=str)
            words = {plain(cell): cell for cell in cells if cell}
            if len(words) == 2 and None in people.sexes(name, [*words]):
                first = min(words.items(), key=lambda word: bool(_ABSENT.fullmatch(word[0])))[1]
                line = next(line for line, cell in cells.items() if plain(cell) == plain(first))
                advice += f"; {name!r} says {first!r} ({sheet.at(line)}): if that means 1, "
                advice += f"--positive {shlex.quote(first)}"
                break
        raise BadSetting(
            f"{sheet.file.name} has no label: no column of 0 and 1, true and false, or yes and no, "
            f"and no column 'label' of words ({advice})"
        )
    taken = {plain(name): name for name in others}
    for label in found:
        if label.lower() in OF_AN_INDEX:
            raise BadSetting(
                f"{sheet.file.name}: no label can be called {label!r}, the name of a column of "
                f"every dataset; rename it"
            )
        # records.csv is read as any table is: names differ in more than case
        if other := taken.get(plain(label)):
            raise BadSetting(f"{sheet.file.name} has {other!r} and the label {label!r}; rename one")
        taken[plain(label)] = label


def _free_name(name: str) -> str:
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
                f"{sheet.at(line)}: the column {name!r} says {shortened(cell, 40)!r}, where 0 "
                f"or 1 belongs (leave it blank where it is unknown; --positive WORD: all other "
                f"words are 0; a column that is no label: name the others with --label-columns)"
            )
    meanings = {(value, plain(cell)) for value, cell in zip(values, cells) if value != UNKNOWN}
    if {word for _, word in meanings} - {"0", "1", "false", "true"}:
        means = [f"{word!r} is {value}" for value, word in sorted(meanings, reverse=True)]
        notes.append(f"{name}: {', '.join(means)}")
    return [value for value in values if value is not None]


# ---- columns of words


def key(word: str) -> str:
    """A label without case, a last dot, and the kind of gap between its words, to compare
    spellings.

    >>> key("Sinus_Rhythm") == key("sinus rhythm."), key("T-"), key("AV-Block")
    (True, 't-', 'av block')
    """
    text = plain(word)
    return re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", text.rstrip(".") or text)


def _says(cells: pd.Series, word: str) -> bool:
    """Whether one of the labels in a column is a word."""
    return any(key(word) in map(key, re.split(r"[;|,\r\n\t]", cell)) for cell in cells)


def _of_words(
    sheet: Sheet, name: str, positive: str | None, notes: list[str]
) -> dict[str, list[int]]:
    """1, 0 or UNKNOWN of each record by label; BadSetting for a cell that may mean two things.

    positive: the word that is 1 where all others are 0.
    """
    rows, spelled = _read_words(sheet, name, notes)
    if positive and key(positive) not in spelled:
        raise BadSetting(f"--positive {positive}: in the column {name!r} it stands for no label")
    words = sorted(spelled.keys() - {NONE}, key=spelled.__getitem__)
    ones = [key(positive)] if positive else words
    if zeros := [repr(spelled[word]) for word in words if word not in ones]:
        more = f" and {len(zeros) - 5:,} other words" if len(zeros) > 5 else ""
        verb = "are" if len(zeros) > 1 else "is"
        one = spelled[ones[0]]
        notes.append(f"{name}: {one!r} is 1, {', '.join(zeros[:5])}{more} {verb} 0")
    elif len(ones) == 2 and all(len(row & {*ones}) == 1 for row in rows if row is not None):
        first, second = (spelled[word] for word in ones)
        notes.append(
            f"{name}: every record is {first!r} or {second!r}, counted as two labels "
            f"(--positive {shlex.quote(first)} makes them one)"
        )
    own_name = positive is not None and name.lower() not in OF_WORDS
    return {
        name if own_name else spelled[word]: [
            UNKNOWN if row is None else int(word in row) for row in rows
        ]
        for word in ones
    }


def _read_words(
    sheet: Sheet, name: str, notes: list[str]
) -> tuple[list[set[str] | None], dict[str, str]]:
    """The keys of the words of each cell, None where nothing is known, and how each is spelled."""
    odd, cells = partial(_odd, sheet, name), sheet.rows[name]
    separator = _separator(sheet, name)
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    rows: list[set[str] | None] = []
    for line, cell in cells.items():
        if plain(cell) in UNKNOWN_WORDS:
            rows.append(None)
            continue
        pieces = cell.split(separator) if separator else [cell]
        words = [word for piece in pieces if (word := " ".join(piece.split()))]
        for word in words:
            if len(words) > 1 and (plain(word) in UNKNOWN_WORDS or key(word) == NONE):
                raise odd(line, f"{word!r} stands beside another label; leave out one")
            if _NO_LABEL.fullmatch(word):
                raise odd(
                    line,
                    f"{word!r} is no name of a label; write those that the record has: 'AF; PVC', "
                    f"and leave the cell blank where it is unknown",
                )
            spellings[key(word)][word] += 1
        rows.append({*map(key, words)})
    notes += [
        f"{name}: {' and '.join(map(repr, ways))} are one label"
        for of, ways in spellings.items()
        if len(ways) > 1 and of != NONE
    ]
    if separator and separator != SURE:
        several = sum(separator in cell for cell in cells)
        notes.append(f"{name}: {counted(several, 'cell')} divided at {separator!r} into labels")
    return rows, {of: ways.most_common(1)[0][0] for of, ways in spellings.items()}


def _separator(sheet: Sheet, name: str) -> str:
    """What stands between the labels of a column: a semicolon, else the only sign that may; "" for
    nothing. BadSetting, with the line, where it may belong to a name.
    """
    cells = sheet.rows[name]
    if any(SURE in cell for cell in cells):
        return SURE
    found = {
        sign.strip(" ") or " ": line
        for line, cell in cells.items()
        for sign in re.findall(PERHAPS, cell, re.I)
        if plain(cell) not in UNKNOWN_WORDS
    }
    if not found:
        _demand_single(sheet, name)
    if len(found) <= 1 and {*found} <= {*BETWEEN}:
        return next(iter(found), "")
    line = next(line for sign, line in found.items() if len(found) > 1 or sign not in BETWEEN)
    cell = dict(cells.items())[line]
    parts = "; ".join(re.split(PERHAPS, cell, flags=re.I))
    raise _odd(
        sheet,
        name,
        line,
        f"write {parts!r} where these are several labels, and {cell + ';'!r} (in one row) where it "
        f"is one",
    )


def _demand_single(sheet: Sheet, name: str) -> None:
    """BadSetting where a cell is made of words that are whole cells elsewhere: AF PVC."""
    cells = sheet.rows[name]
    whole = {key(cell) for cell in cells}
    for line, cell in cells.items():
        words = re.split(r"[\s_-]+", cell)
        if len(words) > 1 and all(key(word) in whole for word in words):
            why = f"other rows say {words[0]!r}; write {'; '.join(words)!r} where these are several"
            raise _odd(sheet, name, line, f"{why} labels, and {cell + ';'!r} where it is one")


def _odd(sheet: Sheet, name: str, line: object, why: str) -> BadSetting:
    """The error of a cell that makes it impossible to go on."""
    cell = shortened(dict(sheet.rows[name].items())[line], 60)
    return BadSetting(f"{sheet.at(line)}: the column {name!r} says {cell!r}; {why}")
