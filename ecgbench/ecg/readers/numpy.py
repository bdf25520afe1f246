"""numpy's own files: one array per file, or many recordings in one array (EchoNext), or arrays by
name (.npz), of which `fs`, `unit` and `leads` may say what the signal is.
"""

import zlib
from pathlib import Path
from tokenize import TokenError
from zipfile import BadZipFile

import numpy as np

from ecgbench.ecg.readers.layout import Layout, at, lacking, recording, refused, there
from ecgbench.ecg.readers.said import Said, hertz, per_mv
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

DAMAGED = (
    *(OSError, ValueError, EOFError, SyntaxError, TokenError, NotImplementedError, MemoryError),
    *(BadZipFile, zlib.error),
)
"""What numpy raises for bytes that are no array of its own."""
WORDS = ("leads", "names", "fs", "unit")
"""Arrays of a .npz that say what its signal is."""


def read(
    path: Path, record: str, patient: str, layout: Layout, position: int | None = None
) -> Recording:
    """The recording in a .npy, or in `layout.variable` of a .npz, in mV; `position` is its row
    where there are many.

    Of a .npy only that row is read from the disk. BadRecord for a file that is missing, damaged or
    holds Python objects (they would run code), an array or a row that is not there.
    """
    try:
        stored = np.load(there(path, record), mmap_mode="r", allow_pickle=False)
        if not isinstance(stored, np.ndarray):
            with stored:
                if layout.variable not in stored:
                    raise lacking(path, record, layout, stored)
                stored = stored[layout.variable]
    except DAMAGED as error:
        raise refused(path, record, "an array of numpy", error) from error
    return recording(at(stored, position, path, record), layout, record, patient)


def alone(path: Path, record: str, patient: str, said: Said) -> Recording:
    """The standard leads of the one recording in a file, in mV: (lead, time) or (time, lead), as
    the number of its signals tells.

    BadRecord for a file that is missing, damaged, holds Python objects or more than one signal's
    array; BadSetting where neither the file nor `said` gives rate, unit or names.
    """
    try:
        stored = np.load(there(path, record), allow_pickle=False)
        if isinstance(stored, np.ndarray):
            stored = {"": stored}
        else:
            with stored:
                stored = {name: stored[name] for name in stored}
    except DAMAGED as error:
        raise refused(path, record, "an array of numpy", error) from error
    words = {name: stored.pop(name) for name in list(stored) if name in WORDS}
    if len(stored) != 1:
        named = ", ".join(stored) or "none"
        raise BadRecord(
            f"{record}: {path.name} holds {len(stored)} arrays of signals ({named}), not one"
        )
    array = np.squeeze(next(iter(stored.values())))
    array = array[None] if array.ndim == 1 else array
    own = [str(name) for key in WORDS[:2] for name in np.ravel(words.get(key, []))] or None
    fs, unit = ("".join(map(str, np.ravel(words.get(key, []))[:1])) for key in WORDS[2:])
    count = len(own or said.signals) or min(array.shape, default=0)
    names = said.names(own, count, path)
    if array.ndim == 2 and array.shape[0] == array.shape[1]:
        raise BadRecord(f"{record}: an array of shape {array.shape} does not tell its leads")
    layout = Layout(
        leads=names,
        fs=said.rate(hertz(fs), path),
        per_mv=said.scale(per_mv(unit), path),
        leads_first=array.shape[0] == count,
    )
    return recording(array, layout, record, patient)
