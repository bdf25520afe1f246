"""The table of labels: labels, patients and splits of records, checked line by line.

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
from ecgbench.data.imported import people
from ecgbench.data.imported.tables import PAIRS, UNKNOWN_WORDS, Sheet, hot, plain, read, squeezed
from ecgbench.data.select import SPLITS
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN

RECORD = ("record", "file", "filename", "path")
OF_AN_INDEX = (
    *("record", "patient", "path", "split", "fold", "left_out", "damaged"),
    *("samples", "fs", "flat", "sha256", "available", "found", "fixed", "strata", "turn"),
    "import_fold",
)
"""Columns of every index; no other column may have these names."""
OF_WORDS = ("label", "labels")
"""Columns of words that are labels without being named."""
NONE = "none"
"""The word of a record without a label."""
YES_OR_NO = {word for pair in PAIRS.items() for word in pair if len(word) > 1}
"""Words that are not labels."""
_SPLITS = dict(zip(SPLITS, SPLITS))
_SPLITS |= {"training": "train", "valid": "val", "validation": "val", "testing": "test"}
_BETWEEN = re.compile(r"[;|\r\n\t]")
_CODES = re.compile(r"\d{6,}(?:[\s,]+\d{6,})+")
"""Numbers of SNOMED CT."""
_PERHAPS_BETWEEN = re.compile(r"(?<=\S)\s*(?:[,/+&]|\b(?:and|und)\b)\s*(?=\S)", re.I)
_NO_LABEL = re.compile(
    r".*[^\W\d]\s*[=:]\s*(?:\d.*|true|false|yes|no|[yntf])|.*\?|[\W_]*|-\d+|[\[{].*", re.I
)
"""A value such as `AF=1` (but not a `2:1`), a guess, a number for what is missing, a list that
is none, a dict.
"""
_DENIED = re.compile(
    r"(?:no|not|non|without|kein|keine|ohne)[\s_-]+(.+)|(.+?)[\s_-]+(?:neg|negative|absent)", re.I
)


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


def checked(file: Path, columns: Sequence[str] = (), positive: str | None = None) -> Labels:
    """The table in `file`. columns: those of labels, else those of 0 and 1 or yes and no, and the
    words of a column `label`. positive: the word that means 1 in a column of words, where all
    others mean 0. BadSetting in one line, with the line of the file, for anything else.
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
        table["patient"], notes = people.patients(sheet, patient)
        if patient.casefold() != "patient":
            notes.append(f"patients are those of the column {patient!r}")
        used.add(patient)
    for name in [name for name in ("split", "fold") if name in known]:
        table[name] = _splits(sheet, known[name])
        used.add(known[name])
    if {"split", "fold"} <= {*table}:
        raise BadSetting(f"{file.name} has the columns split and fold; leave out one of them")
    candidates = [name for name in names if name not in used]
    found, of, more = _labels(sheet, candidates, columns, positive)
    other, odd = people.age_and_sex(sheet.rows[[name for name in candidates if name not in of]])
    other = other.rename(columns=_free_name)
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
            raise BadSetting(f"{sheet.at(line)}: the {kind} {value!r} is {what}")
    return found


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
        raise BadSetting(
            f"{sheet.file.name} has no label: no column of 0 and 1, and no column 'label' of words "
            f"(--label-columns {','.join(others[:3]) or 'NAME'} takes the words of columns)"
        )
    for label in found:
        if label.lower() in OF_AN_INDEX:
            raise BadSetting(
                f"{sheet.file.name}: no label can be called {label!r}, the name of a column of "
                f"every dataset; rename it"
            )
        if label in others:
            raise BadSetting(f"{sheet.file.name} has a column and a label {label!r}; rename one")


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
    return any(key(word) in map(key, _parts(cell)[0]) for cell in cells)


