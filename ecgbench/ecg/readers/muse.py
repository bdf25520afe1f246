"""What a GE MUSE file says that `ecgdatakit` leaves aside: which waveform is the rhythm, told by
its length, and which leads have samples.
"""

import base64
import xml.etree.ElementTree as ET
from pathlib import Path

from ecgbench.ecg.readers.cleaned import Notes
from ecgbench.ecg.readers.dicom import SHORTEST


def prepared(path: Path, folder: Path, notes: Notes) -> Path:
    """A file in `folder` with the longest waveform of another one alone, of leads with samples,
    in the way that `ecgdatakit` understands.
    """
    from ecgdatakit.parsing.helpers.xml import parse_xml_root

    root = parse_xml_root(path.read_bytes())
    waveforms = root.findall("Waveform")
    # of two equal ones the label decides
    waveforms.sort(key=lambda each: (-_seconds(each), _kind(each) == "median"))
    for other in waveforms[1:]:
        root.remove(other)
    for waveform in waveforms[:1]:
        leads = waveform.findall("LeadData")
        bad = [lead for lead in leads if not _samples(lead)]
        for lead in bad if len(bad) < len(leads) else []:
            waveform.remove(lead)
            name = (lead.findtext("LeadID") or "a lead without a name").strip()
            notes.append(("not measured", f"{name} has no samples that can be read"))
        for element in waveform.findall("WaveformType"):
            waveform.remove(element)
        kind = "Rhythm" if _seconds(waveform) >= SHORTEST else "Median"
        ET.SubElement(waveform, "WaveformType").text = kind
    path = folder / "prepared.xml"
    path.write_bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))
    return path


def _samples(lead: ET.Element) -> int:
    """How many samples a lead has; 0 where they cannot be read, or are not as many as stated."""
    try:
        data = base64.b64decode("".join((lead.findtext("WaveFormData") or "").split()), None, True)
        size = int(lead.findtext("LeadSampleSize") or 2)
        stated = int(lead.findtext("LeadSampleCountTotal") or len(data) // size)
    except ValueError:
        return 0
    return stated if stated * size == len(data) else 0


def _seconds(waveform: ET.Element) -> float:
    most = max(map(_samples, waveform.findall("LeadData")), default=0)
    try:
        exponent = int(waveform.findtext("SampleExponent") or 0)
        return most / (float(waveform.findtext("SampleBase") or 0) * 10.0**exponent)
    except (ValueError, ZeroDivisionError, OverflowError):
        return 0.0


def _kind(waveform: ET.Element) -> str:
    return (waveform.findtext("WaveformType") or "Rhythm").strip().lower()
