"""Age and sex as people write them, in the words that subgroups and controls read."""

import re

import pandas as pd

from ecgbench.core.text import counted, shortened
from ecgbench.data.own.cells import UNKNOWN_WORDS, hot, plain, squeezed
from ecgbench.data.people import OLDEST
from ecgbench.stats.known import UNKNOWN

_AGE = re.compile(r"(?:patients?|subjects?|pat)?(?:age|alter)(?:in|at.*)?(.*)")
_HEAD = re.compile(
    r"(?:(?:patient|subject|pat) )?(?:(?:sex|gender|geschlecht)\b.*|"
    r"(?:is )?(?:fe)?male(?: sex| gender)?)"
)
_IN_YEAR = {"y": 1, "m": 12, "w": 52.1775, "d": 365.25}
_UNITS = {"": "y", "a": "y", "yr": "y", "yrs": "y", "jahre": "y", "mo": "m", "mos": "m"}
_UNITS |= {
    word: word[0] for unit in ("year", "month", "week", "day") for word in (unit, f"{unit}s")
}
_UNITS |= {word: word for word in _IN_YEAR}
_SEX = dict.fromkeys(("male", "m", "man", "mann", "masculine"), "male")
_SEX |= dict.fromkeys(("female", "f", "w", "woman", "weiblich", "feminine"), "female")
_OTHER = {"male": "female", "female": "male"}


def kind(name: str) -> str:
    """Which of age and sex a column's name means; "" where it means none of them.

    >>> [kind(name) for name in ("Age (years)", "age_months", "GENDER", "sex (1=male)", "agent")]
    ['age', 'age', 'sex', 'sex', '']
    """
    if (age := _AGE.fullmatch(squeezed(name))) and age[1] in _UNITS:
        return "age"
    return "sex" if _HEAD.fullmatch(plain(name.replace("_", " "))) else ""


def read(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The columns of a table with those of age and sex under these names and in words that are
    understood, and notes on what is not.
    """
    notes = list[str]()
    for wanted, translated in (("age", _ages), ("sex", sexes)):
        names = sorted(
            (name for name in table if kind(str(name)) == wanted),
            key=lambda n: plain(str(n)) != wanted,
        )
        if not names:
            continue
        name, cells = str(names[0]), list(table[names[0]])
        both = [*zip(cells, translated(name, cells))]
        odd = [cell for cell, value in both if value is None and plain(cell) not in UNKNOWN_WORDS]
        words = [cell if value is None else value for cell, value in both]
        table = table.rename(columns={name: wanted}).assign(**{wanted: words})
        if odd:
            such = ", ".join(repr(shortened(cell, 20)) for cell in [*dict.fromkeys(odd)][:3])
            number = " (call the column male, or sex (1=male))"
            hint = number if wanted == "sex" and {*map(plain, odd)} <= {"0", "1", "2"} else ""
            notes.append(
                f"{name}: not understood in {counted(len(odd), 'record')} ({such}), and unknown "
                f"there{hint}"
            )
    return table, notes


def _ages(name: str, cells: list[str]) -> list[str | None]:
    """Years, None where a cell says no age; as it stands where it is a plain number of them.

    >>> _ages("age", ["63", "63,5", "063Y", "018M", "6 months", "300", "1980-02-01"])
    ['63', '63.5', '63', '1.5', '0.5', None, None]
    """
    head = _AGE.fullmatch(squeezed(name))
    usual = _UNITS[head[1]] if head else "y"
    found: list[str | None] = []
    for cell in cells:
        match = re.fullmatch(r"(\d+(?:[.,]\d+)?)\s*([a-z]*)\.?(?: old)?", plain(cell))
        unit = _UNITS.get(match[2]) if match else None
        if not match or unit is None:
            found.append(None)
            continue
        per = _IN_YEAR[unit if match[2] else usual]
        years = float(match[1].replace(",", ".")) / per
        found.append(f"{years:.4g}" if years <= OLDEST else None)
    return found


def sexes(name: str, cells: list[str]) -> list[str | None]:
    """ "male", "female", or None where a cell says none; of 0 and 1 where the column's name does.

    >>> sexes("Sex", ["M", "w", "Female", "1"]), sexes("sex (1=male)", ["1", "0", "2"])
    (['male', 'female', 'female', None], ['male', 'female', None])
    >>> sexes("female", ["yes", "no"]), sexes("Gender [1: M; 2: F]", ["1", "2", "0"])
    (['female', 'male'], ['male', 'female', None])
    """
    head = plain(name.replace("_", " "))
    words = set(head.split()) - {"is", "sex", "gender"}
    one = _SEX.get(words.pop(), "") if len(words) == 1 else ""
    if one and None not in (values := hot(cells)):
        return [None if value == UNKNOWN else one if value else _OTHER[one] for value in values]
    pairs = re.findall(r"(\d)\s*[=:]\s*([a-z]+)", head)
    pairs += [(number, word) for word, number in re.findall(r"([a-z]+)\s*[=:]\s*(\d)", head)]
    says = {number: _SEX[word] for number, word in pairs if word in _SEX}
    if len(says) == 1 and (number := next(iter(says))) in "01":
        says["10"[int(number)]] = _OTHER[says[number]]
    return [says.get(plain(cell)) or _SEX.get(plain(cell)) for cell in cells]
