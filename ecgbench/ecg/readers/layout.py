"""How a text table is laid out, by its first lines: what separates its columns, their names and
units, which are clock times, and what its head says.
"""

import codecs
import csv
import re
from dataclasses import dataclass
from itertools import islice, pairwise, product, takewhile, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from ecgbench.core.text import shortened
from ecgbench.ecg.readers import head, times
from ecgbench.ecg.readers.known import export_of
from ecgbench.ecg.readers.notation import ReadOptions, generated, per_mv, signed
from ecgbench.errors import BadRecord, BadSetting

SAMPLE_LINES = 20
"""Lines of samples by which a table is known."""
LONGEST = 5_000
"""Lines that may stand before the numbers."""
LOOKED_AT = 2_000
"""Lines of samples in which a sign of thousands is looked for."""
CHUNK = 2**17
"""Samples that are read at once."""
MISSING = ("-", "--", "---", ".", "?", "missing", "none", "*")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?inf|nan|na|n/a|null|", re.I)
_MOMENT = re.compile(rf"\d[\dT:./+-]*:\d\d[\d:.+-]*Z?|{times.DATE.pattern}|[ap]\.?m\.?", re.I)
_DECIMAL = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?|[-+]?\d+")
_IN_BRACKETS = re.compile(r"(?P<name>.*?)\s*[(\[](?P<unit>[^)\]]+)[)\]]")
_BEHIND = re.compile(
    r"(?P<name>.*?)(?:[\s_.,/]+|\s+in\s+|^)(?P<unit>[mun\u00b5\u03bc]?v(olts?)?)", re.I
)
_SIGNAL = re.compile(
    r"|(ecg|ekg|voltage|amplitude|signal|values?|data|lead|ch(annel)?)[\W_\d]*", re.I
)
_MARKS = (",", ";", "\t", " ")
_ALWAYS: dict[str, Any] = {"header": None, "index_col": None, "skipinitialspace": True}
_ALWAYS |= {"na_values": MISSING}


@dataclass(frozen=True)
class Table:
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
    bits: dict[str, int]
    """Name of a column -> bits of the converter whose steps its whole numbers are."""
    layout: dict[str, Any]
    """What pandas needs to know."""


def layout_of(path: Path, encoding: str, options: ReadOptions, record: str) -> Table:
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
    if not samples:
        last = shortened(next((line.strip() for line in above[::-1] if line.strip()), ""), 60)
        raise BadRecord(
            f"{record}: {path.name} holds no line of numbers; its last line is {last!r}"
        )
    above = [re.sub(r"^\s*[#%/]+\s*", "", line).strip("\n ") for line in above]
    try:
        above = [line for line in above if line.strip()]
        above, bits = export.plain(above), export.bits(above)
    except (LookupError, StopIteration, TypeError, AttributeError) as error:
        raise BadRecord(f"{record}: {path.name} has no head of {export.name}") from error
    seen = head.understood(above)
    separator, decimal = _separator(samples, above, len(seen.leads) == 1, options, path)
    # a remark at the end of a line stands in a column of its own
    cells = [_cells(line, separator) + [""] * bool(export.comment) for line in samples]
    count = max(map(len, cells))
    filled = [max((i for i, cell in enumerate(row, 1) if cell), default=0) for row in cells]
    empty = count - max(filled)
    if odd := _thousands(rows, separator, decimal):
        raise BadRecord(
            f"{record}: numbers such as {odd!r} may be thousands or decimals; write them without "
            f"separators of thousands"
        )
    _demand_no_samples(above, separator, range(count - empty, count + 1), record)
    names, units, rest = _columns(above, separator, cells, empty)
    _demand_names(names, above, separator, count - empty, record)
    clocks, dates = _clocks(cells, count)
    dropped = {i for i, name in enumerate(names) if name.lower() in export.ignored} | dates
    if any(names):
        dropped |= {i for i in range(count - empty, count) if not names[i]}
    names = [export.lead(name) for name in names]
    layout = _ALWAYS | {
        "sep": r"\s+" if separator == " " else separator,
        "decimal": decimal,
        # a file that was translated twice has an empty line after each
        "skip_blank_lines": len(lines) > 3 and not any(map(str.strip, lines[1:SAMPLE_LINES:2])),
        "comment": export.comment,
        "quotechar": "'" if samples[0].startswith("'") else '"',
        "chunksize": CHUNK,
    }
    size = sum(len(line.encode(encoding)) for line in samples) / len(samples) + 1
    seen = head.understood(rest)
    return Table(seen, names, units, empty, clocks, dropped, skipped, size, bits, layout)


def _demand_no_samples(above: list[str], separator: str, cells: range, record: str) -> None:
    """BadRecord where a line above the numbers is one of samples with a word in it."""
    for line in above:
        words = _cells(line, separator)
        numbers = [bool(_NUMBER.fullmatch(word)) for word in words]
        several = len(words) > 1 and len(words) in cells
        if several and words[0] and numbers[0] and not all(numbers):
            raise BadRecord(
                f"{record}: the line {shortened(line, 60)!r} holds a word among its numbers; leave "
                f"the cell empty, or take the column out"
            )


