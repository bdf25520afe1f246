"""Text tables as devices, programs and people write them: lines that describe them, then a line
per sample.

    Sample Rate,512 hertz       statements (`head`); known exports say theirs in a place of their
    Unit,µV                     own (`known`)

    time,I,II                   or names of the signals, perhaps with units: I (uV)
    0.000,-12.1,8.4             numbers

A column may be a clock time, a time, or a count of the samples (`times`). Columns are separated by
commas, semicolons, tabs or blanks; decimals may be written with a comma where it does not separate
them. Only the first lines of samples are looked at one by one.
"""

import codecs
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, product, takewhile, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.ecg.readers import cleaned, head, times
from ecgbench.ecg.readers.arrays import existing_file, unreadable
from ecgbench.ecg.readers.cleaned import Notes
from ecgbench.ecg.readers.known import export_of
from ecgbench.ecg.readers.notation import ReadOptions, generated, per_mv, signed
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting

SAMPLE_LINES = 20
"""Lines of samples by which a table is known."""
LONGEST = 5_000
"""Lines that may stand before the numbers."""
LOOKED_AT = 2_000
"""Lines of samples in which a sign of thousands is looked for."""
CHUNK = 2**17
"""Samples that are read at once."""
LONG = 5e6
"""Samples of all leads of which no copy as float64 is held."""
OFFSET = 10.0
"""mV: a lead whose middle is farther from 0 has the voltage of its electrode in it."""
MISSING = ("-", "--", "---", ".", "?", "missing", "none", "*")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?inf|nan|na|n/a|null|", re.I)
_MOMENT = re.compile(
    r"\d[\dT:./+-]*:\d\d[\d:.+-]*Z?|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|[ap]\.?m\.?", re.I
)
_DECIMAL = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?|[-+]?\d+")
_IN_BRACKETS = re.compile(r"(?P<name>.*?)\s*[(\[](?P<unit>[^)\]]+)[)\]]")
_BEHIND = re.compile(
    r"(?P<name>.*?)(?:[\s_.,/]+|\s+in\s+|^)(?P<unit>[mun\u00b5\u03bc]?v(olts?)?)", re.I
)
_SIGNAL = re.compile(
    r"|(ecg|ekg|voltage|amplitude|signal|values?|data|lead|ch(annel)?)[\W_\d]*", re.I
)
_MARKS = (",", ";", "\t", " ")


@dataclass(frozen=True)
class _Table:
    """What is known of a table before its samples are read."""

    head: head.Head
    names: list[str]
    """Of each column, without units; "" where it has none."""
    units: list[str]
    """Of each column, "" where it says none."""
    empty: int
    """How many columns at the end have no name and no samples."""
    clocks: dict[int, int | None]
    """Columns of clock times -> the column of their dates."""
    dropped: set[int]
    """Columns that are no signals by the kind of export, and dates."""
    skipped: int
    """Lines before the samples."""
    line_bytes: float
    """Mean length of a line of samples."""
    layout: dict[str, Any]
    """What pandas needs to know."""


def read(path: Path, record: str, patient: str, options: ReadOptions) -> Recording:
    """The standard leads of the recording in a table, in mV.

    BadRecord for a file that is missing or holds no table of numbers, for missing samples, an
    uneven column of time, and for statements that contradict one another or `options`. BadSetting
    where neither the file nor `options` gives rate, unit or names.
    """
    try:
        return _read(existing_file(path, record), (record, patient), options)
    except (ValueError, UnicodeError, csv.Error) as error:  # pandas' errors are ValueErrors
        raise unreadable(path, record, "a table of numbers", error) from error


