"""Text tables as devices and apps export them: what they say of themselves, then a line per sample.

    Name,...                    lines of a name and a value, of which rate, unit and lead count
    Sample Rate,512 hertz
    Lead,Lead I
    Unit,µV

    time,I,II                   or names of the signals, perhaps with units: I (uV)
    0.000,-12.1,8.4             numbers

A first column may be a clock time, a time, or a count of the samples. Columns are separated by
commas, semicolons, tabs or blanks; decimals may be written with a comma where it does not separate
them.
"""

import csv
import io
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.ecg.readers import cleaned, head, times
from ecgbench.ecg.readers.cleaned import Notes
from ecgbench.ecg.readers.layout import refused, there
from ecgbench.ecg.readers.said import Said, generated, per_mv, signed
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting
from ecgbench.files import decoded

_NUMBER = re.compile(
    r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?inf|nan|na|n/a|null", re.IGNORECASE
)
_DECIMAL = re.compile(r"[-+]?\d+([.,]\d+)?([eE][-+]?\d+)?")
_IN_BRACKETS = re.compile(r"(?P<name>.*\S)\s*[(\[](?P<unit>[^)\]]+)[)\]]")
_BEHIND = re.compile(r"(?P<name>.*?)[\s_.]+(?P<unit>[mun\u00b5\u03bc]?v(olts?)?)", re.IGNORECASE)
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
    """Of each signal, "" where it says none."""
    head: head.Head
    clock: bool
    """Whether its first column was a clock time; it is seconds now."""

    def without(self, columns: set[int]) -> "_Table":
        """The table without some columns."""
        left = [i for i in range(self.values.shape[1]) if i not in columns]
        names = None if self.names is None else [self.names[i] for i in left]
        return replace(
            self, values=self.values[:, left], names=names, units=[self.units[i] for i in left]
        )


def read(path: Path, record: str, patient: str, said: Said) -> Recording:
    """The standard leads of the recording in a table, in mV.

    BadRecord for a file that is missing or holds no table of numbers, for missing samples, an
    uneven column of time, and for what contradicts itself or `said`; BadSetting where neither the
    file nor `said` gives rate, unit or names, and for a line on them that is not understood.
    """
    try:
        table = _taken_apart(decoded(there(path, record).read_bytes()), path, said, record)
    except (ValueError, UnicodeError, csv.Error) as error:  # pandas' errors are ValueErrors
        raise refused(path, record, "a table of numbers", error) from error
    notes: Notes = [("head line", line) for line in table.head.others]
    table, rates = _timed(table, said, record)
    table.head.demand_understood(path, said if not rates else replace(said, fs=rates[0][1]), record)
    values = table.values.T
    names = said.names(table.names, len(values), path, record)
    notes.append(("names", said.origin(table.names, names)))
    rows = cleaned.leads_of(names, values, record, notes)
    array = cleaned.marked(values[rows])
    known = array[np.isfinite(array)]
    common = table.head.scale(bool((known == np.rint(known)).all()), record)
    stated = [per_mv(table.units[i]) or common for i in rows]
    scales = [said.scale(one, path, record) for one in stated]
    notes.append(("unit", "the file" if all(stated) else "--unit"))
    fs = said.rate([*table.head.rates, *rates], path, record)
    source = "the file" if table.head.rates else "the column of time" if rates else "--fs"
    notes.append(("rate", source))
    chosen = [names[i] for i in rows]
    return cleaned.recording(
        array / np.array(scales)[:, None], chosen, fs, (record, patient), notes
    )


def _timed(table: _Table, said: Said, record: str) -> tuple[_Table, list[tuple[str, float]]]:
    """The table without its columns of time and its counters, and the rate that they show."""
    count = table.values.shape[1]
    names = table.names or (list(said.placed) if len(said.placed) == count else [""] * count)
    found: dict[int, float | None] = {}
    for i, name in enumerate(names if count > 1 else ()):
        column, plain = table.values[:, i], name.strip().lower()
        timed = (table.clock and i == 0) or (times.is_time(name) and signed(name) is None)
        rises = bool(len(column) > 9 and (np.diff(column) > 0).all())
        first = not plain and i == 0 and (rises or times.counts(column))
        if timed or first or (rises and times.COUNTERS.fullmatch(plain)):
            found[i] = times.rate(column, name, table.clock and i == 0, record)
    if table.names is None and names == list(said.placed):
        table = replace(table, names=names)
    rates = [(f"the column of time {names[i]!r}", fs) for i, fs in found.items() if fs]
    return table.without({*found}), rates


def _taken_apart(text: str, path: Path, said: Said, record: str) -> _Table:
    lines = re.split(r"\r\r\n|\r\n|\n|\r", text)
    while lines and not lines[-1].strip():
        lines.pop()
    plain = [times.unstamped(line) for line in lines]
    first = next((i for i, line in enumerate(plain) if _numbers(line)), None)
    if first is None:
        raise BadRecord(f"{record}: {path.name} holds no line of numbers")
    clock = plain[first] != lines[first]
    above = [line for line in lines[:first] if line.strip()]
    if _numbers_columns(plain[first : first + SHOWN]):
        above, first = [*above, lines[first]], first + 1
    lines = plain[first:]
    shown = [line.strip() for line in lines if line.strip()][:SHOWN]
    seen = head.understood(above)
    separator = _separator(shown, above, bool(seen.leads), said, path)
    values = _values("\n".join(lines), separator, path, record)
    named = above[-1].rstrip().count(separator) + 1 if above else 0
    trailing = all(line.endswith(separator) for line in shown) and named < values.shape[1]
    if trailing and np.isnan(values[:, -1]).all():
        values = values[:, :-1]  # a separator at the end of each line
    names, units, used = _named(above, separator, values)
    if names and len(names) == values.shape[1] - 1:
        names, units = ["", *names], ["", *units]  # R names no column of row numbers
    seen = head.understood(above[: len(above) - used])
    if len(seen.leads) == values.shape[1] == 1 and not any(map(signed, names or ())):
        names, units = seen.leads, [""]
    return _Table(values, names, units or [""] * values.shape[1], seen, clock)


