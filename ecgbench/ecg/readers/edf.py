"""EDF, EDF+, BDF and BDF+ by `pyedflib`: signals with their names, units and rates.

Its library tests the header; that the file has the very size that the header implies is tested
here. Discontinuous recordings (EDF+D) are refused.
"""

from pathlib import Path

import numpy as np

from ecgbench.ecg.readers.layout import Layout, recording, refused, standard, there
from ecgbench.ecg.readers.said import Said, per_mv
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

HEAD, SIGNAL = 256, 256
"""Bytes of a header: its own, and those of each signal."""


def read(path: Path, record: str, patient: str, said: Said) -> Recording:
    """The standard leads of the recording in a file, in mV, by the names that it gives them.

    BadRecord for a file that is missing, damaged, truncated or discontinuous, and for leads of
    different rates; BadSetting where the file does not say the unit of a lead and nobody else does.
    """
    import pyedflib

    _demand_size(there(path, record), record)
    try:
        with pyedflib.EdfReader(str(path), pyedflib.DO_NOT_READ_ANNOTATIONS) as file:
            labels = file.getSignalLabels()
            names = said.names(labels, len(labels), path)
            rows = standard(names, record)
            rates = {float(file.getSampleFrequency(i)) for i in rows}
            units = [file.getPhysicalDimension(i) for i in rows]
            signals = [file.readSignal(i) for i in rows] if len(rates) == 1 else []
    except (OSError, ValueError) as error:
        raise refused(path, record, "EDF or BDF", error) from error
    if len(rates) > 1:
        each = ", ".join(f"{rate:g}" for rate in sorted(rates))
        raise BadRecord(f"{record}: its leads have different rates: {each} Hz")
    scales = [said.scale(_scale(unit, record), path) for unit in units]
    layout = Layout(leads=tuple(names[i] for i in rows), fs=rates.pop(), per_mv=1.0)
    array = np.stack([one / scale for one, scale in zip(signals, scales)])
    return recording(array, layout, record, patient)


def _scale(unit: str, record: str) -> float | None:
    """What a file states of a unit; BadRecord where that is no voltage."""
    scale = per_mv(unit)
    if unit.strip() and scale is None:
        raise BadRecord(f"{record}: unit {unit!r} is no unit of voltage (V, mV, uV, nV)")
    return scale


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
