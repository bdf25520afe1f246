"""Files without a header, as collections publish them: what their format leaves open, and how their
arrays become recordings. numpy reads .npy and .npz (EchoNext), `h5py` HDF5 (SPH, CODE-15%).
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ecgbench.core.text import one_line
from ecgbench.ecg.leads import LOOSE
from ecgbench.ecg.recording import Recording
from ecgbench.ecg.repair import Repair
from ecgbench.errors import BadRecord

DAMAGED = (
    *(OSError, ValueError, EOFError, SyntaxError, TokenError, NotImplementedError, MemoryError),
    *(BadZipFile, zlib.error, RuntimeError, TypeError),
)
"""What numpy and h5py raise for bytes that are no array of theirs."""
MISSING = -(2**15)
"""The value that stands for "no sample" where samples are 16-bit integers, as in WFDB."""


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """What the files of one dataset have in common and do not say themselves."""

    leads: tuple[str, ...] | None
    """Names of the signals in the order of the file; None where the file names them itself (the
    first line of a CSV).
    """
    fs: float
    """Sampling rate, Hz."""
    per_mv: float | None
    """How many of the file's units make 1 mV: 1000 for uV; None where it holds no millivolts, but
    standardised values.
    """
    leads_first: bool = True
    """Whether the array is (lead, time); else it is (time, lead)."""
    variable: str = ""
    """Name of the array where a file holds several: `tracings`."""
    repair: Repair | None = None
    """Of the dataset's card."""


def numpy(
    path: Path, record: str, patient: str, file_format: FileFormat, position: int | None = None
) -> Recording:
    """The recording in a .npy, or in `file_format.variable` of a .npz, in mV; `position` is its row
    where there are many.

    Of a .npy only that row is read from the disk. BadRecord for a file that is missing, damaged or
    holds Python objects (they would run code), an array or a row that is not there.
    """
    file = existing_file(path, record)
    try:
        stored = np.load(file, mmap_mode=None if position is None else "r", allow_pickle=False)
        if isinstance(stored, np.ndarray):
            array = _at(stored, position, path, record)
        else:
            with stored:
                array = _at(stored.get(file_format.variable), position, path, record)
    except DAMAGED as error:
        raise unreadable(path, record, "an array of numpy", error) from error
    return recording(array, file_format, record, patient)


def hdf5(
    path: Path, record: str, patient: str, file_format: FileFormat, position: int | None = None
) -> Recording:
    """The same of the dataset `file_format.variable` of an HDF5 file."""
    import h5py

    existing_file(path, record)
    try:
        with h5py.File(path, "r") as file:
            array = _at(file.get(file_format.variable), position, path, record)
    except DAMAGED as error:
        raise unreadable(path, record, "HDF5", error) from error
    return recording(array, file_format, record, patient)


def _at(stored: Any, position: int | None, path: Path, record: str) -> np.ndarray:
    """The whole array of a file, or one recording of many."""
    if not hasattr(stored, "shape"):
        raise BadRecord(f"{record}: {path.name} does not hold the array of its layout")
    if position is not None and not 0 <= position < len(stored):
        raise BadRecord(
            f"{record}: {path.name} holds {len(stored)} recordings, none at position {position}"
        )
    return np.asarray(stored[()] if position is None else stored[position])


def standard(names: Sequence[str], record: str) -> list[int]:
    """Which of the signals with these names are standard leads, in their order; BadRecord where
    none is.
    """
    rows = [i for i, name in enumerate(names) if name.strip().lower() in LOOSE]
    if not rows:
        raise BadRecord(
            f"{record}: none of its signals is a standard lead: "
            f"{', '.join(map(repr, names)) or 'there are none'}"
        )
    return rows


def recording(array: np.ndarray, file_format: FileFormat, record: str, patient: str) -> Recording:
    """The leads among the signals of `array`, in mV.

    array: two axes as `file_format` says; axes of length 1 before them do not count. BadRecord for
    another shape, samples that are marked as missing or are not numbers, a lead that is there
    twice.
    """
    names = file_format.leads or ()
    if array.ndim > 2 and array.size == np.prod(array.shape[-2:]):
        array = array.reshape(array.shape[-2:])
    if array.ndim == 2 and not file_format.leads_first:
        array = array.T
    if array.ndim != 2 or len(array) != len(names):
        order = "(lead, time)" if file_format.leads_first else "(time, lead), here turned"
        raise BadRecord(
            f"{record}: an array of shape {array.shape} for {len(names)} signals {order}"
        )
    if array.dtype.kind not in "iuf":
        raise BadRecord(f"{record}: an array of {array.dtype}, not of real numbers")
    rows = standard(names, record)
    signal = array if len(rows) == len(array) else array[rows]
    repaired: tuple[tuple[str, str], ...] = ()
    exact = signal.astype(np.float64) / (file_format.per_mv or 1.0)
    if file_format.repair is not None:
        exact[without_sample(signal)] = np.nan
        exact, repaired = file_format.repair(exact, file_format.fs, record)
    elif signal.dtype == np.int16:
        demand_samples(signal, record)
    return Recording(
        signal=exact.astype(np.float32),
        unit="mV" if file_format.per_mv else "standardised",
        leads=tuple(names[i] for i in rows),
        fs=file_format.fs,
        record=record,
        patient=patient,
        repaired=repaired,
    )


def without_sample(signal: np.ndarray) -> np.ndarray:
    """Where samples are marked as missing: NaN, and MISSING among 16-bit integers."""
    return np.asarray(signal == MISSING if signal.dtype == np.int16 else np.isnan(signal))


def demand_samples(signal: np.ndarray, record: str) -> None:
    """BadRecord where samples are marked as missing."""
    if (missing := without_sample(signal)).any():
        raise BadRecord(
            f"{record}: {missing.sum()} samples are NaN (marked as missing in the file)"
        )


def existing_file(path: Path, record: str) -> Path:
    """A file that is there and not empty; else BadRecord."""
    if not path.is_file():
        raise BadRecord(f"{record}: {path.name} is missing")
    if not path.stat().st_size:
        raise BadRecord(f"{record}: {path.name} is empty")
    return path


def unreadable(path: Path, record: str, kind: str, error: Exception) -> BadRecord:
    """The error of a file that its format's library cannot read, which may raise anything."""
    return BadRecord(f"{record}: {path.name} cannot be read as {kind} ({one_line(error)})")
