"""Columns that are no voltage: time, clock times and counters; the rate that time shows."""

import re
from collections.abc import Sequence
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ecgbench.ecg.readers.notation import signed
from ecgbench.errors import BadRecord

FASTEST = 40_000.0
"""Hz; no ECG is sampled faster, so that a time that steps by 0.01 is in seconds."""
DAY = 86_400
FEW = 100
"""Of so many steps one is odd at least where the rate does not fit the decimals of its times."""
BLOCK = 2**18
"""Samples that are compared at once."""

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?:{'|'.join(MONTHS)})[a-z]*"
CLOCK = re.compile(
    rf"\[?[\d](?:[\d./T -]|{_MONTH})*:\d\d[\d:.,/+ -]*\s*([ap]\.?m\.?|Z)?[\d./ -]*\]?",
    re.IGNORECASE,
)
DATE = re.compile(rf"\d{{1,4}}[-/.](?:\d{{1,2}}|{_MONTH})[-/.]\d{{1,4}}", re.IGNORECASE)
_PARTS = r"^(?P<clock>[^:]*:\d\d(?::\d\d)?)(?:[.,](?P<part>\d*))?(?P<rest>.*)$"
_NAMES = re.compile(
    r"(times?|zeit|temps|tiempo|elapsed|elapsed time|t|secs?|seconds?|sekunden|min|minutes|millis|"
    r"milli ?sec|milliseconds?|ms|date ?time|clock|date|"
    r"[\w -]*time ?stamps?(?: ?sync)?(?: (?:formatted)?unix)?(?: cal)?)(?: (.*))?"
)
_SIZES = dict.fromkeys(("s", "sec", "secs", "second", "seconds", "sekunden"), 1.0)
_SIZES |= dict.fromkeys(("ms", "msec", "millis", "millisec", "millisecond", "milliseconds"), 1e-3)
_SIZES |= dict.fromkeys(("us", "usec", "micros", "microsecond", "microseconds"), 1e-6)
_SIZES |= dict.fromkeys(("ns", "nsec", "nanos", "nanosecond", "nanoseconds"), 1e-9)
_SIZES |= {"min": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0}
"""Units of time -> seconds."""
_WORDS = {*_SIZES, "index", "utc", "axis", "hh:mm:ss", "hh:mm:ss.mmm", "of day"}
_EPOCHS = ((1e9, 1e10, 1.0), (1e12, 1e13, 1e-3), (1e15, 1e16, 1e-6), (1e18, 1e19, 1e-9))
"""From, to -> seconds of a unit in which the years 2001 to 2286 are such numbers."""


def is_time(name: str) -> bool:
    """Whether a column's name is one of time."""
    plain = re.sub(r"[\s_(\[)\]/]+", " ", name).replace("µ", "u").strip().lower()
    found = _NAMES.fullmatch(re.sub(r" in (?=\S+$)", " ", plain))
    return bool(found) and (not found[2] or found[2].strip() in _WORDS)  # type: ignore[index]


def size(name: str) -> float | None:
    """Seconds of the unit at the end of a column's name, None where it has none.

    >>> size("Time (ms)"), size("time/s"), size("seconds"), size("seq")
    (0.001, 1.0, 1.0, None)
    """
    plain = name.strip().lower().replace("µ", "u").replace("μ", "u")
    return _SIZES.get(re.sub(r"^.*?[\s_(\[/](?=[a-z]+[)\]]?$)", "", plain).strip("()[]"))


def counts(column: np.ndarray) -> bool:
    """Whether a column rises by the same step from sample to sample, as no voltage does."""
    if len(column) < 6 or not column[1] > column[0]:
        return False
    steps = np.diff(column)
    return bool(np.allclose(steps, steps[0], 1e-6, 1e-9))


