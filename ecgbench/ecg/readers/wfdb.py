"""WFDB: what a header says of its signals, and a refusal with a precise reason of whatever does not
agree with itself.

The `wfdb` package reads the header, and the samples of every format but 16, the usual one: of that
it would parse the header a second time, which takes longer than all else. What it does not test is
tested here: the size of such a file, and the checksum in each signal line of the header (without
it, a web page saved under the name of a .dat of the right size reads as an ECG).
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np

from ecgbench.core.files import decoded
from ecgbench.core.text import one_line
from ecgbench.ecg.readers import cleaned
from ecgbench.ecg.readers.arrays import MISSING, demand_samples, existing_file, standard
from ecgbench.ecg.readers.notation import voltage
from ecgbench.ecg.recording import Recording
from ecgbench.ecg.repair import Repair
from ecgbench.errors import BadRecord

BYTES = {"16": 2.0, "61": 2.0, "160": 2.0, "80": 1.0, "8": 1.0, "212": 1.5, "24": 3.0, "32": 4.0}
BYTES |= dict.fromkeys(("310", "311", "508", "516", "524"), 0.0)
"""Signal format -> bytes per sample; 0 where only the package knows."""
PLAIN = {"16": "<i2", "61": ">i2"}
"""Those that are read here."""
MARKED = {"80": -(2**7), "508": -(2**7), "310": -(2**9), "311": -(2**9), "212": -(2**11)}
MARKED |= {"24": -(2**23), "524": -(2**23), "32": -(2**31)}
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
    signal, done = repair(signal, fs, record) if repair else (signal, ())
    demand_samples(signal, record)
    return Recording(
        signal=signal,
        unit="mV",
        leads=tuple(header.sig_name[i] for i in rows),
        fs=fs,
        record=record,
        patient=patient,
        repaired=done,
    )


def signals(
    path: Path, record: str, wanted: Callable[[Sequence[str]], Sequence[int]]
) -> tuple[np.ndarray, float]:
    """(signal, time) float64 in mV of the signals that `wanted` chooses of the names in a header,
    NaN where a sample is marked as missing, and Hz. BadRecord as `read`, but for missing samples.
    """
    header = _header(path, record)
    rows = list(wanted(header.sig_name))
    fs = _rate(header, rows, record)
    return _millivolts(header, rows, path, record, None, partial(cleaned.marked, in_place=True)), fs


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
    """(row, time) float64, of a long recording float32; NaN where a sample is marked as missing."""
    gain = _gain(header, rows, record, expected_gain)
    digital = _samples(header, rows, path, record)
    _check_samples(header, rows, digital, record)
    digital = digital.T
    small = digital.dtype == np.int16 and digital.size > cleaned.LONG
    signal = marked(np.array(digital, np.float32 if small else np.float64, order="C"))
    for values, stored, i, per_mv in zip(signal, digital, rows, gain):
        values -= header.baseline[i]
        values /= per_mv
        values[stored == MARKED.get(header.fmt[i], MISSING)] = np.nan
    return signal


def comments(header: Path) -> dict[str, str]:
    """What the comment lines of a header say: `# Dx: 1,2` as Dx -> "1,2"; of a name that is there
    twice the last. Nothing but the text is read.
    """
    lines = header.read_text(encoding="utf-8", errors="replace").splitlines()
    comments = (line.lstrip("#").partition(":") for line in lines if line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in comments}


def _header(path: Path, record: str) -> Any:
    """The parsed header (wfdb.Record) of a single-segment record whose fields are complete, with
    the units as they are written, whose µ wfdb leaves out, and whether a gain is stated, for which
    wfdb takes 200 per mV.
    """
    file = existing_file(path.with_name(path.name + ".hea"), record)
    try:
        lines = [
            t for t in decoded(file.read_bytes()).splitlines() if t.strip()[:1] not in ("", "#")
        ]
        header = _parsed(path, lines)
    except Exception as error:  # wfdb raises whatever its parsing runs into
        raise BadRecord(f"{record}: wfdb refuses {file.name} ({one_line(error)})") from error
    if hasattr(header, "n_seg"):
        raise BadRecord(
            f"{record}: {file.name} is the header of a multi-segment record; give its segments, "
            f"or one file that holds them all"
        )
    stated = [line.split() for line in lines[1:]]
    names = getattr(header, "sig_name", None) or []
    if not names or not len(names) == len(stated) == header.n_sig:
        raise BadRecord(
            f"{record}: {file.name} states {header.n_sig} signals and describes {len(names)}"
        )
    if not header.sig_len or not header.fs or not all(names):
        raise BadRecord(
            f"{record}: {file.name} does not state the length of the signal, its rate and the name "
            f"of every signal"
        )
    gains = ["".join(words[2:3]) for words in stated]
    header.calibrated = [bool(re.match(r"[-+.\d]*[1-9]", gain)) for gain in gains]
    header.units = [g.partition("/")[2] or unit for g, unit in zip(gains, header.units)]
    return header


def _parsed(path: Path, lines: list[str]) -> Any:
    """What wfdb makes of a header; of one with a date that it cannot read (Challenge 2017),
    without.
    """
    import wfdb

    try:
        return wfdb.rdheader(str(path))
    except ValueError:
        with TemporaryDirectory() as folder:
            text = "\n".join([" ".join(lines[0].split()[:4]), *lines[1:]])
            (Path(folder) / "r.hea").write_text(text + "\n", encoding="utf-8")
            return wfdb.rdheader(f"{folder}/r")


def _gain(header: Any, rows: list[int], record: str, expected: float | None) -> np.ndarray:
    """(lead,) digital steps per mV. Beside a published gain 0 mV is step 0, or BadRecord: no
    checksum covers the baseline, and all the releases with a published gain have 0 (every header
    that was seen: PTB-XL, the Challenge, Chapman, PTB).
    """
    gain = np.array([header.adc_gain[i] * voltage(header.units[i], record) for i in rows])
    for i, own in zip(rows, gain):
        name = header.sig_name[i]
        if header.skew[i]:
            raise BadRecord(
                f"{record}: signal {name} has a skew, which is not undone; write the record "
                f"without it: wfdb.rdrecord undoes it, wfdb.wrsamp writes it"
            )
        if expected is None and not header.calibrated[i]:
            raise BadRecord(f"{record}: signal {name} is not calibrated (no gain)")
        if expected not in (None, own):
            raise BadRecord(f"{record}: gain {own:g} per mV, expected {expected:g} per mV")
        if expected is not None and header.baseline[i]:
            raise BadRecord(f"{record}: baseline {header.baseline[i]} of lead {name}, expected 0")
    return gain


def _samples(header: Any, rows: list[int], path: Path, record: str) -> np.ndarray:
    """(time, lead) integer samples. Each file that holds a lead has the very size that the header
    implies.
    """
    import wfdb

    for name in {header.file_name[i]: None for i in rows}:
        signals = [i for i, f in enumerate(header.file_name) if f == name]
        formats = sorted({header.fmt[i] for i in signals})
        if len(formats) > 1 or formats[0] not in BYTES:
            raise BadRecord(
                f"{record}: signal format {', '.join(formats)}; one of {', '.join(BYTES)} is read, "
                f"the same for all signals of a file"
            )
        each, size = BYTES[formats[0]], existing_file(path.parent / name, record).stat().st_size
        count = header.sig_len * sum(header.samps_per_frame[i] for i in signals)
        wanted = (header.byte_offset[signals[0]] or 0) + math.ceil(count * each)
        if size < wanted:
            raise BadRecord(
                f"{record}: {name} is truncated: {size} bytes of the {wanted} that its header "
                f"implies"
            )
        # of two samples in three bytes the last may be alone
        if each and size > wanted + (formats[0] == "212" and count % 2):
            raise BadRecord(
                f"{record}: the header states {header.sig_len} samples ({wanted} bytes), but "
                f"{name} has {size} bytes"
            )
    try:
        if {header.fmt[i] for i in rows} <= {*PLAIN}:
            return _of_16_bits(header, rows, path)
        read = wfdb.rdrecord(str(path), channels=rows, physical=False, smooth_frames=False)
        return np.stack(read.e_d_signal, axis=1)
    except Exception as error:  # wfdb raises whatever its reading runs into
        raise BadRecord(f"{record}: its samples cannot be read ({one_line(error)})") from error


def _of_16_bits(header: Any, rows: list[int], path: Path) -> np.ndarray:
    """(time, row) int16."""
    found = dict[int, np.ndarray]()
    for name in {header.file_name[i]: None for i in rows}:
        signals = [i for i, own in enumerate(header.file_name) if own == name]
        first, kind = signals[0], PLAIN[header.fmt[signals[0]]]
        steps = np.fromfile(path.parent / name, kind, offset=header.byte_offset[first] or 0)
        frames, end = steps.reshape(header.sig_len, -1), 0
        for i in signals:
            start, end = end, end + header.samps_per_frame[i]
            found[i] = frames[:, start:end].reshape(-1)
    return np.stack([found[i] for i in rows], axis=1)


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
