"""EDF, EDF+, BDF and BDF+ by `pyedflib`: signals with their names, units and rates.

Its library tests the header; that the file has the very size that the header implies is tested
here. Discontinuous recordings (EDF+D) are refused.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory

import numpy as np

from ecgbench.ecg.readers import cleaned
from ecgbench.ecg.readers.arrays import existing_file, unreadable
from ecgbench.ecg.readers.notation import ReadOptions, per_mv
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

HEAD, SIGNAL = 256, 256
"""Bytes of a header: its own, and those of each signal."""


def read(path: Path, record: str, patient: str, options: ReadOptions) -> Recording:
    """The standard leads of the recording in a file, in mV, by the names that it gives them.

    BadRecord for a file that is missing, damaged, truncated or discontinuous, and for leads of
    different rates; BadSetting where neither file nor `options` states the unit of a lead.
    """
    _demand_size(existing_file(path, record), record)
    _demand_range(path, record)
    labels, units, rates, signals = _opened(path, record)
    names = options.without_order(labels).names(labels, len(labels), path, record)
    notes: cleaned.Notes = [("names", options.origin(labels, names))]
    rows = cleaned.leads_of(names, np.zeros((len(names), 0)), record, notes)
    if len(found := {rates[i] for i in rows}) > 1:
        each = ", ".join(f"{rate:g}" for rate in sorted(found))
        raise BadRecord(f"{record}: its leads have different rates: {each} Hz")
    scales = [_scale(units[i], record) or options.scale(None, path, record) for i in rows]
    notes += [("unit", "the file" if all(units[i] for i in rows) else "--unit")]
    notes += [("rate", "the file")]
    fs = options.rate([("its header", found.pop())], path, record, field=True)
    array = np.stack([signals[i] / scale for i, scale in zip(rows, scales)])
    return cleaned.recording(array, [names[i] for i in rows], fs, (record, patient), notes)


def _opened(path: Path, record: str) -> tuple[list[str], list[str], list[float], list[np.ndarray]]:
    """Labels, units, rates and samples of all signals, NaN where a sample is marked as missing."""
    with path.open("rb") as file:
        first = file.read(HEAD)
        signals = int(first[252:256]) if first[252:256].strip().isdigit() else 0
        rest = file.read(signals * SIGNAL)
    if (first[1:] + rest).isascii():
        with suppress(OSError, ValueError):
            return _signals(path)
    # a date that is none, and a text that breaks the rules, cost no samples
    texts = b"X X X X".ljust(80) + b"Startdate X X X X".ljust(80) + b"01.01.8500.00.00"
    with TemporaryDirectory() as folder, path.open("rb") as source:
        copy = Path(folder) / "legible"
        with copy.open("wb") as out:
            out.write(first[:8] + texts + first[184:] + b"".join(_ascii(rest, signals)))
            source.seek(HEAD + len(rest))
            copyfileobj(source, out)
        try:
            return _signals(copy)
        except (OSError, ValueError) as error:
            renamed = type(error)(str(error).replace(str(copy), path.name))
            raise unreadable(path, record, "EDF or BDF", renamed) from error


def _signals(path: Path) -> tuple[list[str], list[str], list[float], list[np.ndarray]]:
    import pyedflib

    with pyedflib.EdfReader(str(path), pyedflib.DO_NOT_READ_ANNOTATIONS) as opened:
        every = range(opened.signals_in_file)
        rates = [float(opened.getSampleFrequency(i)) for i in every]
        signals = []
        for i in every:
            steps = cleaned.marked(opened.readSignal(i, digital=True)[None])[0]
            signals.append(np.where(np.isnan(steps), np.nan, opened.readSignal(i)))
        units = [opened.getPhysicalDimension(i).strip() for i in every]
        return opened.getSignalLabels(), units, rates, signals


def _ascii(rest: bytes, signals: int) -> Iterator[bytes]:
    """The fields of all signals, one after the other, without other than ASCII characters."""
    at = 0
    for width in (16, 80, 8, 8, 8, 8, 8, 80, 8, 32):
        for _ in range(signals):
            field = rest[at : at + width]
            for micro in (b"\xc2\xb5", b"\xce\xbc", b"\xb5"):
                field = field.replace(micro, b"u")
            yield bytes(byte if 32 <= byte < 127 else 63 for byte in field).ljust(width)
            at += width


def _scale(unit: str, record: str) -> float | None:
    """What a file states of a unit; BadRecord where that is no voltage."""
    scale = per_mv(unit)
    if unit.strip() and scale is None:
        raise BadRecord(f"{record}: unit {unit!r} is not a unit of voltage (V, mV, uV, nV)")
    return scale


def _demand_range(path: Path, record: str) -> None:
    """BadRecord where the digital minimum of a signal with samples is its maximum: its voltages are
    not known.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
        count = int(head[252:256]) if head[252:256].strip().isdigit() else 0
        rest = file.read(count * SIGNAL)
    for i in range(count):
        name, low, high = (
            rest[at * count + i * wide : at * count + (i + 1) * wide].strip()
            for at, wide in ((0, 16), (120, 8), (128, 8))
        )
        if low == high and low and b"Annotations" not in name:
            label = name.decode("latin-1")
            raise BadRecord(
                f"{record}: digital minimum and maximum of {label} are both {low.decode('latin-1')}"
                f", so its voltages are not known; correct the header"
            )


def _demand_size(path: Path, record: str) -> None:
    """BadRecord where a file has not the size that its header implies; nothing where the header is
    none, which the library says better.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
        try:
            blocks, signals = int(head[236:244]), int(head[252:256])
            each = file.read(signals * SIGNAL)[216 * signals : 224 * signals]
            samples = sum(int(each[8 * i : 8 * i + 8]) for i in range(signals))
        except ValueError:
            return
    wanted = HEAD + signals * SIGNAL + blocks * samples * (3 if head[0] == 0xFF else 2)
    if blocks > 0 and (size := path.stat().st_size) != wanted:
        what = "is truncated" if size < wanted else "is too long"
        raise BadRecord(
            f"{record}: {path.name} {what}: {size} bytes of the {wanted} that its header implies"
        )
