"""Text tables as devices and apps export them: lines that describe them, then a line per sample.

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
from itertools import pairwise, zip_longest
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.core.files import decoded
from ecgbench.ecg.readers import cleaned, head, times
from ecgbench.ecg.readers.arrays import existing_file, unreadable
from ecgbench.ecg.readers.cleaned import Notes
from ecgbench.ecg.readers.notation import AGREE, ReadOptions, generated, per_mv, signed
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting

_NUMBER = re.compile(
    r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?inf|nan|na|n/a|null", re.IGNORECASE
)
_DECIMAL = re.compile(r"[-+]?\d+([.,]\d+)?([eE][-+]?\d+)?")
_IN_BRACKETS = re.compile(r"(?P<name>.*\S)\s*[(\[](?P<unit>[^)\]]+)[)\]]")
_BEHIND = re.compile(
    r"(?P<name>.*?)[\s_.,/]+(?P<in>in\s+)?(?P<unit>[mun\u00b5\u03bc]?v(olts?)?)", re.IGNORECASE
)
_STEPS = re.compile(
    r"adc|lsb|counts?|adu|raw|steps?|digits?|bits?|a\.?u\.?|arb.*|adc.*", re.IGNORECASE
)
"""Units of a column that are steps of a converter."""
_VOLTS = re.compile(r"(?<![a-z])[munµμ]v(?![a-z])", re.IGNORECASE)
_SIGNAL = re.compile(
    r"(ecg|ekg|voltage|amplitude|signal|values?|data|lead|ch(annel)?)[\W_\d]*", re.I
)
_MARKS = (",", ";", "\t", " ")
SAMPLE_LINES = 20
"""Lines of numbers by which the separator is known."""


@dataclass(frozen=True)
class _Table:
    """A parsed table."""

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
        rest = [i for i in range(self.values.shape[1]) if i not in columns]
        names = None if self.names is None else [self.names[i] for i in rest]
        return replace(
            self, values=self.values[:, rest], names=names, units=[self.units[i] for i in rest]
        )


def read(path: Path, record: str, patient: str, options: ReadOptions) -> Recording:
    """The standard leads of the recording in a table, in mV.

    BadRecord for a file that is missing or holds no table of numbers, for missing samples, an
    uneven column of time, and for statements that contradict one another or `options`. BadSetting
    where neither the file nor `options` gives rate, unit or names, and for a line on them that is
    not understood.
    """
    try:
        table = _parsed(decoded(existing_file(path, record).read_bytes()), path, options, record)
    except (ValueError, UnicodeError, csv.Error) as error:  # pandas' errors are ValueErrors
        raise unreadable(path, record, "a table of numbers", error) from error
    notes: Notes = [("head line", line) for line in table.head.others]
    stated = table.names if generated(table.names or "") is False else None
    table, rates = _timed(table, options, record, notes)
    table.head.demand_understood(
        path, options if not rates else replace(options, fs=rates[0][1]), record
    )
    values = table.values.T
    names = options.names(table.names, len(values), path, record)
    notes.append(("names", options.origin(stated and table.names, names)))
    if stated and options.ordered and not any(map(signed, stated)):
        notes.append(("head line", " ".join(stated).strip()))  # names that are replaced
    rows = cleaned.leads_of(names, values, record, notes)
    array = cleaned.marked(values[rows])
    known = array[np.isfinite(array)]
    whole = bool((known == np.rint(known)).all())
    _demand_agreement(table, rows, options, record)
    units = [table.head.scale(whole, record, per_mv(table.units[i])) for i in rows]
    scales = [options.scale(one, path, record) for one in units]
    notes.append(("unit", "the file" if all(units) else "--unit"))
    fs = options.rate([*table.head.rates, *rates], path, record)
    source = "the file" if table.head.rates else "the column of time" if rates else "--fs"
    notes.append(("rate", source))
    chosen = [names[i] for i in rows]
    return cleaned.recording(
        array / np.array(scales)[:, None], chosen, fs, (record, patient), notes
    )


def _demand_agreement(table: _Table, rows: list[int], options: ReadOptions, record: str) -> None:
    """BadRecord where no column is in the unit of the head, or --unit is a plain voltage and a
    column is in steps.
    """
    units, common = [table.units[i] for i in rows], table.head.unit
    stated = [one for one in map(per_mv, units) if one]
    if common and len(stated) == len(rows) and all(abs(s / common - 1) > AGREE for s in stated):
        raise BadRecord(
            f"{record}: 1 mV is {common:g} by the unit in its head and {stated[0]:g} by that of a "
            f"column; correct the one that is wrong"
        )
    steps = [unit for unit in units if _STEPS.fullmatch(unit)]
    if steps and not table.head.gain and options.unit and not options.unit[0].isdigit():
        raise BadRecord(
            f"{record}: its unit is {steps[0]!r} by a column and {options.unit} by --unit; say how "
            f"much a step is: --unit 4.88uV"
        )


def _timed(
    table: _Table, options: ReadOptions, record: str, notes: Notes
) -> tuple[_Table, list[tuple[str, float]]]:
    """The table without its columns of time and its counters, and the rate that they show."""
    count = table.values.shape[1]
    if table.names is None or (generated(table.names) and "=" not in "".join(options.signals)):
        table = replace(table, names=[*options.ordered] if len(options.ordered) == count else None)
    typed = dict(text.split("=", 1) for text in options.signals if "=" in text)
    names = [typed.get(name, name) for name in table.names or [""] * count]
    found = times.time_columns(names, table.values.T, record, table.clock)
    notes += [("ignored signal", f"{names[i]}, which rises") for i in found if signed(names[i])]
    rates = [(f"the column of time {names[i]!r}", fs) for i, fs in found.items() if fs]
    return table.without({*found}), rates


def _parsed(text: str, path: Path, options: ReadOptions, record: str) -> _Table:
    lines = re.split(r"\r\r\n|\r\n|\n|\r", text)
    while lines and not lines[-1].strip():
        lines.pop()
    plain = [times.unstamped(line) for line in lines]
    first = next((i for i, line in enumerate(plain) if _numbers(line)), None)
    if first is None:
        raise BadRecord(f"{record}: {path.name} holds no line of numbers")
    clock = plain[first] != lines[first]
    above = [re.sub(r"^\s*[#%/]+\s*", "", line) for line in lines[:first]]
    above = [line for line in above if line.strip()]
    if _numbers_columns(plain[first : first + SAMPLE_LINES]):
        above, first = [*above, lines[first]], first + 1
    lines = plain[first:]
    samples = [line.strip() for line in lines if line.strip()][:SAMPLE_LINES]
    seen = head.understood(above)
    separator = _separator(samples, above, len(seen.leads) == 1, options, path)
    values = _values("\n".join(lines), separator, path, record)
    named = len(_words(above[-1], separator)) if above else 0
    trailing = all(line.endswith(separator) for line in samples) and named < values.shape[1]
    if trailing and np.isnan(values[:, -1]).all():
        values = values[:, :-1]  # a separator at the end of each line
    names, units, above = _named(above, separator, values)
    if names and len(names) == values.shape[1] - 1:
        names, units = ["", *names], ["", *units]  # R names no column of row numbers
    seen = head.understood(above)
    names = _with_leads(names, seen, values, record)
    for name, unit in zip(names or (), units):
        lead = signed(name if unit else re.split(r"[\W_]", name)[0])
        if lead and (not _known(unit) if unit else not signed(name) and _VOLTS.search(name)):
            seen.odd.append(f"{name} {unit}".strip())
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
) -> tuple[list[str] | None, list[str], list[str]]:
    """Names and units of the signals, from the last lines before the numbers or from a line of
    nothing but leads, and the other lines.
    """
    count = values.shape[1]
    counts = {count, count - 1} if count > 1 and times.counts(values[:, 0]) else {count}
    rows = [_words(line, separator) for line in above[-2:]]
    if len(rows) == 2 and len(rows[0]) != len(rows[1]):
        rows = rows[1:]
    names: list[str] | None = None
    units: list[str] = []
    rest = above
    if rows and len(rows[-1]) in counts and not _states(above[-1], rows[-1]):
        below = [word.strip("()[]-_= ") for word in rows[1]] if len(rows) == 2 else []
        leads = len(rows) == 2 and bool(_leads_in(above[-2], separator))
        if any(map(per_mv, below)) or (leads and not any(map(signed, _split_units(below)[0]))):
            names, units, rest = _split_units(rows[0])[0], below, above[:-2]
            names = [f"{n} ({u})" if times.size(u) else n for n, u in zip(names, below)]
        elif all(map(per_mv, rows[-1])):
            units, rest = rows[-1], above[:-1]
        else:
            (names, units), rest = _split_units(rows[-1]), above[:-1]
    for i in reversed(range(0 if any(map(signed, names or ())) else len(above))):
        for mark in (separator, *_MARKS):
            if len(found := _leads_in(above[i], mark)) in counts:
                units = units if any(units) else _split_units(_words(above[i], mark))[1]
                return found, units, [line for line in rest if line != above[i]]
    return names, units, rest


def _states(line: str, words: list[str]) -> bool:
    """Whether a line is no names of columns: Sample Rate,500, or Leads: II, I."""
    if ":" in words[0] and not signed(words[0]) and head.understood([line]).leads:
        return True
    if len(words) > 2 or any(map(signed, _split_units(words)[0])) or generated(words):
        return False
    seen = head.understood([line])
    return bool(
        re.search(r"[,;:=\t]\s*[-+]?\d", line)
        or (len(words) == 1 and re.search(r"[,;:=\t]", words[0]))
        or (seen.rates or seen.perhaps or seen.unit or seen.gain or seen.odd or seen.leads)
    )


def _known(unit: str) -> bool:
    return bool(per_mv(unit) or _STEPS.fullmatch(unit))


def _split_units(words: list[str]) -> tuple[list[str], list[str]]:
    """Names of columns and the units in them: I (mV), II/uV, V1 [counts]."""
    names, units = [], []
    for word in words:
        found = _IN_BRACKETS.fullmatch(word) or _BEHIND.fullmatch(word)
        name, unit = (found["name"], found["unit"].strip()) if found else (word, "")
        sure = len(words) > 1 or word[-1:] in ")]" or signed(name) or _SIGNAL.fullmatch(name)
        known = _known(unit) and (sure or re.search(r"\sin\s", word))
        names.append(name if known else word)
        units.append(unit if known else "")
    return names, units


def _leads_in(line: str, separator: str) -> list[str]:
    """Names of columns in a line of nothing but leads and times; else none."""
    names = _split_units(_words(line, separator))[0]
    leads = any(map(signed, names)) and all(signed(n) or times.is_time(n) or not n for n in names)
    return names if leads else []


def _with_leads(
    names: list[str] | None, seen: head.Head, values: np.ndarray, record: str
) -> list[str] | None:
    """Names of the columns, from the lines on leads where no column names one. BadRecord where
    both do and differ.
    """
    leads = [*dict.fromkeys(filter(signed, seen.leads))] or seen.leads
    named = [name for name in names or () if signed(name)]
    if named and len(named) == len(leads) and all(map(signed, leads)):
        if [*map(signed, named)] != [*map(signed, leads)]:
            raise BadRecord(
                f"{record}: its signals are {', '.join(leads)} by its head and {', '.join(named)} "
                f"by the names of its columns; correct the one that is wrong"
            )
        return names
    columns = names or [""] * values.shape[1]
    free = [
        i
        for i, name in enumerate(columns)
        if not columns[1:] or not (times.is_time(name) or times.counts(values[:, i]))
    ]
    if named or len(leads) != len(free) or (names and not any(map(signed, leads))):
        seen.others += leads
        return names
    return [leads[free.index(i)] if i in free else name for i, name in enumerate(columns)]


def _words(line: str, separator: str) -> list[str]:
    cells = line.split() if separator == " " else next(csv.reader([line], delimiter=separator))
    words = [cell.strip().strip("'") for cell in cells]
    return words[:-1] if len(words) > 1 and not words[-1] else words


def _numbers(line: str) -> bool:
    """Whether a line holds numbers and nothing else."""
    words = [word.strip('"') for word in re.split(r"[;,\s]+", line.strip())]
    return any(words) and all(not word or _NUMBER.fullmatch(word) for word in words)


def _separator(
    samples: list[str], above: list[str], alone: bool, options: ReadOptions, path: Path
) -> str:
    """What separates the numbers of the lines `samples`. A comma is a decimal one where something
    else separates, and in lines of one number where the text has one signal; BadSetting where
    it cannot be known.
    """
    for separator in (";", "\t"):
        if all(separator in line for line in samples):
            return separator
    last = _words(above[-1], ",") if above else []
    one = alone and not any(map(signed, last)) if len(last) > 1 else alone or len(last) == 1
    one |= not any(map(signed, last)) and len(options.signals) == 1
    several = any(len(_leads_in(line, mark)) > 1 for line in above for mark in _MARKS)
    one &= not several
    if one and all(_DECIMAL.fullmatch(line.strip('"')) for line in samples):
        before = [line.strip('"').split(",")[0] for line in samples]
        # numbers that count the lines are a column of their own
        whole = len(samples) > 2 and "".join(before).isdigit()
        return "," if whole and all(int(a) < int(b) for a, b in pairwise(before)) else ";"
    halves = [re.fullmatch(r"[-+]?\d{1,4},\d+", line) for line in samples]
    if all(halves) and not options.signals and not (several or any(map(signed, last)) or last[1:]):
        raise BadSetting(
            f"{path.name}: a line such as {samples[0]!r} may be one number with a decimal comma, "
            f"or two numbers; say which: --signals I (one signal) or --signals I,II (two)"
        )
    blanks = all(len(line.split()) > 1 for line in samples)
    decimals = all(_DECIMAL.fullmatch(word) for line in samples for word in line.split())
    return " " if blanks and (decimals or not all("," in line for line in samples)) else ","


def _values(text: str, separator: str, path: Path, record: str) -> np.ndarray:
    """(time, signal) float64. BadRecord where a sign may separate thousands or decimals."""
    sign = "," if separator != "," and "," in text else "."
    if odd := _thousands(text, separator, sign):
        raise BadRecord(
            f"{record}: numbers such as {odd!r} may be thousands or decimals; write them without "
            f"separators of thousands"
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


def _thousands(text: str, separator: str, sign: str) -> str | None:
    """A number such as 3.070 of a column whose numbers with a sign all have it before three digits,
    and the others are below 1,000.
    """
    lines = text[:100_000].rpartition("\n")[0].split("\n")
    for column in zip_longest(*(line.split(separator.strip() or None) for line in lines)):
        words = [word.strip(" \"'+-") for word in column if word and word.strip(" \"'")]
        small = [word for word in words if re.fullmatch(r"\d{1,3}", word)]
        grouped = [word for word in words if re.fullmatch(rf"[1-9]\d{{0,2}}\{sign}\d{{3}}", word)]
        several = len({*map(len, grouped)}) > 1 or any(len(word) > 1 for word in small)
        if grouped and small and len(small) + len(grouped) == len(words) and several:
            return grouped[0]
    return None
