"""Text tables as devices and apps export them: what they say of themselves, then a line per sample.

    Name,...                    lines of a name and a value, of which rate, unit and lead count
    Sample Rate,512 hertz
    Lead,Lead I
    Unit,µV

    time,I,II                   or names of the signals, perhaps with units: I (uV)
    0.000,-12.1,8.4             numbers

Columns are separated by commas, semicolons, tabs or blanks; decimals may be written with a comma
where it does not separate them.
"""

import csv
import io
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.ecg.readers.layout import Layout, recording, refused, standard, there
from ecgbench.ecg.readers.said import Said, hertz, lead, per_mv
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord
from ecgbench.files import decoded
from ecgbench.text import shortened

SAMPLING = {"samplerate", "samplingrate", "samplingfrequency", "samplefrequency", "fs"}
SAMPLING |= {"abtastrate"}
RATES = SAMPLING | {"rate", "frequency", "hz"}  # those may also be of a filter, or of the heart
UNITS = {"unit", "units", "einheit"}
LEAD = {"lead", "leads", "ableitung"}
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|nan", re.IGNORECASE)
_DECIMAL = re.compile(r"[-+]?\d+([.,]\d+)?([eE][-+]?\d+)?")
_IN_BRACKETS = re.compile(r"(?P<name>.*\S)\s*[(\[](?P<unit>[^)\]]+)[)\]]")
_PAIR = re.compile(r"[#%\s]*([^,;:=\t]+?)\s*[,;:=\t]\s*(.*?)[\s,;]*")
SHOWN = 20
"""Lines of numbers by which the separator is known."""


@dataclass(frozen=True)
class _Table:
    """A text, taken apart."""

    values: np.ndarray
    """(time, signal)."""
    names: list[str] | None
    """Of the signals, without units."""
    units: list[str]
    """Of each signal, "" where it says none; empty where no signal does."""
    facts: dict[str, str]
    """What its lines of a name and a value say, by the letters of the name."""

    def fact(self, keys: set[str]) -> str:
        """The value under the first of `keys` that is there, else ""."""
        return next((value for key, value in self.facts.items() if key in keys), "")


def read(path: Path, record: str, patient: str, said: Said) -> Recording:
    """The standard leads of the recording in a table, in mV.

    BadRecord for a file that is missing or holds no table of numbers, and for an empty field;
    BadSetting where neither the file nor `said` gives rate, unit or names.
    """
    try:
        table = _taken_apart(decoded(there(path, record).read_bytes()), path, record)
    except (ValueError, UnicodeError, csv.Error) as error:  # pandas' errors are ValueErrors
        raise refused(path, record, "a table of numbers", error) from error
    names = said.names(table.names, table.values.shape[1], path)
    rows, common = standard(names, record), per_mv(table.fact(UNITS))
    stated = [per_mv(table.units[i]) if table.units else None for i in rows]
    scale = [said.scale(one or common, path) for one in stated]
    fs = said.rate(_rate(table, record), path)
    layout = Layout(leads=tuple(names[i] for i in rows), fs=fs, per_mv=1.0, leads_first=False)
    return recording(table.values[:, rows] / scale, layout, record, patient)


def _rate(table: _Table, record: str) -> float | None:
    """What a table states of its rate, that of sampling before any other; BadRecord where that is
    none.
    """
    stated = table.fact(SAMPLING)
    if stated and hertz(stated) is None:
        raise BadRecord(f"{record}: its rate is {shortened(stated, 40)!r}, which is none in Hz")
    return hertz(stated or table.fact(RATES))


def _taken_apart(text: str, path: Path, record: str) -> _Table:
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if _numbers(line)), None)
    if first is None:
        raise BadRecord(f"{record}: {path.name} holds no line of numbers")
    head = [line for line in lines[:first] if line.strip()]
    shown = [line.strip() for line in lines[first:] if line.strip()][:SHOWN]
    pairs = [found for line in head if (found := _PAIR.fullmatch(line))]
    facts = {_letters(found[1]): found[2].strip('" ') for found in pairs}
    alone = [facts[key] for key in LEAD & {*facts}]
    separator = _separator(shown, head, bool(alone))
    values = _values("\n".join(lines[first:]), separator, path, record)
    names, units = _named(head, separator, values.shape[1])
    if len(alone) == values.shape[1] == 1 and not any(map(lead, names or ())):
        names, units = alone, []
    return _Table(values, names, units, facts)


def _named(head: list[str], separator: str, count: int) -> tuple[list[str] | None, list[str]]:
    """Names and units of `count` signals, from the last lines before the numbers."""
    rows = [_words(line, separator) for line in head[-2:]]
    rows = [words for words in rows if len(words) == count]
    if not rows or (count == 2 and _letters(rows[-1][0]) in RATES | UNITS | LEAD):
        return None, []
    below: list[str] = []
    if len(rows) == 2 and any(map(per_mv, rows[1])):
        below = [unit if per_mv(unit) else "" for unit in rows[1]]
    names = rows[0] if below else rows[-1]
    found = [_IN_BRACKETS.fullmatch(name) for name in names]
    within = [m["unit"] if m and per_mv(m["unit"]) else "" for m in found]
    bare = [m["name"] if m and unit else name for m, unit, name in zip(found, within, names)]
    return bare, below or (within if any(within) else [])


def _words(line: str, separator: str) -> list[str]:
    cells = line.split() if separator == " " else next(csv.reader([line], delimiter=separator))
    words = [cell.strip().strip("'") for cell in cells]
    return words[:-1] if len(words) > 1 and not words[-1] else words


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalpha())


def _numbers(line: str) -> bool:
    """Whether a line holds numbers and nothing else."""
    words = [word.strip('"') for word in re.split(r"[;,\s]+", line.strip())]
    return any(words) and all(not word or _NUMBER.fullmatch(word) for word in words)


def _separator(shown: list[str], head: list[str], alone: bool) -> str:
    """What separates the numbers of the lines `shown`. A comma is a decimal one where something
    else separates, and in lines of one number where the text has one signal.
    """
    for separator in (";", "\t"):
        if all(separator in line for line in shown):
            return separator
    last = _words(head[-1], ",") if head else []
    one = alone and not any(map(lead, last)) if len(last) > 1 else alone or len(last) == 1
    if one and all(_DECIMAL.fullmatch(line.strip('"')) for line in shown):
        before = [line.strip('"').split(",")[0] for line in shown]
        # numbers that count the lines are a column of their own
        steps = {int(b) - int(a) for a, b in pairwise(before)} if "".join(before).isdigit() else {}
        return "," if len(shown) > 2 and len(steps) == 1 and 0 not in steps else ";"
    blanks = all(len(line.split()) > 1 for line in shown)
    return " " if blanks and not all("," in line for line in shown) else ","


def _values(text: str, separator: str, path: Path, record: str) -> np.ndarray:
    """(time, signal) float64."""
    table = pd.read_csv(
        io.StringIO(text),
        sep=r"\s+" if separator == " " else separator,
        header=None,
        decimal="," if separator != "," and "," in text else ".",
        dtype=np.float64,
        skipinitialspace=True,
    )
    if not isinstance(table.index, pd.RangeIndex):  # pandas takes what is too much for an index
        raise BadRecord(f"{record}: {path.name} has lines with more values than its first one")
    if table.shape[1] > 1 and table.iloc[:, -1].isna().all():
        table = table.iloc[:, :-1]  # a separator at the end of each line
    return table.to_numpy()