def _numbers_columns(lines: list[str]) -> bool:
    """Whether the first of lines of numbers numbers the columns (0,1,...,11), as pandas writes
    names that nobody gave.
    """
    rows = [[word.strip(' "') for word in re.split(r"[;,\t]|\s+", line.strip())] for line in lines]
    index, names = rows[0][0] == "", rows[0][1:] if rows[0][0] == "" else rows[0]
    if len(lines) < 2 or not generated(names):
        return False
    rest = [word for row in rows[1:] for word in row[index:] if word]
    return index or len(names) > 2 or (bool(rest) and all("." in word for word in rest))


def _named(
    above: list[str], separator: str, values: np.ndarray
) -> tuple[list[str] | None, list[str], int]:
    """Names and units of the signals, from the last lines before the numbers, and how many lines
    those are.
    """
    count = values.shape[1]
    counts = {count, count - 1} if count > 1 and times.counts(values[:, 0]) else {count}
    rows = [_words(line, separator) for line in above[-2:]]
    if len(rows) == 2 and len(rows[0]) != len(rows[1]):
        rows = rows[1:]
    if not rows or len(rows[-1]) not in counts:
        return None, [], 0
    if len(rows[-1]) <= 2 and not any(map(signed, rows[-1])):
        if re.search(r"[,;:=\t]\s*[-+]?\d", above[-1]) and not generated(rows[-1]):
            return None, [], 0
        seen = head.understood(above[-1:])
        if seen.rates or seen.perhaps or seen.unit or seen.gain or seen.odd or seen.leads:
            return None, [], 0
    below: list[str] = []
    if len(rows) == 2 and any(map(per_mv, rows[1])):
        below = [unit if per_mv(unit) else "" for unit in rows[1]]
    names = rows[0] if below else rows[-1]
    found = [_IN_BRACKETS.fullmatch(name) or _BEHIND.fullmatch(name) for name in names]
    within = [m["unit"] if m and per_mv(m["unit"]) else "" for m in found]
    bare = [m["name"] if m and unit else name for m, unit, name in zip(found, within, names)]
    return bare, below or within, 2 if below else 1


def _words(line: str, separator: str) -> list[str]:
    cells = line.split() if separator == " " else next(csv.reader([line], delimiter=separator))
    words = [cell.strip().strip("'") for cell in cells]
    return words[:-1] if len(words) > 1 and not words[-1] else words


def _numbers(line: str) -> bool:
    """Whether a line holds numbers and nothing else."""
    words = [word.strip('"') for word in re.split(r"[;,\s]+", line.strip())]
    return any(words) and all(not word or _NUMBER.fullmatch(word) for word in words)


def _separator(shown: list[str], above: list[str], alone: bool, said: Said, path: Path) -> str:
    """What separates the numbers of the lines `shown`. A comma is a decimal one where something
    else separates, and in lines of one number where the text has one signal; BadSetting where
    nothing tells.
    """
    for separator in (";", "\t"):
        if all(separator in line for line in shown):
            return separator
    last = _words(above[-1], ",") if above else []
    one = alone and not any(map(signed, last)) if len(last) > 1 else alone or len(last) == 1
    one |= not any(map(signed, last)) and len(said.signals) == 1
    if one and all(_DECIMAL.fullmatch(line.strip('"')) for line in shown):
        before = [line.strip('"').split(",")[0] for line in shown]
        # numbers that count the lines are a column of their own
        steps = {int(b) - int(a) for a, b in pairwise(before)} if "".join(before).isdigit() else {}
        return "," if len(shown) > 2 and len(steps) == 1 and 0 not in steps else ";"
    halves = [re.fullmatch(r"[-+]?\d{1,4},\d+", line) for line in shown]
    if all(halves) and not said.signals and not any(map(signed, last)) and len(last) < 2:
        raise BadSetting(
            f"{path.name}: a line such as {shown[0]!r} may be one number with a decimal comma, or "
            f"two numbers; say which: --signals I (one signal) or --signals I,II (two)"
        )
    blanks = all(len(line.split()) > 1 for line in shown)
    return " " if blanks and not all("," in line for line in shown) else ","


def _values(text: str, separator: str, path: Path, record: str) -> np.ndarray:
    """(time, signal) float64. BadRecord where a sign may separate thousands or decimals."""
    sign = "," if separator != "," and "," in text else "."
    words = re.findall(rf"\d+(?:\{sign}\d*)?", text[:100_000])
    signed_words = [word for word in words if sign in word]
    if signed_words and len(signed_words) < len(words) and separator != " ":
        grouped = (re.fullmatch(rf"[1-9]\d{{0,2}}\{sign}\d{{3}}", word) for word in signed_words)
        short = (len(word) < 4 for word in words if sign not in word)
        if all(grouped) and all(short) and len({len(w) for w in signed_words}) > 1:
            raise BadRecord(
                f"{record}: numbers such as {signed_words[0]!r} may be thousands or decimals; "
                f"write them without separators of thousands"
            )
    table = pd.read_csv(
        io.StringIO(text),
        sep=r"\s+" if separator == " " else separator,
        header=None,
        decimal=sign,
        dtype=np.float64,
        skipinitialspace=True,
        skip_blank_lines=False,
    )
    if not isinstance(table.index, pd.RangeIndex):  # pandas takes what is too much for an index
        raise BadRecord(f"{record}: {path.name} has lines with more values than its first one")
    return table.to_numpy()
