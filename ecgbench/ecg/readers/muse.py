"""What a GE MUSE file says that `ecgdatakit` leaves aside: which waveform is the rhythm, told by
its length, and which leads have samples.
"""

import base64
import xml.etree.ElementTree as ET
from pathlib import Path

from ecgbench.ecg.readers.cleaned import Notes
from ecgbench.ecg.readers.dicom import SHORTEST


def prepared(path: Path, folder: Path, notes: Notes) -> Path:
    """A file that says the same in the way that `ecgdatakit` understands, written into `folder`
    where it must be another one.
    """
    from ecgdatakit.parsing.helpers.xml import parse_xml_root

    root = parse_xml_root(path.read_bytes())
    changed = False
    for waveform in (waveforms := root.findall("Waveform")):
        leads = waveform.findall("LeadData")
        bad = [lead for lead in leads if not _samples(lead)]
        for lead in bad if len(bad) < len(leads) else []:
            waveform.remove(lead)
            name = (lead.findtext("LeadID") or "a lead without a name").strip()
            notes.append(("not measured", f"{name} has no samples that can be read"))
            changed = True
    rhythms = [each for each in waveforms if _seconds(each) >= SHORTEST]
    rhythms.sort(key=lambda each: (-_seconds(each), _kind(each) == "median"))
    ordered = rhythms + [each for each in waveforms if each not in rhythms]
    kinds = ["Rhythm"] * len(rhythms) + ["Median"] * (len(ordered) - len(rhythms))
    stated = [_kind(each) for each in ordered]
    first = [each for each in waveforms if each in rhythms][:1]
    if changed or stated != [kind.lower() for kind in kinds] or first != rhythms[:1]:
        for waveform, kind in zip(ordered, kinds):
            root.remove(waveform)
            for element in waveform.findall("WaveformType"):
                waveform.remove(element)
            ET.SubElement(waveform, "WaveformType").text = kind
            root.append(waveform)
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