def _read(path: Path, whose: tuple[str, str], options: ReadOptions) -> Recording:
    record, encoding = whose[0], _encoding(path)
    options = replace(options, signals=tuple(map(_without_unit, options.signals)))
    table = _known(path, encoding, options, record)
    said = table.head
    said.demand_agreement(options, record)
    chunks = _chunks(path, encoding, table)
    first = next(chunks)
    columns, timed, signals = _kinds(table, first, options)
    stated = _named(columns, signals, said, record)
    notes: Notes = [("head line", line) for line in (*said.unclear, *said.others)]
    if stated and options.ordered and not (any(map(signed, stated)) or generated(stated)):
        notes.append(("head line", " ".join(stated).strip()))  # names that are replaced
    names = options.names(stated, len(signals), path, record)
    given = stated if columns == table.names and not generated(stated or "") else None
    notes.append(("names", options.origin(given, names)))
    rows = cleaned.leads_of(names, first[:, signals].T, record, notes)
    notes += [("ignored signal", f"{n}, which rises") for i in timed if signed(n := columns[i])]
    leads = [signals[i] for i in rows]
    samples = first[:, leads][np.isfinite(first[:, leads])]
    whole = bool((samples == np.rint(samples)).all())
    own = [table.units[i] for i in leads]
    alone = not all(map(per_mv, own)) or any(per_mv(x) == n for x in own for _, n in said.units)
    units = [said.scale(whole, one, alone, options, record) for one in own]
    scales = [options.scale(one and one[1], path, record, said.about("unit")) for one in units]
    if not timed:
        options.rate(said.rates, path, record, seen=said.about("rate"))  # before all is read
    values, clock = _filled(
        chain([first], chunks), leads, timed, path.stat().st_size / table.line_bytes
    )
    rates = [*said.rates]
    for k, i in enumerate(timed):
        name = _with_unit(columns[i], table.units[i])
        rate = times.rate(clock[k], name, i in table.clocks, record)
        rates += [(f"the column of time {name!r}", rate)] if rate else []
    del clock
    fs = options.rate(rates, path, record, seen=said.about("rate"))
    source = "the file" if said.rates else "the column of time" if rates else "--fs"
    notes += [("unit", "the file" if all(units) else "--unit"), ("rate", source)]
    values, chosen = cleaned.marked(values, in_place=True), [names[i] for i in rows]
    _to_millivolts(values, scales, chosen, notes)
    return cleaned.recording(values, chosen, fs, whose, notes)


