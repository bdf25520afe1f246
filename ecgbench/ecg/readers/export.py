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

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.ecg.readers import cleaned, head, layout, times
from ecgbench.ecg.readers.arrays import existing_file, unreadable
from ecgbench.ecg.readers.cleaned import Notes
from ecgbench.ecg.readers.notation import ReadOptions, generated, per_mv, signed
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

FAR = 10.0
"""How many times larger than all others the first number of each lead may be."""


def read(path: Path, record: str, patient: str, options: ReadOptions) -> Recording:
    """The standard leads of the recording in a table, in mV.

    BadRecord for a file that is missing or holds no table of numbers, for missing samples, an
    uneven column of time, and for statements that contradict one another or `options`. BadSetting
    where neither the file nor `options` gives rate, unit or names.
    """
    try:
        return _read(existing_file(path, record), (record, patient), options)
    except (ValueError, UnicodeError, csv.Error) as error:  # pandas' errors are ValueErrors
        if grouped := re.search(r"'([-+]?\d{1,3}([., ]\d{3})+([.,]\d+)?)'$", str(error)):
            raise BadRecord(
                f"{record}: {path.name} has numbers such as {grouped[1]!r}; write them without "
                f"separators of thousands"
            ) from error
        raise unreadable(path, record, "a table of numbers", error) from error


def _read(path: Path, whose: tuple[str, str], options: ReadOptions) -> Recording:
    record, encoding = whose[0], layout.encoding_of(path)
    options = replace(options, signals=tuple(map(layout.without_unit, options.signals)))
    table = layout.layout_of(path, encoding, options, record)
    said = table.head
    said.demand_agreement(options, record)
    chunks = _chunks(path, encoding, table, _others(table.names, options) | table.dropped)
    first = next(chunks)
    columns, timed, signals = _kinds(table, first, options)
    stated = _named(columns, signals, said, options, record)
    notes: Notes = [("head line", line) for line in (*said.unclear, *said.others)]
    if stated and options.ordered and not (any(map(signed, stated)) or generated(stated)):
        notes.append(("renamed", " ".join(stated).strip()))
    names = options.names(stated, len(signals), path, record)
    given = stated if columns == table.names and not generated(stated or "") else None
    notes.append(("names", options.origin(given, names)))
    rows = cleaned.leads_of(names, record, notes)
    notes += [("ignored signal", f"{n}, which rises") for i in timed if signed(n := columns[i])]
    leads = [signals[i] for i in rows]
    most = np.nanmax(np.abs(first[1:, leads]), axis=0, initial=0.0)
    if len(first) > 2 and (np.abs(first[0, leads]) > FAR * most).all():
        raise BadRecord(
            f"{record}: its first line of numbers is far from all others; take it out if it is no "
            f"sample"
        )
    samples = first[:, leads][np.isfinite(first[:, leads])]
    whole = bool((samples == np.rint(samples)).all())
    bits = [table.bits.get(columns[i]) for i in leads]
    if whole and any(bits):
        said.raw = f"a converter of {max(filter(None, bits))} bits"
    own = [table.units[i] for i in leads]
    alone = not all(map(per_mv, own)) or any(per_mv(x) == n for x in own for _, n in said.units)
    units = [said.scale(whole, one, alone, options, record) for one in own]
    scales = [options.scale(one and one[1], path, record, said.about("unit")) for one in units]
    if not timed:
        options.rate(said.rates, path, record, seen=said.about("rate"))  # before all is read
    values, clock = _filled(
        chain([first], chunks), leads, timed, path.stat().st_size / table.line_bytes
    )
    named = [(layout.with_unit(columns[i], table.units[i]), i in table.clocks) for i in timed]
    rates = said.rates + _rates(clock, named, notes, record)
    del clock
    fs = options.rate(rates, path, record, seen=said.about("rate"))
    source = "the file" if said.rates else "the column of time" if rates else "--fs"
    notes += [("unit", "the file" if all(units) else "--unit"), ("rate", source)]
    values, chosen = cleaned.marked(values, in_place=True), [names[i] for i in rows]
    steps = whole and (bool(said.gains) or said.are_steps(own, options))
    zeros = said.zeros_of(steps, values, bits, record)
    if any(zeros) and not any(bits):
        notes.append(("offset", f"steps are all above 0: {zeros[0]:g} is taken as 0 mV"))
    for row, zero, scale in zip(values, zeros, scales):
        row -= zero
        row /= scale
    return cleaned.recording(values, chosen, fs, whose, notes)


