"""Patients of records in a table of labels; what may be one person or two is asked about."""

import re
import shlex
import unicodedata
from collections.abc import Iterator, Sequence

import pandas as pd

from ecgbench.datasets.indexing.sheet import UNKNOWN_WORDS, Sheet, plain, squeezed
from ecgbench.datasets.indexing.tables import one_spelling, person
from ecgbench.errors import BadSetting

_COLUMN = re.compile(
    r"(id|no)?(patient|subject|participant|person|pat|subj|pt)s?"
    r"(id|identifier|no|nr|num|number|code|key|name)?|pid|mrn|medicalrecord(no|nr|number)"
)
_NOBODY = {*UNKNOWN_WORDS, "none", "anonymous", "anonymized", "anonymised"}
_EXPONENT = re.compile(r"\d(?:[.,]\d+)?[eE]\+\d{2,3}|\d[.,]\d+[eE]\d{1,3}")
_LONG = re.compile(r"\d{16,}([.,]0)?")
"""A number that a spreadsheet has shortened, and one of which it keeps 15 digits."""
_END = re.compile(r"\d(?=[\W_]|[^\W\d_]\d{0,2}$)")
"""The end of a person's number, before what may be a visit: P00_1, P00-2021-01-05, P00v1, 17a."""
_VISIT = re.compile(
    r"(?:visit|v|session|ses|time|t|day|d|week|w|month|m)[\W_]*\d{1,2}[\W_]+(?=.*\d)", re.I
)
"""A visit before the person: V1_P00."""


def column(sheet: Sheet, names: Sequence[str], whose: str | None) -> str | None:
    """The column of patients; BadSetting where several may be it, and for a pattern without one."""
    found = [name for name in names if _COLUMN.fullmatch(squeezed(name))]
    if len(found) > 1:
        raise BadSetting(
            f"{sheet.file.name}: the columns {found[0]!r} and {found[1]!r} may both say whose a "
            f"record is; leave out the one that does not"
        )
    if whose and not found:
        raise BadSetting(f"--patients {whose}: {sheet.file.name} has no column patient")
    return found[0] if found else None


def named(sheet: Sheet, name: str, pattern: str | None) -> list[str]:
    """The patient of each record, in one spelling each. pattern: a regular expression of a cell,
    whose group is the person. BadSetting for a row without one, and, without a pattern, for names
    that may be one person or two.
    """
    cells = sheet.rows[name]
    for line, cell in cells.items():
        if plain(cell) in _NOBODY:
            raise BadSetting(
                f"{sheet.at(line)}: no patient{cell and f' ({cell!r})'}; write who it is in that "
                f"row too (of merged cells a spreadsheet keeps the first row alone)"
            )
        if _EXPONENT.fullmatch(cell) or (not pattern and _LONG.fullmatch(cell)):
            raise BadSetting(
                f"{sheet.at(line)}: the patient {cell!r} may have lost digits in a spreadsheet; "
                f"save that column as text and give the table again (if all digits are there: "
                f"--patients '(.*)')"
            )
    if not pattern:
        _demand_apart(sheet, cells)
        return one_spelling(cells)
    try:
        compiled = re.compile(pattern)
    except re.error:
        compiled = re.compile("")
    if compiled.groups != 1:
        raise BadSetting(
            f"--patients {pattern}: give a regular expression with the part that is the person, "
            f"and nothing else, in parentheses, such as --patients '(P[0-9]+)_[0-9]+'"
        )
    found = cells.map(lambda cell: (m[1] or "") if (m := compiled.fullmatch(cell)) else "")
    for line in found.index[found == ""]:
        raise BadSetting(f"--patients {pattern}: not so in {sheet.at(line)}: {cells[line]!r}")
    return one_spelling(found)


def _demand_apart(sheet: Sheet, cells: pd.Series) -> None:
    """BadSetting where two patients differ in marks, case, or what may be a visit, with the two
    that share most.
    """
    first = {person(cell): (line, cell) for line, cell in reversed([*cells.items()])}
    met, doubts = dict[str, tuple[object, str]](), []
    for line, cell in reversed(first.values()):
        for part, pattern in _persons(cell):
            there, other = met.setdefault(part, (line, cell))
            if other != cell:
                doubts.append((len(part), other, there, cell, line, pattern))
    if not doubts:
        return
    _, one, there, two, line, pattern = max(doubts, key=lambda doubt: doubt[0])
    how = f"--patients {shlex.quote(pattern)}; if two: --patients '(.*)'"
    if _without_marks(one) == _without_marks(two):  # some datasets compare patients so
        how = "write one name in both rows; if two: names that differ in more than marks"
    raise BadSetting(
        f"{sheet.at(line)}: the patients {two!r} and {one!r} (line {there}) may be one or two; if "
        f"one: {how}"
    )


def _persons(cell: str) -> Iterator[tuple[str, str]]:
    """What may be the person in a cell, without marks, and the pattern that takes it."""

    def alike(text: str) -> str:
        return re.sub(r"\d+", "[0-9]+", re.escape(text))

    visit = _VISIT.match(cell)
    start = visit.end() if visit else 0
    before = f"(?:{alike(visit[0])})?" if visit else ""
    for end in [*(end.end() for end in _END.finditer(cell, start)), len(cell)]:
        yield _without_marks(cell[start:end]), f"{before}({alike(cell[start:end])}).*"
    yield _without_marks(cell), f"({alike(cell)})"


def _without_marks(who: str) -> str:
    """A person without case, accents, marks and zeros in front of numbers; two numbers stay two."""
    normal = unicodedata.normalize("NFKD", who).casefold()
    text = "".join(letter for letter in normal if not unicodedata.combining(letter))
    text = re.sub(r"(?<=\d)\W(?=\d{3}(?!\d))", "", text)  # of thousands
    text = re.sub(r"(?<=\d)[\W_]+(?=\d)", "-", text)
    text = re.sub(r"(?<!\d)[\W_]+|[\W_]+(?!\d)", "", text)
    return re.sub(r"(?<!\d)0+(?=\d)", "", text)
