"""Whose a record is: the column that says so, and the spellings of one patient."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ecgbench.core.text import counted
from ecgbench.data.own import age_sex
from ecgbench.data.own.cells import UNKNOWN_WORDS, Sheet, both_of, plain, shown, squeezed
from ecgbench.datasets.indexing.tables import alike
from ecgbench.errors import BadSetting

_WHAT = "id|identifier|no|nr|num|number|nummer|numero|code|key|name"
_COLUMN = re.compile(
    rf"(id|nr|no)?(patient(en)?|subject|participant|person|pat|subj|pt|paciente|paziente|"
    rf"proband(en)?|teilnehmer)s?({_WHAT})?|pid|mrn|medicalrecord(no|nr|number)"
)
_PERHAPS = re.compile(rf".*({_WHAT})|(case|user).*")
_OTHER = re.compile(
    r".*(device|site|hospital|ward|room|operator|machine|cart|zip|icd|version|year|date|time).*"
)
_NUMBERS = re.compile(r"[^\W\d_]+[\W_]?\d+|0\d+|\d{4,}")
_BIRTH = ("dob", "birthdate", "dateofbirth")
_NOBODY = {*UNKNOWN_WORDS, "none", "anonymous", "anonymized", "anonymised"}
_EXPONENT = re.compile(r"\d(?:[.,]\d+)?e\+\d{2,3}|\d[.,]\d+e\d{1,3}")
"""A number that a spreadsheet has shortened, as `alike` spells it."""


def person(patient: str) -> str:
    """What spellings of one patient have in common: besides `alike`, zeros before a number and
    separators of its thousands.

    >>> [person(text) for text in ("00012", "P-007", "p7", "1,234.0", "1.000", "1.05")]
    ['12', 'p7', 'p7', '1234', '1000', '1.05']
    """
    cell = re.sub(r'^="(.*)"$', r"\1", shown(patient))
    text = re.sub(r"^(\d+),0+$", r"\1", alike(cell))
    raw = re.sub(r"\.0$", "", cell.strip("'\""))
    if re.fullmatch(r"\d{1,3}([., '’])\d{3}(\1\d{3})*", raw):
        text = re.sub(r"\D", "", raw)
    text = re.sub(r"(?<=[^\W\d_])[\s_-]+(?=\d)", "", text)
    return re.sub(r"(?<![\w.,])([^\W\d_]*)0+(?=\d)", r"\1", text)


def one_spelling(patients: Iterable[str]) -> list[str]:
    """Each patient as first spelled, so that what counts or draws patients meets each once.

    >>> one_spelling(["P7", "p-07", "P8"])
    ['P7', 'P7', 'P8']
    """
    first: dict[str, str] = {}
    return [first.setdefault(person(patient), patient) for patient in patients]


def column(sheet: Sheet, names: Sequence[str]) -> str | None:
    """The column that says whose a record is; BadSetting where two of them disagree."""
    found = [name for name in names if _COLUMN.fullmatch(squeezed(name))]
    for other in found[1:]:
        ways = [[person(cell) for cell in sheet.rows[name]] for name in (found[0], other)]
        if not len({*zip(*ways)}) == len({*ways[0]}) == len({*ways[1]}):
            raise BadSetting(
                f"{sheet.file.name}: the columns {found[0]!r} and {other!r} name other patients; "
                f"leave out the one that does not say whose a record is"
            )
    return found[0] if found else None


def candidate(sheet: Sheet, names: Sequence[str]) -> list[str]:
    """A note, where no column is known to name patients and one may."""
    for name in names:
        cells = [cell for cell in map(plain, sheet.rows[name]) if cell not in UNKNOWN_WORDS]
        word = squeezed(name)
        like = _PERHAPS.fullmatch(word) or all(map(_NUMBERS.fullmatch, cells))
        if (
            like
            and not _OTHER.fullmatch(word)
            and max(3, len(cells) / 50) <= len({*cells}) < len(cells)
        ):
            return [
                f"several records have one value of the column {name!r}; where it says whose a "
                f"record is, call it patient (now each record counts as a patient of its own)"
            ]
    return []


def spelled(sheet: Sheet, name: str) -> tuple[list[str], list[str]]:
    """The patient of each record, in one spelling each, and what was joined. BadSetting for a row
    without one, and for spellings that may be those of two persons.
    """
    values = list(sheet.rows[name])
    for row, value in enumerate(values):
        if plain(value) in _NOBODY:
            raise BadSetting(
                f"{sheet.place(row)}: no patient{value and f' ({value!r})'}; fill in that cell, or "
                f"leave the column {name!r} out (each record then counts as a patient)"
            )
        if _EXPONENT.fullmatch(alike(value)):
            raise BadSetting(
                f"{sheet.place(row)}: the patient {value!r} has lost digits in a spreadsheet and "
                f"may be several; save that column as text and give the table again"
            )
    ways: dict[str, list[str]] = defaultdict(list)
    for value in dict.fromkeys(values):
        ways[person(value)].append(value)
    if doubtful := _doubtful(sheet, values, ways):
        raise BadSetting(
            f"{sheet.place(values.index(doubtful[0]))}: the patients {both_of(doubtful[:3])} may "
            f"be one or several; write the same name where they are one, and names that differ in "
            f"more where they are not"
        )
    names = [shown(ways[person(value)][0]) for value in values]
    several = [own for own in ways.values() if len(own) > 1]
    if not several:
        return names, []
    return names, [
        f"{counted(len(several), 'patient')} spelled in several ways, such as "
        f"{both_of(several[0])}, counted as one each"
    ]


def _doubtful(sheet: Sheet, values: Sequence[str], ways: dict[str, list[str]]) -> list[str]:
    """The first spellings that may be those of one person or several; none where all is clear."""
    near: dict[str, list[str]] = defaultdict(list)
    for who, own in ways.items():
        later = alike(own[0])  # what this name is taken for then
        for key in {*map(_near, (who, re.sub("[äöü]", r"\g<0>e", who))), later} - {who}:
            near[key].append(own[0])
        near[who].append(own[0])
    for some in near.values():
        if len({person(value) for value in some}) > 1:
            return [*dict.fromkeys(some)]
    for own in ways.values():
        if len(own) > 1 and (len({*map(alike, own)}) > 2 or _differ(sheet, values, own)):
            return own
    return []


def _near(who: str) -> str:
    """A name without accents and marks; two numbers stay two."""
    text = unicodedata.normalize("NFKD", who)
    text = "".join(c for c in text if not unicodedata.combining(c))
    text = re.sub(r"(?<=\d)[\W_]+(?=\d)", "-", text)
    text = re.sub(r"(?<!\d)[\W_]+|[\W_]+(?!\d)", "", text)
    return re.sub(r"(?<=[^\W\d_])0+(?=\d)", "", text)


def _differ(sheet: Sheet, values: Sequence[str], spellings: Sequence[str]) -> bool:
    """Whether sex or birth date of spellings are those of two persons."""
    rows = [row for row, value in enumerate(values) if value in spellings]
    for name in map(str, sheet.rows):
        if age_sex.kind(name) == "sex" or squeezed(name) in _BIRTH:
            cells = [str(sheet.rows[name].iloc[row]) for row in rows]
            facts = zip(cells, age_sex.sexes(name, cells))
            if len({sex or plain(cell) for cell, sex in facts} - UNKNOWN_WORDS) > 1:
                return True
    return False
