"""Columns that are no voltage: time, clock times and counters; the rate that time shows."""

import re

import numpy as np

from ecgbench.ecg.readers.said import LOWEST
from ecgbench.errors import BadRecord

FASTEST = 40_000.0
"""Hz; no ECG is sampled faster, so that a time that steps by 0.01 is in seconds."""

NAMED = re.compile(
    r"(time|times|timestamps?|zeit|temps|tiempo|elapsed|t|secs?|seconds?|sekunden|millis|"
    r"milliseconds?|ms|date ?time|clock|date)(?: (.*))?"
)
COUNTERS = re.compile(
    r"|index|idx|i|n|no|nr|row|samples? ?(no|number|nr|index|#)?|#|counter|unnamed.*"
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


_WORDS = {"s", "ms", "us", "µs", "sec", "seconds", "milliseconds", "msec", "index", "utc", "stamp"}
_WORDS |= {"axis", "stamps", "microseconds", "hh:mm:ss"}


def counts(column: np.ndarray) -> bool:
    """Whether a column rises by the same step from sample to sample, as no voltage does."""
    steps = np.diff(column)
    return bool(len(steps) > 4 and steps[0] > 0 and np.allclose(steps, steps[0], 1e-6, 1e-9))


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
        place = int((unsure if unsure.any() else off).argmax())
        raise BadRecord(
            f"{record}: its column of time {name!r} is not even: from sample {place + 1} to "
            f"{place + 2} it goes from {times[place]:.10g} to {times[min(place + 1, count)]:.10g}, "
            f"where {usual:g} is usual"
        )
    unit = re.sub(r"^.*?[\s_(\[](?=[a-zµμ]+[)\]]?$)", "", name.strip().lower()).strip(")]")
    if unit in ("ms", "millis", "milliseconds", "msec", "millisecond"):
        sizes = [1e-3]
    elif unit in ("us", "µs", "μs", "microseconds"):
        sizes = [1e-6]
    elif clock or unit in ("s", "sec", "secs", "seconds", "sekunden"):
        sizes = [1.0]
    elif abs(usual - 1) < 1e-9:
        return None
    else:
        sizes = [1.0, 1e-3, 1e-6]
    rates = [1 / (step * size) for size in sizes]
    if len(rates) > 1:
        rates = [one for one in rates if LOWEST <= one <= FASTEST] or rates[:1]
    if len(rates) > 1:
        raise BadRecord(
            f"{record}: the unit of its column of time {name!r} is not known "
            f"({' or '.join(f'{one:g}' for one in rates)} Hz); name it: {name} (s)"
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