def _of_words(
    sheet: Sheet, name: str, positive: str | None, notes: list[str]
) -> dict[str, list[int]]:
    """1, 0 or UNKNOWN of each record by label; BadSetting for a cell that may mean two things.

    positive: the word that is 1 where all others are 0.
    """
    odd = partial(_odd, sheet, name)
    rows, spelled = _read_words(sheet.rows[name], odd, notes)
    if positive and key(positive) not in spelled:
        raise BadSetting(f"--positive {positive}: in the column {name!r} it stands for no label")
    words = sorted(spelled.keys() - {NONE}, key=spelled.__getitem__)
    ones = [key(positive)] if positive else [w for w in words if not _denied(spelled[w], words)]
    for line, row in zip(sheet.rows.index, rows):
        both = [
            w
            for w in sorted(row or ())
            if not positive and _denied(spelled[w], words) in (row or ())
        ]
        if both:
            raise odd(line, f"{spelled[both[0]]!r} denies another; leave out one")
    if zeros := [repr(spelled[word]) for word in words if word not in ones]:
        one = f"{spelled[ones[0]]!r} is 1, " if len(ones) == 1 else ""
        more = f" and {len(zeros) - 5:,} other words" if len(zeros) > 5 else ""
        verb = "are" if len(zeros) > 1 else "is"
        notes.append(f"{name}: {one}{', '.join(zeros[:5])}{more} {verb} 0")
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


def _denied(word: str, others: Sequence[str]) -> str | None:
    """Which of other words one denies: AF, of "no AF"."""
    match = _DENIED.fullmatch(word)
    stem = key(match[1] or match[2]) if match else None
    return stem if stem in others else None


def _read_words(
    cells: pd.Series, odd: Callable[[object, str], BadSetting], notes: list[str]
) -> tuple[list[set[str] | None], dict[str, str]]:
    """The keys of the words of each cell, None where nothing is known, and how each is spelled."""
    parts = [_parts(cell) for cell in cells]
    whole = {key(named[0]) for named, certain in parts if certain and len(named) == 1}
    alone = {key(word) for named, _ in parts for word in named if not _PERHAPS_BETWEEN.search(word)}
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    rows: list[set[str] | None] = []
    divided = []
    for (line, cell), (named, _) in zip(cells.items(), parts):
        words = list[str]()
        for word in named:
            pieces = _PERHAPS_BETWEEN.split(word)
            if len(pieces) == 1 or key(word) in whole or plain(word) in UNKNOWN_WORDS:
                words.append(word)
            elif {*map(key, pieces)} <= {*alone, NONE}:
                words += pieces
            else:
                raise odd(
                    line,
                    f"write {'; '.join(pieces)!r} where these are several labels, and "
                    f"{word + ';'!r} (in one row) where it is one",
                )
        if len(words) > len(named):
            divided.append(f"{shortened(cell, 40)!r} ({'; '.join(words)})")
        rows.append(_keys(words, partial(odd, line)))
        for word in words if rows[-1] is not None else ():
            spellings[key(word)][word] += 1
    notes += [
        f"{cells.name}: {' and '.join(map(repr, ways))} are one label"
        for of, ways in spellings.items()
        if len(ways) > 1 and of != NONE
    ]
    if divided:
        holding = counted(len(divided), "cell")
        notes.append(f"{cells.name}: {holding} with several labels, such as {divided[0]}")
    return rows, {of: ways.most_common(1)[0][0] for of, ways in spellings.items()}


def _parts(cell: str) -> tuple[list[str], bool]:
    """What stands between certain separators or in a list, and whether there is one."""
    words = re.split(r"[\s,]+", cell) if _CODES.fullmatch(cell) else _BETWEEN.split(cell)
    if cell.startswith("["):
        with suppress(ValueError):  # else it is refused as no name of a label
            words = [*map(str, json.loads(cell.replace("'", '"')))] or [NONE]
    named = [part for word in words if (part := " ".join(word.split()).strip(", "))]
    return named, bool(_BETWEEN.search(cell)) or cell.startswith("[")


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
    return BadSetting(f"{sheet.at(line)}: the column {name!r} says {cell!r}; {why}")