def _rates(
    clock: np.ndarray, named: Sequence[tuple[str, bool]], notes: Notes, record: str
) -> list[tuple[str, float]]:
    """(where it stands, Hz) of columns of time. BadRecord where one is uneven; beside another
    column of time it is a temperature, or when a packet came.

    clock: (column, time); named: of each its name, and whether it holds clock times.
    """
    found, uneven = list[tuple[str, float]](), list[tuple[str, BadRecord]]()
    for column, (name, is_clock) in zip(clock, named, strict=True):
        try:
            rate = times.rate(column, name, is_clock, record)
            found += [(f"the column of time {name!r}", rate)] if rate else []
        except BadRecord as odd:
            uneven.append((name, odd))
    for name, error in uneven:
        if not found or not times.is_time(name):
            raise error
        notes.append(("ignored signal", f"{name}, which is no even time"))
    return found


def _kinds(
    table: layout.Table, first: np.ndarray, options: ReadOptions
) -> tuple[list[str], list[int], list[int]]:
    """Names of the columns by `options`, which of them are times or counters, and which signals."""
    typed = options.typed
    free = [i for i in range(len(table.names)) if i not in table.dropped]
    names, own = [*table.names], [table.names[i] for i in free]
    if len(options.ordered) == len(free) and (generated(own) or not any(own)):
        for i, name in zip(free, options.ordered):
            names[i] = name
    each = [typed.get(names[i], layout.with_unit(names[i], table.units[i])) for i in free]
    clocks = [free.index(i) for i in table.clocks if i in free]
    timed = [free[i] for i in times.which(each, first[:, free].T, clocks)]
    signals = [i for i in free if i not in timed]
    wanted = len(options.ordered) or len(table.head.leads)
    if not any(table.names) and wanted:
        spare = min(table.empty, max(0, len(signals) - wanted))
        signals = signals[: len(signals) - spare]
    return names if timed else table.names, timed, signals


def _named(
    names: list[str], signals: list[int], said: head.Head, options: ReadOptions, record: str
) -> list[str] | None:
    """Names of the signals, from the lines on leads where no column names one. BadRecord where
    names of columns, or `--signals` NAME=LEAD, differ from these lines.
    """
    own, leads = [names[i] for i in signals], said.leads
    leads = [*dict.fromkeys(filter(signed, leads))] or leads
    if len(leads) != len(own) or not any(map(signed, leads)):
        said.others.extend(leads)
        return own if any(own) else None
    pairs = [(signed(options.typed.get(name, name)), signed(x)) for name, x in zip(own, leads)]
    if any(one and one != other for one, other in pairs):
        raise BadRecord(
            f"{record}: its signals are {', '.join(leads)} by its head and {', '.join(own)} by the "
            f"names of its columns or --signals; correct the one that is wrong"
        )
    return own if any(map(signed, own)) else leads


def _filled(
    chunks: Iterator[np.ndarray], leads: list[int], timed: list[int], expected: float
) -> tuple[np.ndarray, np.ndarray]:
    """(lead, time) of samples, of a long recording as float32 unless its numbers are too long,
    and (column, time) float64 of times; without empty lines at the end. expected: about how many.
    """
    first = next(chunks)
    largest = np.abs(first[:, leads][np.isfinite(first[:, leads])]).max(initial=0.0)
    small = largest < 2**24 and expected * len(leads) > cleaned.LONG
    kinds = [(leads, np.float32 if small else np.float64), (timed, np.float64)]
    out = [
        np.empty((len(columns), int(expected * 1.05) + layout.CHUNK), kind)
        for columns, kind in kinds
    ]
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


def _others(names: list[str], options: ReadOptions) -> set[int]:
    """Columns whose names are neither leads nor times, where others' are: they may hold words."""
    known = [bool(signed(name) or name in options.typed) for name in names]
    if not any(known) or generated(names):
        return set()
    return {i for i, n in enumerate(names) if n and not (known[i] or times.is_time(n))}


def _chunks(
    path: Path, encoding: str, table: layout.Table, others: set[int]
) -> Iterator[np.ndarray]:
    """(time, column) float64 of the samples; clock times are seconds, words in others are NaN."""
    count, last = len(table.names), dict.fromkeys(table.clocks, -np.inf)
    texts = {*table.clocks, *(day for day in table.clocks.values() if day is not None)}
    with open(path, encoding=encoding, errors="replace") as file:
        for _ in range(table.skipped):
            file.readline()
        kinds = {i: "str" if i in texts | others else "float64" for i in range(count)}
        for frame in pd.read_csv(file, names=[*range(count)], dtype=kinds, **table.layout):
            if not isinstance(frame.index, pd.RangeIndex):
                raise ValueError("it has lines with more values than its first ones")
            values = np.zeros((len(frame), count))
            for i in {*range(count)} - texts:
                values[:, i] = pd.to_numeric(frame[i], "coerce" if i in others else "raise")
            for i, day in table.clocks.items():
                clock = times.seconds(frame[i], None if day is None else frame[day])
                nights = max(0.0, np.ceil((last[i] - clock[0]) / times.DAY - 0.5))
                values[:, i] = clock + nights * times.DAY
                last[i] = values[-1, i]
            yield values
