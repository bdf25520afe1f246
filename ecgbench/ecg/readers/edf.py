"""EDF, EDF+, BDF and BDF+ by `edfio`: signals with their names, units and rates.

What it warns of (a cut file, another number of data records than stated) is refused. It tests no
limits of the samples and no time stamps of data records (EDF+); here both are.
"""

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ecgbench.ecg.readers import cleaned
from ecgbench.ecg.readers.arrays import existing_file, unreadable
from ecgbench.ecg.readers.head import STEPS
from ecgbench.ecg.readers.notation import ReadOptions, voltage
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord


def read(path: Path, record: str, patient: str, options: ReadOptions) -> Recording:
    """The standard leads of the recording in a file, in mV, by the names that it gives them.

    BadRecord for a file that is missing, damaged, truncated or discontinuous, and for leads of
    different rates; BadSetting where neither file nor `options` states the unit of a lead.
    """
    file = _opened(existing_file(path, record), record)
    _demand_no_gap(file, path, record)
    labels = [_text(signal.label) for signal in file.signals]
    names = options.without_order(labels).names(labels, len(labels), path, record)
    notes: cleaned.Notes = [("names", options.origin(labels, names))]
    rows = cleaned.leads_of(names, record, notes)
    signals = [file.signals[i] for i in rows]
    if len(found := {signal.sampling_frequency for signal in signals}) > 1:
        each = ", ".join(f"{rate:g}" for rate in sorted(found))
        raise BadRecord(f"{record}: its leads have different rates: {each} Hz")
    # steps of a converter state no unit of voltage
    units = [
        "" if STEPS.fullmatch(unit) else unit
        for unit in (_text(signal.physical_dimension) for signal in signals)
    ]
    scales = [
        voltage(unit, record) if unit else options.scale(None, path, record) for unit in units
    ]
    notes += [("unit", "the file" if all(units) else "--unit"), ("rate", "the file")]
    fs = options.rate([("its header", found.pop())], path, record, field=True)
    steps = signals[0].digital
    small = steps.dtype == np.int16 and len(signals) * len(steps) > cleaned.LONG
    values = np.empty((len(signals), len(steps)), np.float32 if small else np.float64)
    for row, signal, scale in zip(values, signals, scales):
        physical = _physical(signal, path, record)
        row[:] = np.divide(physical, scale, out=physical)
        del physical
    return cleaned.recording(values, [names[i] for i in rows], fs, (record, patient), notes)


def _opened(path: Path, record: str) -> Any:
    """The edfio.Edf or edfio.Bdf of a file."""
    import edfio

    with path.open("rb") as file:
        parsed = edfio.read_bdf if file.read(1) == b"\xff" else edfio.read_edf
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # what a recorder writes until it is stopped; whole data records follow
            warnings.filterwarnings("ignore", ".* header indicates -1 data records")
            opened = parsed(path, header_encoding="latin-1")
        if not opened.data_record_duration > 0:
            raise ValueError(f"its data records last {opened.data_record_duration:g} s")
        return opened
    except UnboundLocalError:  # the package divides by it
        zero = ValueError("its data records last 0 s")
        raise unreadable(path, record, "EDF or BDF", zero) from None
    except Exception as error:  # the package raises whatever its parsing runs into
        raise unreadable(path, record, "EDF or BDF", error) from error


def _text(field: str) -> str:
    """A field of the header, which may be in UTF-8 or Latin-1."""
    with suppress(UnicodeDecodeError):
        field = field.encode("latin-1").decode()
    return field.strip()


def _physical(signal: Any, path: Path, record: str) -> np.ndarray:
    """(time,) float64 in the unit of a signal, NaN where a sample is marked as missing."""
    try:
        (low, high), (bottom, top) = signal.digital_range, signal.physical_range
    except ValueError as error:
        raise unreadable(path, record, "EDF or BDF", error) from error
    limit = 2 ** (23 if signal.digital.dtype == np.int32 else 15)
    if not (-limit <= low < high < limit and bottom != top):
        raise BadRecord(
            f"{record}: steps of {_text(signal.label)} from {low} to {high} are {bottom:g} to "
            f"{top:g} {_text(signal.physical_dimension)} by its header, which cannot be; correct it"
        )
    gain = float((top - bottom) / (high - low))
    steps: np.ndarray = cleaned.marked(signal.digital[None])[0]
    steps += top / gain - high
    steps *= gain
    return np.asarray(steps)


def _demand_no_gap(file: Any, path: Path, record: str) -> None:
    """BadRecord where the data records of EDF+ or BDF+ do not follow one another: each states when
    it begins. EDF+D without time stamps is refused, as nobody knows its gaps; EDF+C is read.
    """
    duration = file.data_record_duration
    stamps = next(iter(file._annotation_signals), None)
    content = stamps.digital.tobytes() if stamps else b""
    each = len(content) // max(1, file.num_data_records)
    begins = np.array([_begin(content[k : k + each]) for k in range(0, len(content), each or 1)])
    if np.isnan(begins).all():
        if file.reserved.startswith(("EDF+D", "BDF+D")):
            raise BadRecord(f"{record}: {path.name} is discontinuous, without time stamps")
        return
    most = max((signal.samples_per_data_record for signal in file.signals), default=1)
    apart = np.abs(np.diff(begins) - duration)
    if (odd := ~(apart <= max(0.001, 0.5 * duration / most))).any():
        k = int(odd.argmax())
        raise BadRecord(
            f"{record}: {path.name} has a gap or a jump: its data record {k + 1} begins at "
            f"{begins[k]:g} s and lasts {duration:g} s, the next begins at {begins[k + 1]:g} s"
        )


def _begin(notes: bytes) -> float:
    """Seconds that the first annotation of a data record states; NaN where it states none."""
    stated, mark, _ = notes.partition(b"\x14")
    try:
        return float(stated) if mark else float("nan")
    except ValueError:
        return float("nan")
