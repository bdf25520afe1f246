"""Recordings as carts, hospitals and watches export them, by `ecgdatakit` (the extra `formats`):
DICOM waveforms, SCP-ECG, HL7 aECG, GE MUSE, Philips Sierra, Mortara ELI, Kardia, ISHNE and MFER.

The format is told by the content, not by the suffix. Only the rhythm is read, no median beat.
`ecgdatakit` rounds rates to whole Hz, joins leads that begin at different times, and only warns of
a wrong checksum and of a gap; here rates are exact, and the others are refused.
"""

import re
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ecgbench.ecg.readers import cleaned, dicom, muse, scp
from ecgbench.ecg.readers.arrays import existing_file, unreadable
from ecgbench.ecg.readers.notation import ReadOptions, per_mv
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting

SUFFIXES = (".dcm", ".dicom", ".scp", ".xml", ".json", ".ecg", ".mwf", ".mfer", ".mfr")
FORMATS = (
    *("DICOM Waveform", "SCP-ECG", "HL7 aECG", "GE MUSE XML", "Philips Sierra XML", "MFER"),
    *("Mortara ELI (EL250/ELI280)", "AliveCor Kardia JSON", "ISHNE Holter"),
)
"""Those of `ecgdatakit` that are used; the others are experimental, or formats of our readers."""
STARTS = ("start_sample", "LeadTimeOffset")
"""Where SCP-ECG and MUSE state that a lead begins later than the recording."""
STATES = ("channel_status", "LeadOff")
"""Where DICOM and MUSE state that a lead was disconnected, or is a test signal."""
LOST = re.compile("starts at pointer|with no waveform data|sequence sets in the rhythm")
"""Warnings of MFER about a gap that was closed, and about samples that are not there; of aECG about
leads or a time that stand in several sets, of which one is read.
"""
PERSONAL = re.compile(r"birth|\bdate\b|measurement time|\bVR\b|\bPN\b|multiplex group")
"""Warnings that quote what a file says of a person, which concern no sample; and of groups, which
`dicom` tells.
"""
INTERVAL_ERROR = 5e-4
"""Share by which a rate from an interval in whole microseconds may be off."""
FRACTION = re.compile(
    rb"(SampleBase>|SampleExponent>|SAMPLE_FREQ=.|samplespersecond=.|samplingrate>)"
    rb"\s*(-|\d+[.,]0*[1-9])",
    re.I,
)
"""A rate in XML that is no whole number, which `ecgdatakit` rounds without a trace."""


def read(path: Path, record: str, patient: str, options: ReadOptions) -> Recording:
    """The standard leads of the rhythm in a file, in mV, by the names that it gives them.

    BadRecord for a file that is damaged, or whose leads differ in rate, length or start;
    BadSetting where neither file nor `options` states a unit, and without the extra.
    """
    found, notes = _parsed(existing_file(path, record), record)
    labels = [lead.label for lead in found.leads]
    names = options.without_order(labels).names(labels, len(labels), path, record)
    notes.append(("names", options.origin(labels, names)))
    rows = cleaned.leads_of(names, record, notes)
    leads = [found.leads[i] for i in rows]
    facts = {
        "rates in Hz": [lead.sampling_rate for lead in leads],
        "lengths in samples": [len(lead.samples) for lead in leads],
        "starts": [next(filter(None, map(lead.annotations.get, STARTS)), "0") for lead in leads],
    }
    for what, each in facts.items():
        if len({*each}) > 1:
            listed = ", ".join(f"{names[i]} {value}" for i, value in zip(rows, each))
            raise BadRecord(f"{record}: its leads have different {what}: {listed}")
    _demand_whole(found, notes, path, record)
    values = []
    for i, lead in zip(rows, leads):
        stated = per_mv(lead.resolution_unit) if lead.resolution_unit else None
        no_unit = stated is None and 0 < lead.adc_resolution != lead.resolution
        if no_unit or (stated and not lead.adc_resolution):
            unit = lead.adc_resolution_unit or "none is stated"
            raise BadRecord(
                f"{record}: a step of {names[i]} is {lead.adc_resolution:g} by the file, in no "
                f"unit of voltage or in no number ({unit}); correct the file"
            )
        if not stated and lead.resolution != 1 and re.match(r"[\d.]", options.unit or ""):
            raise BadRecord(
                f"{record}: a step of {names[i]} is {lead.resolution:g} by the file, in no unit; "
                f"state the unit alone, as in --unit uV"
            )
        scale = stated or options.scale(None, path, record)
        values.append(
            (cleaned.marked(lead.samples[None])[0] * lead.resolution + lead.offset) / scale
        )
        states = {what: lead.annotations.get(what, "OK") for what in STATES}
        notes += [("warning", f"{names[i]}: {w} {s}") for w, s in states.items() if s != "OK"]
    stated_all = all(lead.resolution_unit for lead in leads)
    notes += [("unit", "the file" if stated_all else "--unit"), ("rate", "the file")]
    fs = options.rate([("its header", _rate(found, leads[0]))], path, record, field=True)
    return cleaned.recording(
        np.stack(values), [names[i] for i in rows], fs, (record, patient), notes
    )


