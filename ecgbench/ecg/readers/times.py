"""Columns that are no voltage: time, clock times and counters; the rate that time shows."""

import re
from collections.abc import Sequence

import numpy as np

from ecgbench.ecg.readers.notation import signed
from ecgbench.errors import BadRecord

FASTEST = 40_000.0
"""Hz; no ECG is sampled faster, so that a time that steps by 0.01 is in seconds."""

NAMED = re.compile(
    r"(time|times|timestamps?|zeit|temps|tiempo|elapsed|t|secs?|seconds?|sekunden|millis|"
    r"milliseconds?|ms|date ?time|clock|date)(?: (.*))?"
)
_STAMP = re.compile(
    r"^(\s*[\"']?)(?:(?P<y>\d{4})[-/.](?P<m>\d\d?)[-/.](?P<d>\d\d?)[T \t]+|"
    r"\d\d?[-/.]\d\d?[-/.](?:\d{4}|\d\d)[T \t]+)?"
    r"(?P<h>\d\d?):(?P<min>\d\d)(?::(?P<s>\d\d))?(?:\.(?P<f>\d+)|,(?P<g>\d+)(?=[;\s]))?"
    r"(?:Z|\s?[-+]\d\d:?\d\d)?([\"']?)(?=[\s,;]|$)"
)
DAY = 86_400


def unstamped(line: str) -> str:
    """A line whose first field is a clock time, with seconds of the day in its place.

    >>> unstamped("2024-05-01 08:00:00.004;0.12"), unstamped("'1:02.5',3"), unstamped("0.1;0.2")
    ('28800.004;0.12', '62.5,3', '0.1;0.2')
    """
    found = _STAMP.match(line)
    if not found:
        return line
    parts, fraction = [int(found["h"]), int(found["min"])], found["f"] or found["g"]
    if found["s"] or not fraction:  # else minutes and seconds
        parts.append(int(found["s"] or 0))
    whole = sum(part * 60**power for power, part in enumerate(reversed(parts)))
    return f"{whole}.{fraction or 0}{line[found.end() :]}"


def is_time(name: str) -> bool:
    """Whether a column's name is one of time."""
    plain = re.sub(r"[\s_(\[)\]]+", " ", name).strip().lower()
    found = NAMED.fullmatch(plain)
    return bool(found) and (not found[2] or found[2].strip() in _WORDS)  # type: ignore[index]


_SIZES = dict.fromkeys(("s", "sec", "secs", "second", "seconds", "sekunden"), 1.0)
_SIZES |= dict.fromkeys(("ms", "msec", "millis", "millisecond", "milliseconds"), 1e-3)
_SIZES |= dict.fromkeys(("us", "usec", "micros", "microsecond", "microseconds"), 1e-6)
_SIZES |= dict.fromkeys(("ns", "nsec", "nanos", "nanosecond", "nanoseconds"), 1e-9)
_SIZES |= {"min": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0}
"""Units of time -> seconds."""
_WORDS = {*_SIZES, "µs", "index", "utc", "stamp", "axis", "stamps", "hh:mm:ss"}


def counts(column: np.ndarray) -> bool:
    """Whether a column rises by the same step from sample to sample, as no voltage does."""
    steps = np.diff(column)
    return bool(len(steps) > 4 and steps[0] > 0 and np.allclose(steps, steps[0], 1e-6, 1e-9))


def size(name: str) -> float | None:
    """Seconds of the unit at the end of a column's name, None where it has none.

    >>> size("Time (ms)"), size("time/s"), size("seconds"), size("seq")
    (0.001, 1.0, 1.0, None)
    """
    plain = name.strip().lower().replace("µ", "u").replace("μ", "u")
    return _SIZES.get(re.sub(r"^.*?[\s_(\[/](?=[a-z]+[)\]]?$)", "", plain).strip("()[]"))


def time_columns(
    names: Sequence[str], values: np.ndarray, record: str, clock: bool = False
) -> dict[int, float | None]:
    """Which signals are a time or a count of the samples -> Hz, None for a count. What rises from
    each sample to the next is one, whatever its name. BadRecord where one is not even.

    values: (signal, time); clock: whether the first is a clock time.
    """
    found: dict[int, float | None] = {}
    for i, name in enumerate(names if len(names) > 1 else ()):
        column, first = values[i], i == 0 and not name.strip()
        timed = (clock and i == 0) or (is_time(name) and signed(name) is None)
        rises = bool(len(column) > 9 and (np.diff(column) > 0).all())
        even = counts(column)
        if (
            timed
            or (rises and (even or signed(name) is None or len(column) > 99))
            or (first and even)
        ):
            found[i] = rate(column, name, clock and i == 0, record)
    return found


def rate(column: np.ndarray, name: str, clock: bool, record: str) -> float | None:
    """Hz of a column of time, or None where it only counts the samples. BadRecord where it is not
    even: gaps, or jitter beyond half a sample.

    column: (time,) seconds where `clock`; else in the unit that its name has, or the only one that
    makes a rate of an ECG.
    """
    times = np.unwrap(column, period=DAY) if clock else column
    if len(times) < 3:
        return None
    count, steps = len(times) - 1, np.diff(times)
    usual = float(np.median(steps))
    step = float(times[-1] - times[0]) / count
    fine = _resolution(times)
    unsure = ~(np.abs(steps - usual) <= np.maximum(0.5 * usual, 1.01 * fine))
    off = ~(np.abs(times - times[0] - step * np.arange(len(times))) <= 0.5 * step + 1e-12)
    if unsure.any() or off.any() or not step > 0:
        at = int((unsure if unsure.any() else off).argmax())
        raise BadRecord(
            f"{record}: its column of time {name!r} is not even: from sample {at + 1} to "
            f"{at + 2} it goes from {times[at]:.10g} to {times[min(at + 1, count)]:.10g}, "
            f"where {usual:g} is usual"
        )
    known = 1.0 if clock else size(name)
    if known is None and abs(usual - 1) < 1e-9:
        return None
    rates = [1 / (step * one) for one in ([known] if known else (1.0, 1e-3, 1e-6, 1e-9))]
    if not known:  # slow ones too: 0.04 may be 25 Hz or 25,000
        rates = [one for one in rates if 1.01 <= one <= FASTEST]
    if len(rates) != 1:
        every = " or ".join(f"{one:g} Hz" for one in rates) or "none makes a rate of an ECG"
        raise BadRecord(
            f"{record}: the unit of its column of time {name!r} is not known ({every}); name it: "
            f"{name} (s)"
        )
    near, error = round(rates[0]), max(2 * fine / (step * count), 1e-6)
    return float(near) if abs(near - rates[0]) <= error * near else rates[0]


def _resolution(times: np.ndarray) -> float:
    """The last decimal that is written."""
    for places in range(9):
        scaled = times * 10.0**places
        if np.allclose(scaled, np.rint(scaled), rtol=0, atol=1e-4):
            return float(10.0**-places)
    return 0.0