def _to_millivolts(values: np.ndarray, scales: list[float], names: list[str], notes: Notes) -> None:
    """Divides (lead, time) in place, and takes off the voltage of an electrode."""
    for row, scale, name in zip(values, scales, names):
        row /= scale
        some = row[:: max(1, len(row) // CHUNK)]
        some = some[np.isfinite(some)]
        low, middle, high = np.quantile(some, (0.01, 0.5, 0.99)) if len(some) else (0.0,) * 3
        if abs(middle) > OFFSET and low * high > 0:
            row -= middle
            notes.append(("offset", f"{name} lies at {middle:.3g} mV"))


def _kinds(
    table: _Table, first: np.ndarray, options: ReadOptions
) -> tuple[list[str], list[int], list[int]]:
    """Names of the columns by `options`, which of them are times or counters, and which signals."""
    typed = dict(text.split("=", 1) for text in options.signals if "=" in text)
    free = [i for i in range(len(table.names)) if i not in table.dropped]
    names, own = [*table.names], [table.names[i] for i in free]
    if len(options.ordered) == len(free) and (generated(own) or not any(own)):
        for i, name in zip(free, options.ordered):
            names[i] = name
    each = [typed.get(names[i], _with_unit(names[i], table.units[i])) for i in free]
    clocks = [free.index(i) for i in table.clocks if i in free]
    timed = [free[i] for i in times.which(each, first[:, free].T, clocks)]
    signals = [i for i in free if i not in timed]
    wanted = len(options.ordered) or len(table.head.leads)
    if not any(table.names) and wanted:
        spare = min(table.empty, max(0, len(signals) - wanted))
        signals = signals[: len(signals) - spare]
    return names if timed else table.names, timed, signals


def _named(names: list[str], signals: list[int], said: head.Head, record: str) -> list[str] | None:
    """Names of the signals, from the lines on leads where no column names one. BadRecord where
    both do and differ.
    """
    own = [names[i] for i in signals]
    leads = [*dict.fromkeys(filter(signed, said.leads))] or said.leads
    named = [*filter(None, map(signed, own))]
    if named and len(named) == len(leads) and all(map(signed, leads)):
        if named != [*map(signed, leads)]:
            raise BadRecord(
                f"{record}: its signals are {', '.join(leads)} by its head and {', '.join(named)} "
                f"by the names of its columns; correct the one that is wrong"
            )
    elif not named and len(leads) == len(own) and (any(map(signed, leads)) or not any(own)):
        return leads
    else:
        said.others.extend(leads)
    return own if any(own) else None


def _filled(
    chunks: Iterator[np.ndarray], leads: list[int], timed: list[int], expected: float
) -> tuple[np.ndarray, np.ndarray]:
    """(lead, time) of samples, of a long recording as float32 unless its numbers are too long,
    and (column, time) float64 of times; without empty lines at the end. expected: about how many.
    """
    first = next(chunks)
    largest = np.abs(first[:, leads][np.isfinite(first[:, leads])]).max(initial=0.0)
    small = largest < 2**24 and expected * len(leads) > LONG
    kinds = [(leads, np.float32 if small else np.float64), (timed, np.float64)]
    out = [np.empty((len(columns), int(expected * 1.05) + CHUNK), kind) for columns, kind in kinds]
    count = 0
    for chunk in chain([first], chunks):
        end = count + len(chunk)
        for k, (columns, kind) in enumerate(kinds):
            if end > out[k].shape[1]:
                out[k] = np.concatenate([out[k], np.empty((len(columns), end), kind)], axis=1)
            out[k][:, count:end] = chunk[:, columns].T
        count = end
    while count and all(np.isnan(each[:, count - 1]).all() for each in out):
        count -= 1
    return out[0][:, :count], out[1][:, :count]


def _chunks(path: Path, encoding: str, table: _Table) -> Iterator[np.ndarray]:
    """(time, column) float64 of the samples; clock times are seconds."""
    count, last = len(table.names), dict.fromkeys(table.clocks, -np.inf)
    texts = {*table.clocks, *(day for day in table.clocks.values() if day is not None)}
    with open(path, encoding=encoding, errors="replace") as file:
        for _ in range(table.skipped):
            file.readline()
        kinds = {i: "str" if i in texts else "float64" for i in range(count)}
        for frame in pd.read_csv(file, names=[*range(count)], dtype=kinds, **table.layout):
            if not isinstance(frame.index, pd.RangeIndex):
                raise ValueError("it has lines with more values than its first ones")
            values = np.empty((len(frame), count))
            for i in range(count):
                values[:, i] = 0.0 if i in texts else frame[i].to_numpy()
            for i, day in table.clocks.items():
                clock = times.seconds(frame[i], None if day is None else frame[day])
                nights = max(0.0, np.ceil((last[i] - clock[0]) / times.DAY - 0.5))
                values[:, i] = clock + nights * times.DAY
                last[i] = values[-1, i]
            yield values


def _known(path: Path, encoding: str, options: ReadOptions, record: str) -> _Table:
    """What the first lines of a table say."""
    with open(path, encoding=encoding, errors="replace") as file:
        above = [*takewhile(lambda line: not _numbers(line), islice(file, LONGEST))]
    with open(path, encoding=encoding, errors="replace") as file:
        lines = [line.rstrip("\n") for line in islice(file, len(above), len(above) + LOOKED_AT)]
    export = export_of(above)
    skipped = len(above)
    if lines and _numbers_columns(lines[:SAMPLE_LINES]):
        above, lines, skipped = above + lines[:1], lines[1:], skipped + 1
    elif lines and export.counted and _counted(lines):
        lines, skipped = lines[1:], skipped + 1
    rows = [line.split(export.comment)[0] if export.comment else line for line in lines]
    samples = [line.strip(" ") for line in rows if line.strip()][:SAMPLE_LINES]
    if not samples or not _numbers(lines[0]):
        raise BadRecord(f"{record}: {path.name} holds no line of numbers")
    above = [re.sub(r"^\s*[#%/]+\s*", "", line).strip("\n ") for line in above]
    try:
        above = export.plain([line for line in above if line.strip()])
    except (LookupError, StopIteration, TypeError, AttributeError) as error:
        raise BadRecord(f"{record}: {path.name} has no head of {export.name}") from error
    seen = head.understood(above)
    separator, decimal = _separator(samples, above, len(seen.leads) == 1, options, path)
    cells = [_cells(line, separator) for line in samples]
    count = max(map(len, cells))
    filled = [max((i for i, cell in enumerate(row, 1) if cell), default=0) for row in cells]
    empty = count - max(filled)
    if odd := _thousands(rows, separator, decimal):
        raise BadRecord(
            f"{record}: numbers such as {odd!r} may be thousands or decimals; write them without "
            f"separators of thousands"
        )
    names, units, rest = _columns(above, separator, cells, empty)
    clocks, dates = _clocks(cells, count)
    dropped = {i for i, name in enumerate(names) if name.lower() in export.ignored} | dates
    if any(names):
        dropped |= {i for i in range(count - empty, count) if not names[i]}
    names = [export.lead(name) for name in names]
    layout = {
        "sep": r"\s+" if separator == " " else separator,
        "decimal": decimal,
        "header": None,
        "index_col": None,
        "skipinitialspace": True,
        # a file that was translated twice has an empty line after each
        "skip_blank_lines": len(lines) > 3 and not any(map(str.strip, lines[1:SAMPLE_LINES:2])),
        "comment": export.comment,
        "quotechar": "'" if samples[0].startswith("'") else '"',
        "na_values": MISSING,
        "chunksize": CHUNK,
    }
    size = sum(len(line.encode(encoding)) for line in samples) / len(samples) + 1
    return _Table(
        head.understood(rest), names, units, empty, clocks, dropped, skipped, size, layout
    )


def _encoding(path: Path) -> str:
    """UTF-8, UTF-16, else Windows-1252."""
    with open(path, "rb") as file:
        start = file.read(2**16)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in start[:200]:
        return "utf-16-le" if start[1:2] == b"\0" else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def _numbers(line: str) -> bool:
    """Whether a line holds numbers, perhaps with clock times, and nothing else."""
    text = line.strip().strip(",;")
    words = [word.strip("\"'[]") for word in re.split(r"[;,\s]+", re.sub(r"\s#.*", "", text))]
    found = [word for word in words if word and not _MOMENT.fullmatch(word)]
    numbers = [word for word in found if _NUMBER.fullmatch(word)]
    return bool(numbers) and all(w in numbers or w.lower() in MISSING for w in found)


def _numbers_columns(lines: list[str]) -> bool:
    """Whether the first of lines of numbers numbers the columns (0,1,...,11), as pandas writes
    names that nobody gave.
    """
    rows = [
        [word.strip(' "') for word in re.split(r"[;,\t]|\s+", line.strip(" "))] for line in lines
    ]
    index, names = rows[0][0] == "", rows[0][1:] if rows[0][0] == "" else rows[0]
    if len(lines) < 2 or not generated(names):
        return False
    rest = [word for row in rows[1:] for word in row[index:] if word]
    return index or len(names) > 2 or (bool(rest) and all("." in word for word in rest))


def _counted(lines: list[str]) -> bool:
    """Whether the first line gives numbers of samples, which the next are not like."""
    first, second = (line.split() for line in (*lines[:2], "", "")[:2])
    return all(map(str.isdigit, first)) and (len(first) < len(second) or "." in "".join(second))


def _clocks(cells: list[list[str]], count: int) -> tuple[dict[int, int | None], set[int]]:
    """Columns of clock times, each with the column of its date, and the columns of dates."""
    columns = [
        [row[i].strip("[]") for row in cells if i < len(row) and row[i]] for i in range(count)
    ]
    clocks = [i for i, each in enumerate(columns) if each and all(map(times.CLOCK.fullmatch, each))]
    dates = {i for i, each in enumerate(columns) if each and all(map(times.DATE.fullmatch, each))}
    return {i: next((k for k in (i - 1, i + 1) if k in dates), None) for i in clocks}, dates


def _columns(
    above: list[str], separator: str, cells: list[list[str]], empty: int
) -> tuple[list[str], list[str], list[str]]:
    """Names and units of the columns ("" where there are none), from the last lines or a line of
    nothing but leads, and the other lines.
    """
    count = max(map(len, cells))
    rows, k = [_fitting(line, separator, cells, empty) for line in above], len(above) - 1
    names, units, used = [""] * count, [""] * count, set()
    if above and _are_units(rows[k]):
        units, used, k = [word.strip("()[]-_= ") for word in rows[k]], {k}, k - 1
        while k >= 0 and rows[k] and len({*rows[k]}) < len(rows[k]):
            used, k = used | {k}, k - 1  # RAW, RAW
    elif above and rows[k] and not any(word.strip("-_= ") for word in rows[k]):
        used, k = {k}, k - 1  # a rule below the names
    if k >= 0 and rows[k] and not _states(above[k], rows[k]):
        names, own = _split_units(rows[k])
        units, used = units if any(units) else own, used | {k}
    for i, mark in product(reversed(range(len(above))), (separator, *_MARKS)):
        if any(map(signed, names)):
            break
        found, own = _split_units(_fitting(above[i], mark, cells, empty))
        if any(map(signed, found)) and all(signed(n) or times.is_time(n) or not n for n in found):
            names, units, used = found, own if any(own) else units, used | {i}
    return names, units, [line for i, line in enumerate(above) if i not in used]


def _fitting(line: str, separator: str, cells: list[list[str]], empty: int) -> list[str]:
    """A cell for each column; nothing where a line has another number of cells."""
    found, count = _cells(line, separator), max(map(len, cells))
    while found and not found[-1]:
        found.pop()
    if len(found) == count - empty + 1 and found[0] in ("time", "s"):
        found = found[1:]  # an export without its column of time
    first = [row[0] for row in cells]
    if len(found) == count - empty - 1 and "".join(first).isdigit():
        found = ["", *found] if times.counts(np.array(first, float)) else found  # row numbers of R
    return (found + [""] * empty)[:count] if count - empty <= len(found) <= count else []


def _are_units(row: list[str]) -> bool:
    """Whether all cells of a line are bare units (or formats of a clock), and one is a voltage or
    a step. A cell with a digit is no unit.
    """
    bare = [word.strip("()[]-_= ") for word in row if ":" not in word]
    names = (times.is_time(word) and not times.size(word) for word in bare)
    other = any(names) or any(re.search(r"\d", word) or signed(word) for word in bare)
    return not other and any(per_mv(word) or head.STEPS.fullmatch(word) for word in bare)


def _states(line: str, words: list[str]) -> bool:
    """Whether a line is no names of columns: Sample Rate,500, or Leads: II, I."""
    seen = head.understood([line])
    if re.match(r"[\w ]*[:=]", words[0]) and not signed(words[0]):
        return True
    words = [word for word in words if word]
    if len(words) > 2 or any(map(signed, _split_units(words)[0])) or generated(words):
        return False
    digits = re.search(r"[,;:=\t]\s*[-+]?\d", line) or (seen.unclear and re.search(r"\d", line))
    return bool(digits or seen.rates or seen.units or seen.gains or seen.leads or seen.raw)


def _split_units(words: list[str]) -> tuple[list[str], list[str]]:
    """Names of columns and the units in them: I (mV), II/uV, V1 [counts], mV."""
    names, units = [], []
    for word in words:
        found = _IN_BRACKETS.fullmatch(word) or _BEHIND.fullmatch(word)
        name, unit = (found["name"].strip(), found["unit"].strip()) if found else (word, "")
        known = (per_mv(unit) and not re.search(r"\d", unit)) or head.STEPS.fullmatch(unit)
        sure = len(words) > 1 or word[-1:] in ")]" or signed(name) or _SIGNAL.fullmatch(name)
        names.append(name if known and sure else word)
        units.append(unit if known and sure else "")
    return names, units


def _without_unit(signal: str) -> str:
    """NAME=LEAD for NAME (mV)=LEAD."""
    name, sign, lead = signal.rpartition("=")
    return _split_units([name])[0][0] + sign + lead


def _with_unit(name: str, unit: str) -> str:
    """The name of a column of time with a unit that stands below it."""
    return f"{name} ({unit})" if times.is_time(name) and times.size(unit) else name


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        return re.sub("elapsed time", "time", line, flags=re.I).split()
    quote = "'" if line.startswith("'") else '"'
    rows = csv.reader([line], delimiter=separator, quotechar=quote, skipinitialspace=True)
    return [cell.strip().strip("'") for cell in next(rows, [])]


def _separator(
    samples: list[str], above: list[str], alone: bool, options: ReadOptions, path: Path
) -> tuple[str, str]:
    """What separates the numbers of the lines `samples`, and the sign of decimals. A comma is one
    of decimals where something else separates, and in lines of one number where the text has one
    signal; BadSetting where it cannot be known.
    """
    comma = "," if any("," in line for line in samples) else "."
    for separator in (";", "\t"):
        if all(separator in line for line in samples):
            return separator, comma
    words = [line.split() for line in samples]
    if all(len(row) > 1 for row in words) and (
        comma == "." or all(_DECIMAL.fullmatch(word) for row in words for word in row)
    ):
        return " ", comma
    rows = [_cells(line, ",") for line in samples]
    if any("," in cell for row in rows for cell in row):
        return ",", ","  # "0,12","0,13"
    if not all(_DECIMAL.fullmatch(line.strip(' "')) for line in samples) or comma == ".":
        return ",", "."
    last = [cell for cell in _cells(above[-1], ",") if cell] if above else []
    leads = [_split_units(_cells(line, mark))[0] for line in above for mark in _MARKS]
    several = any(len(row) > 1 and all(signed(n) or times.is_time(n) for n in row) for row in leads)
    several |= len(options.ordered) > 1 or (len(last) == 2 and not _states(above[-1], last))
    whole = [row[0] for row in rows]
    several |= (
        len(rows) > 2
        and "".join(whole).isdigit()
        and all(int(a) < int(b) for a, b in pairwise(whole))
    )
    if not several and (alone or len(options.signals) == 1 or len(last) == 1):
        return ";", ","
    if not several and len({*map(len, rows)}) == 1:
        raise BadSetting(
            f"{path.name}: a line such as {samples[0]!r} may be one number with a decimal comma, "
            f"or two numbers; say which: --signals I (one signal) or --signals I,II (two)"
        )
    return ",", "."


def _thousands(lines: list[str], separator: str, sign: str) -> str | None:
    """A number such as 3.070 of a column whose numbers with a sign all have it before three digits,
    and the others are below 1,000.
    """
    number = re.compile(rf"\d{{1,3}}|[1-9]\d{{0,2}}\{sign}\d{{3}}")
    for column in zip_longest(*(line.split(separator.strip() or None) for line in lines)):
        words = [word.strip(" \"'+-") for word in column if word and word.strip(" \"'")]
        if all(map(number.fullmatch, words)):
            grouped = [word for word in words if sign in word]
            small = [word for word in words if sign not in word]
            several = len({*map(len, grouped)}) > 1 or any(len(word) > 1 for word in small)
            if grouped and small and several:
                return grouped[0]
    return None