def _parsed(path: Path, record: str) -> tuple[Any, cleaned.Notes]:
    """The ECGRecord of a file, samples as they are stored, and the warnings as notes."""
    extra = "the extra formats: pip install 'ecgbench-leads[formats]'"
    missing = BadSetting(f"reading {path.suffix} needs {extra}")
    try:
        from ecgdatakit.parsing.parser import FileParser
    except ImportError:
        raise missing from None
    noted: cleaned.Notes = []
    with warnings.catch_warnings(record=True) as caught, TemporaryDirectory() as folder:
        warnings.simplefilter("always")
        kind = "a recording"
        try:
            known = FileParser.detect_format(path)
            if known is None or known["name"] not in FORMATS:
                raise ValueError(f"it is none of {', '.join(FORMATS)}")
            kind, parsed = known["name"], path
            if kind == "DICOM Waveform":
                parsed = dicom.prepared(path, Path(folder), noted)
            elif kind == "GE MUSE XML":
                parsed = muse.prepared(path, Path(folder), noted)
            elif kind == "SCP-ECG":
                parsed = scp.prepared(path, Path(folder))
            found = known["parser_class"]().parse(parsed)
        except ImportError:
            raise missing from None
        except Exception as error:  # the package raises whatever its parsing runs into
            plain = ValueError(re.sub(rf"{re.escape(folder)}\S*", path.name, str(error)))
            plain = ValueError(str(plain).replace(str(path), path.name))
            raise unreadable(path, record, kind, plain) from error
    if not any(len(lead.samples) for lead in found.leads):
        raise BadRecord(f"{record}: {path.name} holds no rhythm, only what was derived from one")
    if found.raw_metadata.get("checksum_valid") is False:
        raise BadRecord(f"{record}: {path.name} is damaged: its checksum is that of other bytes")
    texts = (str(each.message).replace(str(path), path.name) for each in caught)
    noted += [("warning", text) for text in texts if not PERSONAL.search(text)]
    return found, noted


def _demand_whole(found: Any, notes: cleaned.Notes, path: Path, record: str) -> None:
    """BadRecord where a file is shorter than it states, has a gap in time, or states a rate that
    was rounded.
    """
    if lost := next((what for _, what in notes if LOST.search(what)), ""):
        raise BadRecord(
            f"{record}: {path.name} is truncated, in several parts, or has a gap ({lost})"
        )
    if found.source_format == "ishne_holter":
        _demand_ishne(found.raw_metadata, path, record)
    if path.suffix.lower() == ".xml" and (
        rate := FRACTION.search(path.read_bytes().replace(b"\0", b""))
    ):
        raise BadRecord(f"{record}: its rate is no whole number ({rate[0].decode()}...)")


def _demand_ishne(meta: dict[str, Any], path: Path, record: str) -> None:
    """BadRecord where the last sample lacks a lead, or as many leads are not named as are stored.
    How many samples there are the file itself shows: many headers state a nominal number.
    """
    each, codes = len(meta["lead_spec"]), np.fromfile(path, "<i2", 12, offset=158)
    size = path.stat().st_size - 522 - meta["var_block_size"]
    there = size / 2 / each
    if (codes[:each] == -9).any() or (codes[each:] > 0).any():
        raise BadRecord(
            f"{record}: {path.name} states {each} leads, and codes of {(codes > 0).sum()}; correct "
            f"its header"
        )
    if there % 1:
        raise BadRecord(
            f"{record}: {path.name} is truncated: {there:g} samples of each of its {each} leads"
        )


def _rate(found: Any, lead: Any) -> float:
    """Hz, exact, of a lead whose own rate is rounded."""
    meta, rounded = found.raw_metadata, lead.sampling_rate
    if found.source_format == "dicom_waveform":
        groups = meta["multiplex_groups"]
        rates = [g["sampling_frequency"] for g in groups if g["samples"] == len(lead.samples)]
    elif found.source_format == "alivecor_kardia":
        rates = [float(meta["raw"]["frequency"])]
    elif found.source_format in ("hl7_aecg", "scp_ecg"):
        microseconds = meta.get("rhythm_sample_interval_us")
        exact = 1e6 / microseconds if microseconds else meta["rhythm_time"]["sampling_rate_exact"]
        rates = [exact] if abs(exact - rounded) > INTERVAL_ERROR * exact else []
    else:
        rates = meta.get("sampling_rates", [])  # MFER; else the format has whole Hz
    return next((rate for rate in rates if round(rate) == rounded), float(rounded))