def seconds(cells: object, days: object = None) -> np.ndarray:
    """(time,) seconds of clock times: 08:00:00.004, 1:02.5 (minutes), 8:00:00 PM, with or without a
    date, which may be a column of its own (`days`). Where no date is given midnight goes on. The
    order of day and month is the one in which the file is shorter.

    cells, days: texts (time,). NaN where a cell is no time.
    """
    found = pc.extract_regex(pa.array(cells, pa.string(), from_pandas=True), _PARTS)
    clock, part, rest = (pc.fill_null(pc.struct_field(found, i), "") for i in range(3))
    if days is not None:
        clock = pc.binary_join_element_wise(
            pa.array(days, pa.string(), from_pandas=True), clock, " "
        )
    once = pc.dictionary_encode(pc.binary_join_element_wise(clock, rest, "|"))
    texts, codes = once.dictionary.to_pylist(), once.indices.to_numpy(zero_copy_only=False)
    minutes = pc.max(pc.utf8_length(part)).as_py()  # 1:02.5 without hours has a part of seconds
    each = [_moment(text, bool(minutes)) for text in texts]
    dated = [one[1:] for one in each if len(one) > 1]
    orders = [np.array([one[min(k, len(one) - 1)] for one in each]) for k in (1, 2)]
    orders = [one for one in orders if np.isfinite(one).all()] or orders[:1]
    whole = min(orders, key=np.ptp)[codes] if len(orders) > 1 else orders[0][codes]
    fraction = np.array(
        pc.cast(
            pc.if_else(pc.equal(part, ""), "0", pc.binary_join_element_wise("0.", part, "")),
            pa.float64(),
        )
    )
    times: np.ndarray = whole + fraction
    return times if dated else times + DAY * np.r_[0, np.cumsum(np.diff(times) < -DAY / 2)]


def _moment(text: str, minutes: bool) -> tuple[float, ...]:
    """Seconds of the day; with a date also those since the year 2000, with the day before the month
    and with the month before the day (NaN where there is no such date).
    """
    clock, _, rest = re.sub(_MONTH, _number_of, text, flags=re.IGNORECASE).partition("|")
    words = re.findall(r"\d+", clock)
    at = clock.find(":")
    count = len(re.findall(r"\d+", clock[: max(at, 0)])) if at >= 0 else 0
    if not count:
        return (np.nan,)
    parts = [int(word) for word in words[count - 1 :]]
    if len(parts) == 2 and not minutes:
        parts.append(0)
    second = float(sum(part * 60**power for power, part in enumerate(reversed(parts))))
    half = re.search(r"([ap])\.?m", rest, re.IGNORECASE)
    if half:
        second += 43_200 * ((half[1].lower() == "p") - (parts[0] == 12))
    day = words[: count - 1] or re.findall(r"(?<![+:\d])\d+", rest)
    if len(day) != 3:
        return (second,)
    year, first, other = day if len(day[0]) == 4 else (day[2], day[0], day[1])
    orders = ((first, other),) * 2 if len(day[0]) == 4 else ((other, first), (first, other))
    return (second, *(_days(int(year), int(m), int(d)) * DAY + second for m, d in orders))


def _number_of(month: re.Match[str]) -> str:
    return str(1 + MONTHS.index(month[0][:3].lower()))


def _days(year: int, month: int, day: int) -> float:
    try:
        return float((date(year + 2000 * (year < 100), month, day) - date(2000, 1, 1)).days)
    except ValueError:
        return np.nan


def which(names: Sequence[str], values: np.ndarray, clocks: Sequence[int] = ()) -> list[int]:
    """Which signals are a time or a counter: clock times, what a name says, the seconds (and so on)
    since 1970, and what rises from each sample to the next, or by one step in nine of ten.

    values: (signal, time), the start is enough.
    """
    found = []
    for i, name in enumerate(names if len(names) > 1 else ()):
        column, lead = values[i], signed(name) is not None
        if i in clocks or (is_time(name) and not lead):
            found.append(i)
            continue
        steps = np.diff(column)
        usual = np.median(steps) if len(steps) > 8 else 0.0
        rises = len(steps) > 8 and bool((steps > 0).all())
        mostly = usual > 0 and np.mean(np.abs(steps - usual) <= 1e-6 * usual) > 0.9
        if (
            (rises and (not lead or len(steps) > 98 or counts(column)))
            or (mostly and not lead)
            or (i == 0 and not name.strip() and counts(column))
        ):
            found.append(i)
    return found


def time_columns(
    names: Sequence[str], values: np.ndarray, record: str, clocks: Sequence[int] = ()
) -> dict[int, float | None]:
    """Which signals are a time or a count of the samples -> Hz, None for a count. BadRecord where
    one is not even.

    values: (signal, time); clocks: those that were clock times and are seconds now.
    """
    found = which(names, values, clocks)
    return {i: rate(values[i], names[i], i in clocks, record) for i in found}


