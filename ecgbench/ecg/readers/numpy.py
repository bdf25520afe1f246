"""Files of numpy: one array per file, or many recordings in one array (EchoNext), or named arrays
(.npz), where `fs`, `unit` and `leads` may describe the signal.
"""

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Literal
from zipfile import BadZipFile

import numpy as np

from ecgbench.ecg.readers import cleaned, times
from ecgbench.ecg.readers.arrays import (
    FileFormat,
    at,
    existing_file,
    no_array,
    recording,
    unreadable,
)
from ecgbench.ecg.readers.head import Head
from ecgbench.ecg.readers.notation import ReadOptions, hertz, per_mv, signed
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

DAMAGED = (
    *(OSError, ValueError, EOFError, SyntaxError, TokenError, NotImplementedError, MemoryError),
    *(BadZipFile, zlib.error),
)
"""What numpy raises for bytes that are no array of its own."""
_NAMES = ("leads", "names", "lead_names", "channels", "channel_names", "ch_names", "sig_name")
_RATES = (
    "fs",
    "sampling_rate",
    "sample_rate",
    "samplerate",
    "samplingrate",
    "sampling_frequency",
    "sfreq",
)
_UNITS, _TIMES = ("unit", "units"), ("t", "time", "times", "timestamps")
WORDS = (*_NAMES, *_RATES, *_UNITS, *_TIMES)
"""Arrays of a .npz that say what its signal is."""


def read(
    path: Path, record: str, patient: str, file_format: FileFormat, position: int | None = None
) -> Recording:
    """The recording in a .npy, or in `file_format.variable` of a .npz, in mV; `position` is its row
    where there are many.

    Of a .npy only that row is read from the disk. BadRecord for a file that is missing, damaged or
    holds Python objects (they would run code), an array or a row that is not there.
    """
    try:
        mapped: Literal["r"] | None = None if position is None else "r"
        stored = np.load(existing_file(path, record), mmap_mode=mapped, allow_pickle=False)
        if not isinstance(stored, np.ndarray):
            with stored:
                if file_format.variable not in stored:
                    raise no_array(path, record, file_format, stored)
                stored = stored[file_format.variable]
    except DAMAGED as error:
        raise unreadable(path, record, "an array of numpy", error) from error
    return recording(at(stored, position, path, record), file_format, record, patient)


def alone(path: Path, record: str, patient: str, options: ReadOptions) -> Recording:
    """The standard leads of the one recording in a file, in mV. The array is (lead, time) or (time,
    lead), which follows from the number of its signals.

    BadRecord for a file that is missing, damaged, holds Python objects or more than one signal's
    array; BadSetting where neither the file nor `options` gives rate, unit or names.
    """
    try:
        stored = np.load(existing_file(path, record), allow_pickle=False)
        if isinstance(stored, np.ndarray):
            stored = {"": stored}
        else:
            with stored:
                stored = {name: stored[name] for name in stored}
    except DAMAGED as error:
        raise unreadable(path, record, "an array of numpy", error) from error
    words = {name: stored.pop(name) for name in list(stored) if name.lower() in WORDS}
    if len(stored) != 1:
        named = ", ".join(stored) or "none"
        raise BadRecord(
            f"{record}: {path.name} holds {len(stored)} arrays of signals ({named}), not one"
        )
    array = np.squeeze(next(iter(stored.values())))
    array = array[None] if array.ndim == 1 else array
    own = _texts(words, _NAMES) or None
    if own is None and len(array) == 1 and any(map(signed, stored)):
        own = [*stored]
    count = len(own or options.ordered) or min(array.shape, default=0)
    one_way = array.ndim == 2 and array.shape[0] != array.shape[1] and count in array.shape
    if array.dtype.kind not in "iuf" or not one_way:
        raise BadRecord(
            f"{record}: an array of shape {array.shape} and type {array.dtype} is not (lead, time) "
            f"or (time, lead) of {count} signals in real numbers"
        )
    array = array if array.shape[0] == count else array.T
    names = options.names(own, count, path, record)
    notes: cleaned.Notes = [("names", options.origin(own, names))]
    rates = _rates(words, array.shape[1], record)
    units = _understood(words, _UNITS, per_mv, record)
    units = units * count if len(units) == 1 else units or [None] * count
    if len(units) != count:
        raise BadRecord(f"{record}: {len(units)} units for {count} signals")
    found = times.time_columns(names, array, record)
    rates += [(f"the column of time {names[i]!r}", fs) for i, fs in found.items() if fs]
    rows = [i for i in cleaned.leads_of(names, record, notes) if i not in found]
    scales = np.array([options.scale(units[i], path, record) for i in rows])
    notes.append(("unit", "the file" if all(units) else "--unit"))
    fs = options.rate(rates, path, record)
    notes.append(("rate", rates[0][0] if rates else "--fs"))
    signal = cleaned.marked(array[rows])
    whole = bool((signal == np.rint(signal))[np.isfinite(signal)].all())
    sizes = [*_texts(words, _UNITS), options.unit or ""]
    steps = whole and any(size[:1].isdigit() for size in sizes)
    zeros = Head().zeros_of(steps, signal, [], record)
    if any(zeros):
        notes.append(("offset", f"steps are all above 0: {zeros[0]:g} is taken as 0 mV"))
    signal = (signal - np.array(zeros)[:, None]) / scales[:, None]
    return cleaned.recording(signal, [names[i] for i in rows], fs, (record, patient), notes)


def _texts(words: Mapping[str, np.ndarray], keys: tuple[str, ...]) -> list[str]:
    """What the arrays of some names hold, as texts; of one letter as R or MATLAB write them too."""
    found = [one for key, array in words.items() if key.lower() in keys for one in np.ravel(array)]
    return [
        (one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one)).strip()
        for one in found
    ]


def _understood(
    words: Mapping[str, np.ndarray],
    keys: tuple[str, ...],
    read: Callable[[str], float | None],
    record: str,
) -> list[float | None]:
    """What the arrays of some names say; BadRecord where that is not understood."""
    texts = _texts(words, keys)
    found = [read(text) for text in texts]
    if None in found:
        odd = texts[found.index(None)]
        raise BadRecord(f"{record}: its array {keys[0]!r} says {odd!r}, which is not understood")
    return found


def _rates(words: Mapping[str, np.ndarray], count: int, record: str) -> list[tuple[str, float]]:
    """(source, Hz) of what the arrays of rates and of time say."""
    found = [
        ("the file", fs) for fs in dict.fromkeys(_understood(words, _RATES, hertz, record)) if fs
    ]
    for name, array in words.items():
        if name.lower() not in _TIMES:
            continue
        column = np.ravel(array)
        if len(column) != count or column.dtype.kind not in "iufmM":
            raise BadRecord(
                f"{record}: its array {name!r} has {len(column)} values of {column.dtype} for "
                f"{count} samples"
            )
        clock = column.dtype.kind in "mM"
        if clock:
            column = (column - column[0]) / np.timedelta64(1, "s")
        fs = times.rate(
            np.asarray(column, np.float64), "time (s)" if clock else name, clock, record
        )
        found += [("the column of time", fs)] if fs else []
    return found
