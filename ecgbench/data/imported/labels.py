"""The table of labels: labels, patients and splits of records, checked line by line.

A label is a column of 0 and 1 (true and false, yes and no), or a part of the cells of a column of
words: `AF; PVC`. Anything else is asked about, with the line of the table.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pandas as pd

from ecgbench.core.text import counted, shortened
from ecgbench.data.imported import patients
from ecgbench.data.imported.corrections import some
from ecgbench.data.select import SPLITS
from ecgbench.datasets.indexing.sheet import UNKNOWN_WORDS, Sheet, hot, plain, read, squeezed
from ecgbench.datasets.own import OF_AN_INDEX
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN

RECORD = ("record", "file", "filename", "path")
OF_WORDS = ("label", "labels")
"""Columns of words that are labels without being named."""
NONE = "none"
"""The word of a record without a label."""
_SPLITS = dict(zip(SPLITS, SPLITS)) | {"training": "train", "testing": "test", "dev": "val"}
_SPLITS |= {"valid": "val", "validation": "val"}
_FOLD = re.compile(r"(\d+)([.,]0)?")
_FOLDS = {str(number) for number in range(21)}
"""Values of a column that may be folds."""
_PERSON = re.compile(r"(?:.*[\W_]|patient|subject)?(?:age|sex|gender|(?:fe)?male)(?:[\W_].*)?")
"""Names of columns that are no labels although they may hold 0 and 1, in small letters."""
_OF_A_PERSON = {
    "age": "age",
    "sex": "sex",
    "gender": "sex",
    "patientsex": "sex",
    "patientage": "age",
}
"""Columns that `data.people` reads, by their names there."""
SURE = ";"
BETWEEN = "|,\n\t"
"""What stands between labels, and what does so where it is the only sign of a column."""
_SIGN = re.compile(r"(?<=\S)\s*([|,/+&\r\n\t]|\band\b)\s*(?=\S)", re.I)
"""What may stand between labels, or belong to the name of one."""
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
    """Sentences about what is unknown or not used."""

    @property
    def patients_known(self) -> bool:
        """Whether the table names patients."""
        return "patient" in self.table


def checked(
    file: Path, columns: Sequence[str] = (), whose: str | None = None, split: str | None = None
) -> Labels:
    """The table in `file`. columns: those of labels, else those of 0 and 1 or yes and no, and the
    words of a column `label`. whose: the pattern of `patients.named`. split: the column of splits
    or folds, if not that of this name. BadSetting in one line for anything else.
    """
    sheet = read(file)
    names = [str(name) for name in sheet.rows]
    known = {squeezed(name): name for name in reversed(names)}
    record = next((known[name] for name in RECORD if name in known), None)
    if record is None:
        there = ", ".join(names)
        raise BadSetting(f"{file.name} has no column 'record' (the file's name); it has {there}")
    table = pd.DataFrame({"record": sheet.rows[record]})
    for line in table.index[table["record"] == ""]:
        raise BadSetting(f"{sheet.at(line)}: no record is named")
    rest, notes = [name for name in names if name != record], list[str]()
    if patient := patients.column(sheet, rest, whose):
        table["patient"] = patients.named(sheet, patient, whose)
        notes += [f"patients are those of the column {patient!r}"] * (patient != "patient")
    wanted = [squeezed(split)] if split else ["split", "fold"]
    given = [known[name] for name in wanted if name in known]
    if len(given) > 1 or (split and not given):
        what = "the columns split and fold" if given else f"no column {split!r}"
        raise BadSetting(f"{file.name} has {what}; name one of {', '.join(names)}: --split COLUMN")
    for name in given:
        kind, values = _splits(sheet, name)
        table[kind] = values
    rest = [name for name in rest if name not in (patient, *given)]
    notes += [] if given else _seen_splits(sheet, rest)
    found = _labels(sheet, rest, columns, notes)
    other = _others(sheet, [name for name in rest if name not in found])
    taken = dict.fromkeys(OF_AN_INDEX, "the name of a column of every dataset")
    for name in [*map(str, other), *(label for own in found.values() for label in own)]:
        # records.csv is read as any table is: names differ in more than case
        if twin := taken.get(plain(name)):
            raise BadSetting(f"{file.name}: {name!r} is also {twin}; rename one")
        taken[plain(name)] = repr(name)
    labels = {label: values for own in found.values() for label, values in own.items()}
    table = pd.concat([table, pd.DataFrame(labels, index=table.index), other], axis=1)
    return Labels(file, table, tuple(labels), tuple(map(str, other)), tuple(notes))


def _splits(sheet: Sheet, name: str) -> tuple[str, pd.Series]:
    """ "split" or "fold", and the values in a column of them."""
    cells = sheet.rows[name]
    kind = "fold" if _FOLD.fullmatch(cells.iloc[0]) else "split"
    of = {cell: int(fold[1]) for cell in cells if (fold := _FOLD.fullmatch(cell))}
    values = cells.map(of) if kind == "fold" else cells.str.lower().map(_SPLITS)
    for line in values.index[values.isna()]:
        what = f"none of {', '.join(SPLITS)}" if kind == "split" else "no whole number"
        raise BadSetting(f"{sheet.at(line)}: the {kind} {cells[line]!r} is {what}")
    return kind, values


def _seen_splits(sheet: Sheet, names: Sequence[str]) -> list[str]:
    """Which columns have the values of splits, or of folds of about one size, and how to use
    them.
    """
    notes = []
    for name in names:
        counts = sheet.rows[name].map(plain).value_counts()
        words = len(counts) > 1 and {*counts.index} <= {*_SPLITS}
        folds = len(counts) > 3 and {*counts.index} <= _FOLDS and counts.max() <= 2 * counts.min()
        if words or folds:
            use = f"to use it: --split {shlex.quote(name)}"
            notes.append(
                f"the column {name!r} may be splits or folds, and is not used as such; {use}"
            )
    return notes


def _others(sheet: Sheet, names: Sequence[str]) -> pd.DataFrame:
    """The columns that are kept beside the labels, with names that no index has itself."""
    called = {name: name.replace(":", "_") for name in names}
    called |= {name: f"{new}_given" for name, new in called.items() if new.lower() in OF_AN_INDEX}
    for name in reversed(names):
        called[name] = _OF_A_PERSON.get(squeezed(name), called[name])
    return sheet.rows[list(names)].rename(columns=called)


def _labels(
    sheet: Sheet, names: Sequence[str], columns: Sequence[str], notes: list[str]
) -> dict[str, dict[str, list[int]]]:
    """Column -> its labels -> their values."""
    by_name = {plain(name): name for name in names}
    if absent := [name for name in columns if plain(name) not in by_name]:
        raise BadSetting(
            f"--label-columns {','.join(columns)}: {sheet.file.name} has no column {absent[0]!r}; "
            f"it has {', '.join(names)}"
        )
    wanted = [by_name[plain(name)] for name in columns] or [
        name
        for name in names
        if name.lower() in OF_WORDS
        or (not _PERSON.fullmatch(plain(name)) and _is_hot(sheet.rows[name]))
    ]
    found = dict[str, dict[str, list[int]]]()
    for name in dict.fromkeys(wanted):
        cells = sheet.rows[name]
        ones = hot(cells)
        if not _is_hot(cells):
            found[name] = _of_words(sheet, name)
        elif None not in ones:
            found[name] = {name: [value for value in ones if value is not None]}
        else:
            how = "where 0 or 1 belongs (leave it blank where it is unknown; if the column is no "
            _refuse(sheet, name, ones.index(None), f"{how}label: --label-columns names the others)")
        if unknown := sum(plain(cell) in UNKNOWN_WORDS for cell in cells):
            notes.append(f"{name}: unknown of {counted(unknown, 'record')}")
    if not any(found.values()):
        first = [f"{name} {cell!r}" for name in names for cell in sheet.rows[name][:1]]
        raise BadSetting(
            f"{sheet.file.name} has no label: no column of 0 and 1, true and false, or yes and no, "
            f"and no column 'label' of words; write 0 and 1, or name the columns whose words are "
            f"labels: --label-columns NAME ({sheet.at(sheet.rows.index[0])}: {some(first)})"
        )
    return found


def _is_hot(cells: pd.Series) -> bool:
    """Whether most of what a column says is 0 or 1."""
    values = [value for value in hot(cells) if value != UNKNOWN]
    return 2 * sum(value is not None for value in values) > len(values)


def key(word: str) -> str:
    """A label without case, a last dot, and the kind of gap between its words, to compare
    spellings.

    >>> key("Sinus_Rhythm") == key("sinus rhythm."), key("T-"), key("AV-Block")
    (True, 't-', 'av block')
    """
    text = plain(word)
    return re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", text.rstrip(".") or text)


def _of_words(sheet: Sheet, name: str) -> dict[str, list[int]]:
    """1, 0 or UNKNOWN of each record by label; BadSetting for a cell that may mean two things."""
    separator, first = _separator(sheet, name), dict[str, str]()
    rows: list[set[str] | None] = []
    for number, cell in enumerate(sheet.rows[name]):
        if plain(cell) in UNKNOWN_WORDS:
            rows.append(None)
            continue
        pieces = cell.split(separator) if separator else [cell]
        words = [word for piece in pieces if (word := " ".join(piece.split()))]
        for word in words or [cell]:
            alone = plain(word) not in UNKNOWN_WORDS and key(word) != NONE
            if not words or _NO_LABEL.fullmatch(word) or (len(words) > 1 and not alone):
                how = f"where names of labels belong ({word!r} is none): write 'AF; PVC', 'none' "
                _refuse(sheet, name, number, f"{how}where it has none, nothing where it is unknown")
            if (other := first.setdefault(key(word), word)) != word and alone:
                _refuse(sheet, name, number, f"and another row {other!r}; write it in one way")
        rows.append({*map(key, words)})
    return {
        first[of]: [UNKNOWN if row is None else int(of in row) for row in rows]
        for of in sorted(first.keys() - {NONE}, key=first.__getitem__)
    }


def _separator(sheet: Sheet, name: str) -> str:
    """What stands between the labels of a column: a semicolon, else the only sign that may; "" for
    nothing. BadSetting where it may belong to a name.
    """
    cells = [*sheet.rows[name]]
    sure = any(SURE in cell for cell in cells)
    whole = {key(cell) for cell in cells}
    found = dict[str, tuple[int, list[str]]]()
    for number, cell in enumerate(cells):
        if plain(cell) in UNKNOWN_WORDS or {SURE, cell + SURE} & {*cell, *cells}:
            continue
        words = re.split(r"[\s_-]+", cell)
        if signs := _SIGN.findall(cell):
            found |= dict.fromkeys(signs, (number, _SIGN.split(cell)[::2]))
        elif len(words) > 1 and all(key(word) in whole for word in words):  # AF PVC
            found[" "] = number, words
    if not found or (not sure and len(found) == 1 and {*found} <= {*BETWEEN}):
        return SURE if sure else next(iter(found), "")
    number, parts = found[min(found, key=BETWEEN.find)]
    return _refuse(
        sheet,
        name,
        number,
        f"; write {'; '.join(parts)!r} where these are several labels, and "
        f"{cells[number] + SURE!r} (in one row) where it is one",
    )


def _refuse(sheet: Sheet, name: str, number: int, why: str) -> NoReturn:
    """BadSetting of the cell in row `number` of a column."""
    cell = shortened(sheet.rows[name].iloc[number], 60)
    between = "" if why.startswith(";") else ", "
    line = sheet.rows.index[number]
    raise BadSetting(f"{sheet.at(line)}: the column {name!r} says {cell!r}{between}{why}")
