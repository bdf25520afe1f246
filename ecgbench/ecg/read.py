"""Reads native files into recordings, and refuses with a precise reason whatever does not agree with itself.

The `wfdb` package decodes; what it does not test is tested here: the size of the signal file, and the checksum in each
signal line of the header (without it, a web page saved under the name of a .dat of the right size reads as an ECG).
"""

from pathlib import Path
from typing import Any

import numpy as np

from ecgbench.ecg.leads import canonical
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, UnknownName

PER_MV = dict.fromkeys(("mV", "mv", "millivolt", "millivolts"), 1.0) | dict.fromkeys(("uV", "uv", "microvolt", "microvolts"), 1000.0)
"""Spellings of a header's unit -> how many of it make 1 mV."""

BYTES, MISSING = 2, -(2**15)
"""Of WFDB signal format 16: bytes per sample, and the value that stands for "no sample"."""


def read_wfdb(path: Path, record: str, patient: str, expected_fs: float | None = None, expected_gain: float | None = None) -> Recording:
    """The recording whose header is `path` + ".hea", in mV, leads in the order of the file.

    expected_fs in Hz and expected_gain in digital steps per mV: what the dataset publishes; another value is refused.
    BadRecord for a missing, empty or truncated file, a header that wfdb refuses or that disagrees with its signal in
    length or checksum, samples marked missing (NaN), unknown units or leads, a wrong rate or gain.
    """
    import wfdb

    header = _header(wfdb, path, record)
    if expected_fs is not None and header.fs != expected_fs:
        raise BadRecord(f"{record}: sampling rate {header.fs:g} Hz, expected {expected_fs:g} Hz")
    leads = _leads(header, record)
    gain = _gain(header, record, expected_gain)
    _check_files(header, path.parent, record)
    try:
        digital = wfdb.rdrecord(str(path), physical=False).d_signal
    except Exception as error:
        raise BadRecord(f"{record}: wfdb cannot read the signal ({_one_line(error)})") from error
    _check_samples(header, digital, record)
    signal = ((digital - np.asarray(header.baseline)) / gain).T.astype(np.float32)
    return Recording(signal=signal, unit="mV", leads=leads, fs=float(header.fs), record=record, patient=patient)


def _header(wfdb: Any, path: Path, record: str) -> Any:
    """The parsed header (wfdb.Record) of a single-segment record whose fields are complete."""
    file = path.with_name(path.name + ".hea")
    if not file.is_file():
        raise BadRecord(f"{record}: {file.name} is missing")
    if not file.stat().st_size:
        raise BadRecord(f"{record}: {file.name} is empty")
    try:
        header = wfdb.rdheader(str(path))
    except Exception as error:  # wfdb raises whatever its parsing runs into
        raise BadRecord(f"{record}: wfdb refuses {file.name} ({_one_line(error)})") from error
    stated = len(getattr(header, "sig_name", None) or ())
    if isinstance(header, wfdb.MultiRecord) or not stated or stated != header.n_sig:
        raise BadRecord(f"{record}: {file.name} states {header.n_sig} signals and describes {stated}")
    if not header.sig_len or not header.fs:
        raise BadRecord(f"{record}: {file.name} does not state the length of the signal and its rate")
    if set(header.fmt) != {"16"} or set(header.samps_per_frame) != {1}:
        raise BadRecord(f"{record}: signal format {', '.join(sorted(set(header.fmt)))}; only format 16 at one rate is read")
    return header


def _leads(header: Any, record: str) -> tuple[str, ...]:
    try:
        return tuple(canonical(str(n)) for n in header.sig_name)
    except UnknownName as error:
        raise BadRecord(f"{record}: {error}") from None


def _gain(header: Any, record: str, expected: float | None) -> np.ndarray:
    """(lead,) digital steps per mV."""
    unknown = sorted({str(u) for u in header.units if u not in PER_MV})
    if unknown:
        raise BadRecord(f"{record}: unit {', '.join(map(repr, unknown))} is neither mV nor uV")
    gain = np.array([g * PER_MV[u] for g, u in zip(header.adc_gain, header.units)], np.float64)
    if expected is not None and (gain != expected).any():
        raise BadRecord(f"{record}: gain {gain[gain != expected][0]:g} per mV, expected {expected:g} per mV")
    return gain


def _check_files(header: Any, folder: Path, record: str) -> None:
    """Each signal file has the very size that the header implies."""
    for name in dict.fromkeys(header.file_name):
        file, signals = folder / name, [i for i, f in enumerate(header.file_name) if f == name]
        if not file.is_file():
            raise BadRecord(f"{record}: {name} is missing")
        size = file.stat().st_size
        wanted = (header.byte_offset[signals[0]] or 0) + len(signals) * header.sig_len * BYTES
        if not size:
            raise BadRecord(f"{record}: {name} is empty")
        if size < wanted:
            raise BadRecord(f"{record}: {name} is truncated: {size} bytes of the {wanted} that its header implies")
        if size > wanted:
            raise BadRecord(f"{record}: the header states {header.sig_len} samples ({wanted} bytes), but {name} has {size} bytes")


def _check_samples(header: Any, digital: np.ndarray, record: str) -> None:
    """Shape, checksums (16-bit sums, compared modulo 65536) and missing values of (time, lead) digital samples."""
    if digital.shape != (header.sig_len, header.n_sig):
        raise BadRecord(f"{record}: signal of shape {digital.shape}, the header states {header.sig_len} x {header.n_sig}")
    sums = digital.sum(axis=0, dtype=np.int64)
    for lead, stated, found in zip(header.sig_name, header.checksum, sums):
        # the format allows a signal line without one
        if stated is not None and (int(stated) - int(found)) % 65536:
            raise BadRecord(
                f"{record}: checksum of lead {lead} is {int(stated) % 65536} in the header and {found % 65536} in the samples; "
                "the signal file is not the one that was described"
            )
    holes = int((digital == MISSING).sum())
    if holes:
        raise BadRecord(f"{record}: {holes} samples are NaN (marked as missing in the file)")


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