def rate(column: np.ndarray, name: str, clock: bool, record: str) -> float | None:
    """Hz of a column of time, or None where it only counts the samples. BadRecord where it is not
    even: a hole, a jump back, or jitter beyond half a sample.

    column: (time,) seconds where `clock`; else in the unit that its name has, or its size (above
    1e9), or the only one that makes a rate of an ECG.
    """
    if len(column) < 3:
        return None
    count = len(column) - 1
    start = np.asarray(column[:BLOCK], np.float64)
    usual = float(np.median(np.diff(start)))
    if (
        not clock
        and not is_time(name)
        and usual == 1
        and count > 2 * (period := 1 + np.ptp(column))
    ):
        # 0, 1, ..., 15, 0, 1: a counter that begins again
        column = np.cumsum(np.r_[0, np.diff(column) % period])
        start = np.asarray(column[:BLOCK], np.float64)
    if usual == 0 and clock and (coarse := _coarse(column)):
        return coarse
    step, fine = float(column[-1] - column[0]) / count, _resolution(start[:1000])
    for at in range(0, count, BLOCK):
        block = np.asarray(column[at : at + BLOCK + 1], np.float64)
        even = column[0] + step * np.arange(at, at + len(block))
        wrong = ~(np.abs(np.diff(block) - usual) <= max(0.5 * usual, 1.01 * fine * (usual > 0)))
        # times may be cut to their last decimal, but not to one that is longer than a sample
        near = max(0.5 * step + 1e-12, 1.01 * fine * (usual > 0.99 * fine))
        wrong = wrong if wrong.any() else ~(np.abs(block - even) <= near)
        if wrong.any() or not step > 0:
            raise _uneven(column, min(at + int(wrong.argmax()), count - 1), usual, name, record)
    if usual < 1.5 * fine and (lost := _irregular(np.diff(column), usual)) is not None:
        raise _uneven(column, lost, usual, name, record)
    epochs = [unit for low, high, unit in _EPOCHS if low < start[0] < high]
    known = 1.0 if clock else size(name) or (epochs[0] if epochs else None)
    if known is None and abs(usual - 1) < 1e-9:
        return None
    rates = [1 / (step * one) for one in ([known] if known else (1.0, 1e-3, 1e-6, 1e-9))]
    if not known:  # slow ones too: 0.04 may be 25 Hz or 25,000
        rates = [one for one in rates if 1.01 <= one <= FASTEST]
        if not rates and 2e4 < start[0] < 8e4:
            rates = [1 / (step * DAY)]  # days of a spreadsheet
    if len(rates) != 1:
        every = " or ".join(f"{one:g} Hz" for one in rates) or "none makes a rate of an ECG"
        raise BadRecord(
            f"{record}: the unit of its column of time {name!r} is not known ({every}); name it: "
            f"{name} (s)"
        )
    near, error = round(rates[0]), max(2 * fine / (step * count), 1e-6)
    return float(near) if abs(near - rates[0]) <= error * near else rates[0]


def _uneven(column: np.ndarray, i: int, usual: float, name: str, record: str) -> BadRecord:
    return BadRecord(
        f"{record}: its column of time {name!r} is not even: from sample {i + 1} to {i + 2} it "
        f"goes from {column[i]:.13g} to {column[i + 1]:.13g}, where {usual:g} is usual"
    )


def _irregular(steps: np.ndarray, usual: float) -> int | None:
    """The first of the steps that are not the usual one, of times written to about a sample, where
    they are few or do not come at even distances, as those of a rate that does not fit the
    decimals do: a sample is lost, or there twice.
    """
    odd = np.flatnonzero(np.abs(steps - usual) > 0.01 * usual)
    if not len(odd) or (len(odd) > len(steps) / FEW and np.ptp(np.diff(odd)) <= 1):
        return None
    return int(odd[0])


def _coarse(column: np.ndarray) -> float | None:
    """Hz of clock times in whole seconds, of which each has as many samples; None for others."""
    starts = np.flatnonzero(np.diff(column)) + 1
    counts, steps = np.diff(starts), np.diff(column[starts])
    ends = max(starts[0], len(column) - starts[-1]) if len(starts) > 2 else 0
    if not ends or np.ptp(counts) > 1 or np.ptp(steps) > 1e-6 or ends > counts.max():
        return None
    return float(counts.mean() / steps[0]) if steps[0] > 0 else None


def _resolution(times: np.ndarray) -> float:
    """The last decimal that is written."""
    for places in range(9):
        scaled = times * 10.0**places
        if np.allclose(scaled, np.rint(scaled), rtol=0, atol=1e-4):
            return float(10.0**-places)
    return 0.0
