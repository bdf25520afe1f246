"""WFDB: what a header says of its signals, and a refusal with a precise reason of whatever does not
agree with itself.

The `wfdb` package reads the header. The samples, mostly 16-bit numbers in a row, are read here: the
package would parse the header a second time for them, which takes longer than all else. What it
does not test is tested here: the size of the signal file, and the checksum in each signal line of
the header (without it, a web page saved under the name of a .dat of the right size reads as an
ECG).
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np

from ecgbench.core.files import decoded
from ecgbench.core.text import one_line
from ecgbench.ecg.readers import cleaned
from ecgbench.ecg.readers.arrays import MISSING, demand_samples, existing_file, standard
from ecgbench.ecg.readers.cleaned import Notes
from ecgbench.ecg.readers.notation import voltage
from ecgbench.ecg.recording import Recording
from ecgbench.ecg.repair import Repair
from ecgbench.errors import BadRecord

THROUGH_WFDB = {"310": -(2**9), "311": -(2**9), "508": -(2**7), "516": -(2**15)}
THROUGH_WFDB |= {"524": -(2**23)}
"""Formats whose samples the package reads (FLAC, packed bits) -> the value that is "no sample"."""
BYTES = {"16": 2.0, "61": 2.0, "160": 2.0, "80": 1.0, "8": 1.0, "212": 1.5, "24": 3.0, "32": 4.0}
"""Signal format -> bytes per sample."""
MARKED = THROUGH_WFDB | {"80": -(2**7), "212": -(2**11), "24": -(2**23), "32": -(2**31)}
"""Signal format -> the value that stands for "no sample"; of the others it is that of 16 bits."""


def read(  # noqa: PLR0913  (each is what a dataset publishes)
    path: Path,
    record: str,
    patient: str,
    expected_fs: float | None = None,
    expected_gain: float | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
    repair: Repair | None = None,
) -> Recording:
    """The standard leads of the recording whose header is `path` + ".hea", in mV, in the order of
    the file.

    expected_fs in Hz and expected_gain in digital steps per mV: what the dataset publishes; another
    value is refused, and beside a published gain a baseline other than 0. names: of leads that the
    header spells in a way of its own (in capitals) -> standard ones. repair: of missing samples and
    peaks. BadRecord for a missing, empty or truncated file, a header that wfdb refuses or that
    disagrees with its signal in length or checksum, samples marked missing (NaN) without `repair`,
    unknown units, no lead, a lead that is there twice, a wrong rate, gain or baseline. Other
    signals, and files that hold no lead, are not looked at.
    """
    header = _header(path, record)
    header.sig_name = [names.get(name.upper(), name) for name in header.sig_name]
    rows = standard(header.sig_name, record)
    fs = _rate(header, rows, record)
    if expected_fs is not None and fs != expected_fs:
        raise BadRecord(f"{record}: sampling rate {fs:g} Hz, expected {expected_fs:g} Hz")
    signal = _millivolts(header, rows, path, record, expected_gain)
    leads, done = tuple(header.sig_name[i] for i in rows), tuple[tuple[str, str], ...]()
    if repair is not None:
        signal, done = repair(signal, fs, record)
    demand_samples(signal, record)
    made = Recording(signal=signal, unit="mV", leads=leads, fs=fs, record=record, patient=patient)
    return replace(made, repaired=done) if done else made


def signals(
    path: Path, record: str, wanted: Callable[[Sequence[str]], Sequence[int]], notes: Notes
) -> tuple[np.ndarray, float]:
    """(signal, time) float64 in mV of the signals that `wanted` chooses of the names in a header,
    NaN where a sample is marked as missing, and Hz. BadRecord as `read`, but for missing samples.
    """
    header = _header(path, record)
    rows = list(wanted(header.sig_name))
    fs = _rate(header, rows, record)
    skews = {header.sig_name[i]: header.skew[i] for i in rows if header.skew[i]}
    if skews:
        late = ", ".join(f"{name} {skew} frames" for name, skew in skews.items())
        notes.append(("read as", f"skews of its header are undone: {late}"))
    return _millivolts(header, rows, path, record, None, cleaned.marked), fs


def _rate(header: Any, rows: list[int], record: str) -> float:
    """Hz of some signals: that of frames by the samples that each has in one; BadRecord where they
    differ.
    """
    rates = {header.sig_name[i]: header.fs * header.samps_per_frame[i] for i in rows}
    if len({*rates.values()}) > 1:
        each = ", ".join(f"{name} {rate:g} Hz" for name, rate in rates.items())
        raise BadRecord(f"{record}: its leads have different rates: {each}")
    return float(header.fs * header.samps_per_frame[rows[0]])


def _millivolts(
    header: Any,
    rows: list[int],
    path: Path,
    record: str,
    expected_gain: float | None,
    marked: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> np.ndarray:
    """(row, time) float64, NaN where a sample is marked as missing. A signal with a skew begins as
    many frames later in its file; all end where the first one of them ends.
    """
    if expected_gain is None:
        _demand_calibrated(path, header, rows, record)
    gain = _gain(header, rows, record, expected_gain)
    if expected_gain is not None:
        _demand_baseline(header, rows, record)
    digital = _samples(header, rows, path, record)
    _check_samples(header, rows, digital, record)
    signal = (marked(digital.T).T - np.asarray(header.baseline)[rows]) / gain
    marks = [MARKED.get(header.fmt[i], MISSING) for i in rows]
    signal[digital == np.array(marks, digital.dtype)] = np.nan
    skews = [(header.skew[i] or 0) * header.samps_per_frame[i] for i in rows]
    if any(skews):
        length = len(signal) - max(skews)
        columns = [signal[skew : skew + length, k] for k, skew in enumerate(skews)]
        signal = np.stack(columns, axis=1)
    return np.asarray(signal.T)


def comments(header: Path) -> dict[str, str]:
    """What the comment lines of a header say: `# Dx: 1,2` as Dx -> "1,2"; of a name that is there
    twice the last. Nothing but the text is read.
    """
    lines = header.read_text(encoding="utf-8", errors="replace").splitlines()
    comments = (line.lstrip("#").partition(":") for line in lines if line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in comments}


def _header(path: Path, record: str) -> Any:
    """The parsed header (wfdb.Record) of a single-segment record whose fields are complete."""
    file = _on_disk(path.with_name(path.name + ".hea"), record)
    header = _parsed(file, record)
    if hasattr(header, "n_seg"):
        raise BadRecord(
            f"{record}: {file.name} is the header of a multi-segment record; give its segments, "
            f"or one file that holds them all"
        )
    stated = len(getattr(header, "sig_name", None) or ())
    if not stated or stated != header.n_sig:
        raise BadRecord(
            f"{record}: {file.name} states {header.n_sig} signals and describes {stated}"
        )
    if not header.sig_len or not header.fs:
        raise BadRecord(
            f"{record}: {file.name} does not state the length of the signal and its rate"
        )
    if not all(header.sig_name):
        raise BadRecord(f"{record}: its header does not name every signal")
    return header


def _parsed(file: Path, record: str) -> Any:
    """What wfdb makes of a header; of one with a date or a time that it cannot read, without."""
    import wfdb

    try:
        if file.suffix == ".hea":
            return wfdb.rdheader(str(file.with_suffix("")))
    except Exception as error:  # wfdb raises whatever its parsing runs into
        first = error
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    at = next((i for i, line in enumerate(lines) if line.strip() and line[0] != "#"), 0)
    if file.suffix == ".hea":
        lines[at : at + 1] = [" ".join(line.split()[:4]) for line in lines[at : at + 1]]
    with TemporaryDirectory() as folder:
        (Path(folder) / "r.hea").write_text("\n".join(lines) + "\n", encoding="utf-8")
        try:
            return wfdb.rdheader(str(Path(folder) / "r"))
        except Exception as error:
            why = one_line(first if file.suffix == ".hea" else error)
            raise BadRecord(f"{record}: wfdb refuses {file.name} ({why})") from error


def _on_disk(file: Path, record: str) -> Path:
    """A file that is there and not empty, its name perhaps in capitals where that is the only one;
    else BadRecord.
    """
    if not file.exists() and file.parent.is_dir():
        alike = [p for p in file.parent.iterdir() if p.name.lower() == file.name.lower()]
        file = alike[0] if len(alike) == 1 else file
    return existing_file(file, record)


def _demand_calibrated(path: Path, header: Any, rows: list[int], record: str) -> None:
    """BadRecord where a signal states no gain or a gain of 0: not calibrated, which wfdb reads as
    200 per mV. The unit is taken as it is written: wfdb leaves the µ of µV out.
    """
    file = _on_disk(path.with_name(path.name + ".hea"), record)
    try:
        text = decoded(file.read_bytes())
    except UnicodeError as error:
        raise BadRecord(f"{record}: {file.name} holds no text ({one_line(error)})") from error
    lines = [t for t in text.splitlines() if t.strip() and not t.lstrip().startswith("#")]
    for i in rows:
        words = lines[1 + i].split()
        if len(words) < 3 or not float(re.match(r"[-+.\deE]*", words[2])[0] or 0):  # type: ignore[index]
            raise BadRecord(f"{record}: signal {header.sig_name[i]} is not calibrated (no gain)")
        header.units[i] = words[2].partition("/")[2] or header.units[i]


def _gain(header: Any, rows: list[int], record: str, expected: float | None) -> np.ndarray:
    """(lead,) digital steps per mV."""
    gain = np.array([header.adc_gain[i] * voltage(header.units[i], record) for i in rows])
    if expected is not None and (gain != expected).any():
        raise BadRecord(
            f"{record}: gain {gain[gain != expected][0]:g} per mV, expected {expected:g} per mV"
        )
    return gain


def _demand_baseline(header: Any, rows: list[int], record: str) -> None:
    """BadRecord where 0 mV is another step than 0: no checksum covers the baseline, and all the
    releases with a published gain have 0 (every header that was seen: PTB-XL, the Challenge,
    Chapman, PTB).
    """
    for i in rows:
        if header.baseline[i]:
            raise BadRecord(
                f"{record}: baseline {header.baseline[i]} of lead {header.sig_name[i]}, expected 0"
            )


def _samples(header: Any, rows: list[int], path: Path, record: str) -> np.ndarray:
    """(time, lead) int16 digital samples, int32 where a format is another than 16. Each file that
    holds a lead has the very size that the header implies.
    """
    plain = {header.fmt[i] for i in rows} == {"16"}
    length = header.sig_len * header.samps_per_frame[rows[0]]
    digital = np.empty((length, len(rows)), np.int16 if plain else np.int32)
    for name in dict.fromkeys(header.file_name[i] for i in rows):
        signals = [i for i, f in enumerate(header.file_name) if f == name]
        formats = {header.fmt[i] for i in signals}
        (fmt,) = formats if len(formats) == 1 else ("",)
        if fmt not in BYTES and fmt not in THROUGH_WFDB:
            raise BadRecord(
                f"{record}: signal format {', '.join(sorted(formats))}; one of "
                f"{', '.join([*BYTES, *THROUGH_WFDB])} is read, the same for all signals of a file"
            )
        columns = [k for k, i in enumerate(rows) if i in signals]
        file = _on_disk(path.parent / name, record)
        if fmt in THROUGH_WFDB:
            digital[:, columns] = _through_wfdb(path, [rows[k] for k in columns], header, record)
            continue
        size = file.stat().st_size
        ends = np.cumsum([header.samps_per_frame[i] for i in signals])  # in a frame
        offset, count = header.byte_offset[signals[0]] or 0, int(ends[-1]) * header.sig_len
        wanted = offset + math.ceil(count * BYTES[fmt])
        if size < wanted:
            raise BadRecord(
                f"{record}: {name} is truncated: {size} bytes of the {wanted} that its header "
                f"implies"
            )
        # of two samples in three bytes the last may be alone
        if size > wanted + (fmt == "212" and count % 2):
            raise BadRecord(
                f"{record}: the header states {header.sig_len} samples ({wanted} bytes), but "
                f"{name} has {size} bytes"
            )
        try:
            samples = _decoded(file, fmt, offset, count)
        except OSError as error:
            raise BadRecord(f"{record}: {name} cannot be read ({one_line(error)})") from error
        frames = samples.reshape(header.sig_len, -1)
        for k in columns:
            end = int(ends[signals.index(rows[k])])
            steps = frames[:, end - header.samps_per_frame[rows[k]] : end].reshape(-1)
            if fmt == "8":  # differences from one sample to the next
                steps = steps.cumsum() + header.init_value[rows[k]]
            digital[:, k] = steps
    return digital


def _through_wfdb(path: Path, rows: list[int], header: Any, record: str) -> np.ndarray:
    """(time, row) integers as the package reads them."""
    import wfdb

    if any(header.skew[i] for i in rows):
        raise BadRecord(f"{record}: a skew in signal format {header.fmt[rows[0]]} is not read")
    try:
        read = wfdb.rdrecord(str(path), channels=rows, physical=False, smooth_frames=False)
        steps = np.stack(read.e_d_signal, axis=1)
    except Exception as error:  # wfdb raises whatever its reading runs into
        raise BadRecord(f"{record}: wfdb cannot read its samples ({one_line(error)})") from error
    wanted = header.sig_len * header.samps_per_frame[rows[0]]
    if len(steps) != wanted:
        raise BadRecord(f"{record}: {len(steps)} samples of the {wanted} in its header")
    return steps


def _decoded(file: Path, fmt: str, offset: int, count: int) -> np.ndarray:
    """(count,) integers of a signal file, as the format's page of WFDB defines them:
    https://physionet.org/physiotools/wag/signal-5.htm
    """
    if fmt in ("16", "61", "32"):
        return np.fromfile(file, {"16": "<i2", "61": ">i2", "32": "<i4"}[fmt], offset=offset)
    if fmt == "8":
        return np.fromfile(file, "i1", offset=offset).astype(np.int32)
    if fmt in ("80", "160"):
        steps = np.fromfile(file, "u1" if fmt == "80" else "<u2", offset=offset).astype(np.int32)
        return steps - (2**7 if fmt == "80" else 2**15)
    three = np.fromfile(file, "u1", offset=offset).astype(np.int32)
    three = np.pad(three, (0, -len(three) % 3)).reshape(-1, 3)
    if fmt == "24":
        return _signed(three @ [1, 2**8, 2**16], 24)
    low = three[:, 0] | (three[:, 1] & 0x0F) << 8
    high = three[:, 2] | (three[:, 1] & 0xF0) << 4
    return _signed(np.stack([low, high], axis=1).reshape(-1)[:count], 12)


def _signed(steps: np.ndarray, bits: int) -> np.ndarray:
    """Two's complement of so many bits."""
    half = 2 ** (bits - 1)
    return np.asarray((steps ^ half) - half)


def _check_samples(header: Any, rows: list[int], digital: np.ndarray, record: str) -> None:
    """Checksums (16-bit sums, compared modulo 65536) of (time, lead) digital samples. A header in
    which all are 0 does not state them (the files of the Challenge 2017).
    """
    if not any(header.checksum):
        return
    for row, total in zip(rows, digital.sum(axis=0, dtype=np.int64)):
        stated = header.checksum[row]  # the format allows a signal line without one
        if stated is not None and (int(stated) - int(total)) % 65536:
            raise BadRecord(
                f"{record}: checksum of lead {header.sig_name[row]} is {int(stated) % 65536} in "
                f"the header and "
                f"{total % 65536} in the samples; the signal file is not the one that was described"
            )
