"""Patients of records, and age and sex in the words of users."""

import re
import shlex
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import pandas as pd

from ecgbench.core.text import counted, shortened
from ecgbench.data.people import OLDEST
from ecgbench.datasets.indexing.sheet import UNKNOWN_WORDS, Sheet, hot, plain, squeezed
from ecgbench.datasets.indexing.tables import alike, one_spelling, person
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN

_COLUMN = re.compile(
    r"(id|no)?(patient|subject|participant|person|pat|subj|pt)s?"
    r"(id|identifier|no|nr|num|number|code|key|name)?|pid|mrn|medicalrecord(no|nr|number)"
)
_NOBODY = {*UNKNOWN_WORDS, "none", "anonymous", "anonymized", "anonymised"}
MANY = 5
"""Records of a patient on average, at most, and patients, at least, of a column that may be it."""
_EXPONENT = re.compile(r"\d(?:[.,]\d+)?[eE]\+\d{2,3}|\d[.,]\d+[eE]\d{1,3}")
"""A number that a spreadsheet has shortened."""
_LONG = re.compile(r"\d{16,}([.,]0)?")
_WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")
"""A number of which a spreadsheet keeps 15 digits, and the files of spreadsheets."""
_WORD = (
    r"(?:visit|v|session|ses|s|time|t|recording|record|rec|ecg|ekg|exam|e|day|d|week|w|month|mo|m)"
)
_WHEN = (
    r"(?:baseline|base|bl|pre|post|before|after|follow[\W_]?up|fu|initial|first|second|third|last|"
    r"final|rest|stress|exercise|i{1,3}|iv)"
)
_VISIT = re.compile(
    rf"(?P<person>.*?\d)(?:(?:[\W_]+{_WORD}?[\W_]*|{_WORD}[\W_]*)(?:\d{{1,2}}|\d{{4}}[\W_]?\d\d"
    rf"[\W_]?\d\d)|[\W_]+(?:\d{{1,2}}{_WORD}|(?P<when>{_WHEN})))|(?P<own>.*\d)[\W_]*[a-z]|"
    r"(?:visit|v|session|ses|time|day|week|month)[\W_]*\d{1,2}[\W_]+(?P<later>.*\d)"
)
"""What may be a person and the number, day, letter or word of a visit, in small letters."""
_AGE = re.compile(r"(?:patients?|subjects?|pat)?age(?:in|at.*)?([a-z]*)")
_SEX_COLUMN = re.compile(r"(?:(?:patient|subject) ?)?(?:(?:sex|gender)\b.*|(?:fe)?male)")
_PER_YEAR = {"y": 1, "m": 12, "w": 52.1775, "d": 365.25}
_UNIT = re.compile(r"|(?:y|m|w|d)|(?:yr|mo|year|month|week|day)s?")
_SEX = dict.fromkeys(("male", "m", "man"), "male")
_SEX |= dict.fromkeys(("female", "f", "w", "woman"), "female")


def patient_column(sheet: Sheet, names: Sequence[str]) -> str | None:
    """The column of patients; BadSetting where several may be it."""
    found = [name for name in names if _COLUMN.fullmatch(squeezed(name))]
    if len(found) > 1:
        raise BadSetting(
            f"{sheet.file.name}: the columns {found[0]!r} and {found[1]!r} may both say whose a "
            f"record is; leave out the one that does not"
        )
    return found[0] if found else None


def perhaps(sheet: Sheet, names: Sequence[str]) -> list[str]:
    """Notes on columns that may be the patients by their values: many, and some more than once."""
    notes = []
    for name in names:
        cells = [plain(cell) for cell in sheet.rows[name]]
        counts = Counter(cell for cell in cells if cell not in UNKNOWN_WORDS)
        spelled = all(any(c.isdigit() for c in cell) for cell in counts)
        if spelled and not kind(name) and MANY * len(counts) >= len(cells) > len(counts) > MANY:
            notes.append(
                f"the column {name!r} may say whose a record is, and is not used as such; to use "
                f"it call it patient"
            )
    return notes


