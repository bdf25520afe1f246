"""Readers of single recordings, chosen by the suffix of the file name."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ecgbench.ecg.readers import atc, cleaned, edf, export, hospital, numpy, wfdb
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord


def read(path: Path, record: str, patient: str, options: ReadOptions) -> Recording:
    """The standard leads of the recording in a file, in mV; other signals are left out.

    BadRecord for a file that cannot be trusted; BadSetting where neither the file nor `options`
    states rate, unit or names.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(READERS)
        raise BadRecord(f"{record}: {path.name} has no known format ({known})")
    return reader(path, record, patient, options)


def _wfdb(path: Path, record: str, patient: str, options: ReadOptions) -> Recording:
    notes: cleaned.Notes = [("unit", "the file"), ("rate", "the file")]
    leads: list[str] = []

    def choose(names: Sequence[str]) -> list[int]:
        chosen = options.without_order(names).names(names, len(names), path, record)
        notes.append(("names", options.origin(names, chosen)))
        rows = cleaned.leads_of(chosen, record, notes)
        leads.extend(chosen[i] for i in rows)
        return rows

    values, fs = wfdb.signals(path.with_suffix(""), record, choose)
    fs = options.rate([("its header", fs)], path, record, field=True)
    return cleaned.recording(values, leads, fs, (record, patient), notes)


READERS: dict[str, Callable[[Path, str, str, ReadOptions], Recording]] = {
    ".hea": _wfdb,
    ".csv": export.read,
    ".tsv": export.read,
    ".txt": export.read,
    ".edf": edf.read,
    ".bdf": edf.read,
    ".npy": numpy.read,
    ".npz": numpy.read,
    ".atc": atc.read,
    **dict.fromkeys(hospital.SUFFIXES, hospital.read),
}
"""Suffix in small letters -> reader."""
