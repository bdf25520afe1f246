"""Patients of records, and age and sex in the words of users."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from ecgbench.core.text import counted, shortened
from ecgbench.data.imported.tables import UNKNOWN_WORDS, Sheet, hot, plain, squeezed
from ecgbench.data.people import OLDEST
from ecgbench.datasets.indexing.tables import alike
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN

_COLUMN = re.compile(
    r"(id|nr|no)?(patient(en)?|subject|participant|person|pat|subj|pt|paciente|paziente|"
    r"proband(en)?|teilnehmer)s?(id|identifier|no|nr|num|number|nummer|numero|code|key|name)?|"
    r"pid|mrn|medicalrecord(no|nr|number)"
)
_NOBODY = {*UNKNOWN_WORDS, "none", "anonymous", "anonymized", "anonymised"}
_EXPONENT = re.compile(r"\d(?:[.,]\d+)?e\+\d{2,3}|\d[.,]\d+e\d{1,3}")
"""A number that a spreadsheet has shortened, as `alike` spells it."""
_AGE = re.compile(r"(?:patients?|subjects?|pat)?(?:age|alter)(?:in|at.*)?([a-z]*)")
_SEX_COLUMN = re.compile(r"(?:(?:patient|subject) )?(?:(?:sex|gender)\b.*|(?:fe)?male)")
_PER_YEAR = {"y": 1, "a": 1, "j": 1, "m": 12, "w": 52.1775, "d": 365.25}
_UNIT = re.compile(r"|a|jahre|(?:y|m|w|d)|(?:yr|mo|year|month|week|day)s?")
_SEX = dict.fromkeys(("male", "m", "man", "mann", "masculine"), "male")
_SEX |= dict.fromkeys(("female", "f", "w", "woman", "weiblich", "feminine"), "female")


def person(patient: str) -> str:
    """A patient's name for comparison: besides `alike`, without leading zeros and separators of
    thousands.

    >>> [person(text) for text in ("00012", "P-007", "p7", "1,234.0", "1.000", "1.05")]
    ['12', 'p7', 'p7', '1234', '1000', '1.05']
    """
    cell = re.sub(r'^="(.*)"$', r"\1", patient)
    text = re.sub(r"^(\d+),0+$", r"\1", alike(cell))
    number = re.sub(r"\.0$", "", cell.strip(" '\""))
    if re.fullmatch(r"\d{1,3}([., '’])\d{3}(\1\d{3})*", number):
        text = re.sub(r"\D", "", number)
    text = re.sub(r"(?<=[^\W\d_])[\s_-]+(?=\d)", "", text)
    return re.sub(r"(?<![\w.,])([^\W\d_]*)0+(?=\d)", r"\1", text)


def one_spelling(patients: Iterable[str]) -> list[str]:
    """Each patient as first spelled, so that each is counted and drawn once.

    >>> one_spelling(["P7", "p-07", "P8"])
    ['P7', 'P7', 'P8']
    """
    first: dict[str, str] = {}
    return [first.setdefault(person(patient), patient) for patient in patients]


def patient_column(sheet: Sheet, names: Sequence[str]) -> str | None:
    """The column of patients; BadSetting where several may be it."""
    found = [name for name in names if _COLUMN.fullmatch(squeezed(name))]
    if len(found) > 1:
        raise BadSetting(
            f"{sheet.file.name}: the columns {found[0]!r} and {found[1]!r} may both say whose a "
            f"record is; leave out the one that does not"
        )
    return found[0] if found else None


def patients(sheet: Sheet, name: str) -> tuple[list[str], list[str]]:
    """The patient of each record, in one spelling each, and notes on joined spellings. BadSetting
    for a row without one, and for spellings that may be two persons.
    """
    cells = sheet.rows[name]
    ways: dict[str, dict[str, Any]] = defaultdict(dict)
    near: dict[str, set[str]] = defaultdict(set)
    for line, cell in cells.items():
        if plain(cell) in _NOBODY:
            raise BadSetting(
                f"{sheet.at(line)}: no patient{cell and f' ({cell!r})'}; fill in that cell, or "
                f"leave the column {name!r} out (each record then counts as a patient)"
            )
        if _EXPONENT.fullmatch(alike(cell)):
            raise BadSetting(
                f"{sheet.at(line)}: the patient {cell!r} has lost digits in a spreadsheet and "
                f"may be several; save that column as text and give the table again"
            )
        who = person(cell)
        ways[who].setdefault(cell, line)
        near[_without_marks(who)].add(who)
    for same in near.values():
        if len(same) > 1:
            (one, line), (other, later) = sorted(
                next(iter(ways[who].items())) for who in sorted(same)
            )[:2]
            raise BadSetting(
                f"{sheet.at(max(line, later))}: the patients {one!r} and {other!r} may be one "
                f"or two; write the same name where they are one, and names that differ in more "
                f"than marks where they are not"
            )
    notes = []
    if several := [[*own] for own in ways.values() if len(own) > 1]:
        notes.append(
            f"{counted(len(several), 'patient')} spelled in several ways, such as "
            f"{several[0][0]!r} and {several[0][1]!r}, counted as one each"
        )
    return one_spelling(cells), notes


def _without_marks(who: str) -> str:
    """A person without accents and marks; two numbers stay two."""
    letters = (c for c in unicodedata.normalize("NFKD", who) if not unicodedata.combining(c))
    text = re.sub(r"(?<=\d)[\W_]+(?=\d)", "-", "".join(letters))
    text = re.sub(r"(?<!\d)[\W_]+|[\W_]+(?!\d)", "", text)
    return re.sub(r"(?<=[^\W\d_])0+(?=\d)", "", text)


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