def patients(sheet: Sheet, name: str, pattern: str | None) -> tuple[list[str], list[str]]:
    """The patient of each record, in one spelling each, and notes on joined spellings. pattern:
    a regular expression of a cell, whose group is the person. BadSetting for a row without one,
    and, without a pattern, for spellings that may be one person or two.
    """
    cells = sheet.rows[name]
    for line, cell in cells.items():
        if plain(cell) in _NOBODY:
            raise BadSetting(
                f"{sheet.at(line)}: no patient{cell and f' ({cell!r})'}; write who it is in that "
                f"row too (of merged cells a spreadsheet keeps the first row alone)"
            )
        if _EXPONENT.fullmatch(cell):
            raise BadSetting(
                f"{sheet.at(line)}: the patient {cell!r} has lost digits in a spreadsheet and "
                f"may be several; save that column as text and give the table again"
            )
        if not pattern and sheet.file.suffix.lower() in _WORKBOOKS and _LONG.fullmatch(cell):
            raise BadSetting(
                f"{sheet.at(line)}: the patient {cell!r} has more digits than a spreadsheet keeps "
                f"of a number; if it is stored as text: --patients '(.*)'; else it may be several"
            )
    whose = _parts(sheet, cells, pattern) if pattern else [*cells]
    first: dict[str, object] = {}
    ways: dict[str, set[str]] = defaultdict(set)
    for line, cell in zip(cells.index, whose):
        first.setdefault(person(cell), line)
        ways[person(cell)].add(cell)
    if not pattern:
        _demand_apart(sheet, cells, first)
    notes = []
    if several := [sorted(own) for own in ways.values() if len(own) > 1]:
        notes.append(
            f"{counted(len(several), 'patient')} spelled in several ways, such as "
            f"{several[0][0]!r} and {several[0][1]!r}, counted as one each"
        )
    return one_spelling(whose), notes


