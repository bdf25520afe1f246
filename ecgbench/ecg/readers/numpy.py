"""Files of numpy with one recording: one array (.npy), or a .npz in which `fs`, `unit` and `leads`
may say what the other array is.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from ecgbench.ecg.readers import cleaned, times
from ecgbench.ecg.readers.arrays import DAMAGED, existing_file, unreadable
from ecgbench.ecg.readers.head import Head
from ecgbench.ecg.readers.notation import ReadOptions, hertz, per_mv
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

WORDS = ("fs", "unit", "leads")
"""Arrays of a .npz that say what its signal is."""


def read(path: Path, record: str, patient: str, options: ReadOptions) -> Recording:
    """The standard leads of the one recording in a file, in mV. The array is (lead, time) or (time,
    lead), which follows from the number of its signals.

    BadRecord for a file that is missing, damaged, holds Python objects or more than one signal's
    array; BadSetting where neither the file nor `options` gives rate, unit or names.
    """
    array, said = _stored(path, record)
    own = said["leads"] or None
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
    rates = [("the file", fs) for fs in _understood(said, "fs", hertz, record)]
    units: list[float | None] = [*_understood(said, "unit", per_mv, record)] or [None]
    units = units * count if len(units) == 1 else units
    if len(units) != count:
        raise BadRecord(f"{record}: {len(units)} units for {count} signals")
    found = times.time_columns(names, array, record)
    rates += [(f"the column of time {names[i]!r}", fs) for i, fs in found.items() if fs]
    rows = [i for i in cleaned.leads_of(names, record, notes) if i not in found]
    scales = np.array([options.scale(units[i], path, record) for i in rows])
    fs = options.rate(rates, path, record)
    notes += [("unit", "the file" if all(units) else "--unit")]
    notes += [("rate", rates[0][0] if rates else "--fs")]
    signal = cleaned.marked(array[rows])
    whole = bool((signal == np.rint(signal))[np.isfinite(signal)].all())
    steps = whole and any(size[:1].isdigit() for size in [*said["unit"], options.unit or ""])
    zeros = Head().zeros_of(steps, signal, [], record)
    if any(zeros):
        notes.append(("offset", f"steps are all above 0: {zeros[0]:g} is taken as 0 mV"))
    signal = (signal - np.array(zeros)[:, None]) / scales[:, None]
    return cleaned.recording(signal, [names[i] for i in rows], fs, (record, patient), notes)


def _stored(path: Path, record: str) -> tuple[np.ndarray, dict[str, list[str]]]:
    """The array of signals, and what WORDS say, as texts."""
    try:
        stored = np.load(existing_file(path, record), allow_pickle=False)
        if isinstance(stored, np.ndarray):
            every = {"": stored}
        else:
            with stored:
                every = {name: stored[name] for name in stored}
    except DAMAGED as error:
        raise unreadable(path, record, "an array of numpy", error) from error
    said = {word: _texts(every.pop(word, np.zeros(0))) for word in WORDS}
    if len(every) != 1:
        raise BadRecord(
            f"{record}: {path.name} holds {len(every)} arrays ({', '.join(every) or 'none'}) "
            f"beside fs, unit and leads, where its signals are to be one; save it again"
        )
    array = np.squeeze(next(iter(every.values())))
    return array[None] if array.ndim == 1 else array, said


def _texts(array: np.ndarray) -> list[str]:
    return [
        (one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one)).strip()
        for one in np.ravel(array)
    ]


def _understood(
    said: Mapping[str, list[str]], word: str, read: Callable[[str], float | None], record: str
) -> list[float]:
    """The numbers that a word says; BadRecord where one is not understood."""
    found = []
    for text in said[word]:
        if (value := read(text)) is None:
            raise BadRecord(f"{record}: its array {word!r} says {text!r}, which is not understood")
        found.append(value)
    return found