def _demand_names(
    names: list[str], above: list[str], separator: str, count: int, record: str
) -> None:
    """BadRecord where a name has a multiple of a unit, and where no column is named a lead and the
    last line above the numbers names leads, and more or fewer columns.
    """
    if odd := next(filter(_of_a_multiple, names), None):
        raise BadRecord(
            f"{record}: the column {odd!r} may hold multiples of a unit; write its samples in a "
            f"unit: 'I (mV)'"
        )
    if any(map(signed, names)) or not above:
        return
    words = [word for word in _cells(above[-1], separator) if word]
    leads = [name for name in _split_units(words)[0] if signed(name)]
    if leads and 2 * len(leads) >= len(words) > 1 and not _states(above[-1], words):
        raise BadRecord(
            f"{record}: its line {shortened(above[-1], 60)!r} names {len(words)} columns, and its "
            f"lines of numbers have {count}; correct it"
        )


def encoding_of(path: Path) -> str:
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
    return index or len(names) > 1 or (bool(rest) and all("." in word for word in rest))


def _counted(lines: list[str]) -> bool:
    """Whether the first line gives numbers of samples, which the next are not like."""
    first, second = (re.split(r"[\s,;]+", line.strip()) for line in (*lines[:2], "", "")[:2])
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
    if k >= 0 and rows[k] and not _states(above[k], rows[k]):
        names, own = _split_units(rows[k])
        units, used = units if any(units) else own, used | {k}
    for i, mark in product(reversed(range(len(above))), (separator, *_MARKS)):
        if any(map(signed, names)):
            break
        found, own = _split_units(_fitting(above[i], mark, cells, empty))
        if any(map(signed, found)) and all(signed(n) or times.is_time(n) or not n for n in found):
            # what was taken for names above is no more than a line
            names, units, used = found, own if any(own) else units, used - {k} | {i}
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
    names = (times.is_time(w) and (not times.size(w) or re.search(r"[\s_/(]", w)) for w in bare)
    # m/s^2, 1/min and cmH2O are units
    digits = (re.sub(r"^1/|/\(?[a-z]+\^?\d$|h2o", "", word.lower()) for word in bare)
    other = any(names) or any(re.search(r"\d", word) for word in digits) or any(map(signed, bare))
    return not other and any(per_mv(word) or head.STEPS.fullmatch(word) for word in bare)


def _states(line: str, words: list[str]) -> bool:
    """Whether a line is no names of columns: Sample Rate,500, or Leads: II, I."""
    seen = head.understood([line])
    if re.match(r"[\w ]*[:=]", words[0]) and not signed(words[0]):
        return True
    words = [word for word in words if word]
    if len(words) == 1 and seen.unclear:  # Einheit,µV above decimal commas
        words = next((w for w in (_cells(line, m) for m in _MARKS[:3]) if len(w) > 1), words)
    if len(words) == 2 and not times.is_time(words[0]):  # Einheit,mV; Ableitung,Ableitung I
        unit = per_mv(words[1]) and not re.search(r"\d", words[1]) and not per_mv(words[0])
        if unit or words[1].startswith(f"{words[0]} ") or (seen.leads and not signed(words[0])):
            return True
    names, units = _split_units(words)
    named = any(map(signed, names)) or any(map(_of_a_multiple, words))
    named |= len(words) == 2 and all(units)  # Ch1 (mV),Ch2 (mV)
    if len(words) > 2 or named or generated(words):
        return False
    digits = re.search(r"[,;:=\t]\s*[-+]?\d", line) or (seen.unclear and re.search(r"\d", line))
    found = (seen.rates, seen.units, seen.gains, seen.leads, seen.raw, seen.changes, digits)
    return any(map(bool, found))


def _split_units(words: list[str]) -> tuple[list[str], list[str]]:
    """Names of columns and the units in them: I (mV), II/uV, V1 [counts], mV."""
    names, units = [], []
    for word in words:
        found = _IN_BRACKETS.fullmatch(word) or _BEHIND.fullmatch(word)
        name, unit = (found["name"].strip(), found["unit"].strip()) if found else (word, "")
        of_a_signal = signed(name) or _SIGNAL.fullmatch(name)
        unit_of = (per_mv(unit) and not re.search(r"\d", unit)) or head.STEPS.fullmatch(unit)
        known = unit_of and (of_a_signal or not re.search(r"\b\d+$", name))  # 10 uV: a quantity
        sure = len(words) > 1 or word[-1:] in ")]" or of_a_signal
        names.append(name if known and sure else word)
        units.append(unit if known and sure else "")
    return names, units


def _of_a_multiple(name: str) -> bool:
    """Whether a lead has a number and a voltage behind it: I (10 uV), II (mV*1000)."""
    found = _IN_BRACKETS.fullmatch(name)
    unit = found["unit"] if found else ""
    return bool(found and signed(found["name"]) and re.search(r"\d\W*[mun]?v|v\W*\d", unit, re.I))


def without_unit(signal: str) -> str:
    """NAME=LEAD for NAME (mV)=LEAD."""
    name, sign, lead = signal.rpartition("=")
    return _split_units([name])[0][0] + sign + lead


def with_unit(name: str, unit: str) -> str:
    """The name of a column of time with a unit that stands below it."""
    return f"{name} ({unit})" if times.is_time(name) and times.size(unit) else name


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        words = re.findall(
            r"'[^']*'|\"[^\"]*\"|\S+", re.sub("elapsed time", "time", line, flags=re.I)
        )
        return [word.strip("'\"") for word in words]
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
    for separator in (";", "\t"):
        if all(separator in line for line in samples):
            cells = [cell for line in samples for cell in line.split(separator)]
            return separator, ",."[not any("," in cell and ":" not in cell for cell in cells)]
    comma = "," if any("," in line for line in samples) else "."
    words = [line.split() for line in samples]
    if all(len(row) > 1 for row in words) and (
        comma == "."
        or all(":" in word or _DECIMAL.fullmatch(word) for row in words for word in row)
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