def _parts(sheet: Sheet, cells: pd.Series, pattern: str) -> list[str]:
    """The group of a pattern in each cell."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise BadSetting(f"--patients {pattern}: no regular expression ({error})") from None
    if compiled.groups != 1:
        raise BadSetting(
            f"--patients {pattern}: put the part that is the person, and nothing else, in "
            f"parentheses, such as --patients '(P[0-9]+)_[0-9]+'"
        )
    found = []
    for line, cell in cells.items():
        match = compiled.fullmatch(cell)
        if not match or not match[1]:
            raise BadSetting(f"--patients {pattern}: not so in {sheet.at(line)}: {cell!r}")
        found.append(match[1])
    return found


def _demand_apart(sheet: Sheet, cells: pd.Series, first: dict[str, object]) -> None:
    """BadSetting where two patients differ in marks, case, or what may be a visit. first: the line
    on which each begins.
    """
    spelled = dict(cells.items())
    kinds: tuple[Callable[[str], str], ...] = _without_marks, _without_visit
    for kind in kinds:
        met: dict[str, str] = {}
        for who, line in first.items():
            other = met.setdefault(kind(who), who)
            if other == who:
                continue
            one, two = spelled[first[other]], spelled[line]
            visit = kind is _without_visit
            advice = f"--patients {_pattern(one, two)}" if visit else "write one name in both rows"
            apart = "write names that differ in more than capitals and .0"
            if alike(one) != alike(two):  # by which datasets keep a patient in one split
                apart = "--patients '(.*)'"
            raise BadSetting(
                f"{sheet.at(line)}: the patients {two!r} and {one!r} (line {first[other]}) may be "
                f"one or two; if one: {advice}; if two: {apart}"
            )


def _pattern(*both: str) -> str:
    """A pattern of --patients that takes off what may be a visit."""
    found = [(text, m) for text in both if (m := _VISIT.fullmatch(text.casefold()))]
    text, match = found[0]
    if match["own"]:
        return "'(.*?[0-9])[A-Za-z]?'"
    if match["when"]:
        return "'(.*?[0-9])(?:[^0-9A-Za-z].*)?'"
    if match["later"]:
        before = re.sub(r"\d+", "[0-9]+", re.escape(text[: match.start("later")]))
        return shlex.quote(f"(?:{before})?(.*)")
    visit = re.escape(text[match.end("person") :])
    return shlex.quote("(.*?)(?:" + re.sub(r"\d+", "[0-9]+", visit) + ")?")


def _without_marks(who: str) -> str:
    """A person without case, accents and marks; two numbers stay two."""
    normal = unicodedata.normalize("NFKD", who).casefold()
    text = "".join(letter for letter in normal if not unicodedata.combining(letter))
    text = re.sub(r"(?<=\d)\W(?=\d{3}(?!\d))", "", text)  # of thousands
    text = re.sub(r"(?<=\d)[\W_]+(?=\d)", "-", text)
    text = re.sub(r"(?<!\d)[\W_]+|[\W_]+(?!\d)", "", text)
    return re.sub(r"(?<!\d)0+(?=\d)", "", text)


def _without_visit(who: str) -> str:
    """A person without what may be a visit."""
    found = _VISIT.fullmatch(who.casefold())
    named = found and (found["person"] or found["own"] or found["later"])
    return _without_marks(named or who)


def kind(name: str) -> str:
    """ "age" or "sex" by a column's name; "" for other columns.

    >>> [kind(name) for name in ("Age (years)", "age_months", "GENDER", "is male", "agent")]
    ['age', 'age', 'sex', '', '']
    """
    if (age := _AGE.fullmatch(squeezed(name))) and _UNIT.fullmatch(age[1]):
        return "age"
    return "sex" if _SEX_COLUMN.fullmatch(plain(name.replace("_", " "))) else ""


def age_and_sex(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The columns of a table with age and sex under these names and in standard words, and notes on
    values that are not understood.
    """
    notes = list[str]()
    for wanted, translated in (("age", _ages), ("sex", sexes)):
        names = [str(name) for name in table if kind(str(name)) == wanted]
        if not names:
            continue
        name = next((n for n in names if plain(n) == wanted), names[0])
        cells = [*table[name]]
        values = translated(name, cells)
        words = [cell if value is None else value for cell, value in zip(cells, values)]
        table = table.rename(columns={name: wanted}).assign(**{wanted: words})
        missed = [c for c, v in zip(cells, values) if v is None and plain(c) not in UNKNOWN_WORDS]
        if missed:
            such = ", ".join(repr(shortened(cell, 20)) for cell in [*dict.fromkeys(missed)][:3])
            hint = " (a column of 0 and 1: call it male)" if wanted == "sex" else ""
            notes.append(
                f"{name}: not understood in {counted(len(missed), 'record')} ({such}), and unknown "
                f"there{hint}"
            )
    return table, notes


def _ages(name: str, cells: list[str]) -> list[str | None]:
    """Years, None where a cell says no age.

    >>> _ages("age", ["63", "63,5", "063Y", "018M", "6 months", "300", "1980-02-01"])
    ['63', '63.5', '63', '1.5', '0.5', None, None]
    """
    head = _AGE.fullmatch(squeezed(name))
    usual = head[1] if head else ""
    found: list[str | None] = []
    for cell in cells:
        match = re.fullmatch(r"(\d+(?:[.,]\d+)?)\s*([a-z]*)\.?(?: old)?", plain(cell))
        if match is None or not _UNIT.fullmatch(match[2]):
            found.append(None)
            continue
        years = float(match[1].replace(",", ".")) / _PER_YEAR[(match[2] or usual or "y")[0]]
        found.append(f"{years:.4g}" if years <= OLDEST else None)
    return found


def sexes(name: str, cells: list[str]) -> list[str | None]:
    """ "male", "female", or None for other cells; yes and no count in a column called male or
    female.

    >>> sexes("Sex", ["M", "w", "Female", "1"]), sexes("female", ["yes", "no"])
    (['male', 'female', 'female', None], ['female', 'male'])
    """
    last = plain(name.replace("_", " ")).split()[-1]
    if last in ("male", "female") and None not in (values := hot(cells)):
        other = "female" if last == "male" else "male"
        return [None if value == UNKNOWN else last if value else other for value in values]
    return [_SEX.get(plain(cell)) for cell in cells]
