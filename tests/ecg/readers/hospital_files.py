"""Small true files of each format of hospitals and watches, written from its specification.

Each writer takes a path without suffix and (lead, time) 16-bit steps of the leads of LEADS, of
STEP uV at RATE Hz, and returns the file.
"""

import base64
import binascii
import json
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset

LEADS = ("I", "II", "V1", "V6", "aVR")
RATE, STEP = 500, 2.5
SCP_CODES = {"I": 1, "II": 2, "V1": 3, "V6": 8, "III": 61, "aVR": 62, "-aVR": 65}
"""ISO 11073-91064, which DICOM (`2:1`) and MFER share."""
ISHNE_CODES = {"I": 5, "II": 6, "aVR": 8, "V1": 11, "V6": 16}


def _code(value: str, scheme: str, meaning: str) -> list[Dataset]:
    item = Dataset()
    item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = value, scheme, meaning
    return [item]


def group(
    steps: np.ndarray,
    label: str,
    rate: float = RATE,
    first: int = 0,
    offset: float | None = None,
    **more: object,
) -> Dataset:
    """A waveform group of DICOM, of LEADS from the `first` on, that begins `offset` ms after the
    first group; more: fields of every channel.
    """
    made = Dataset()
    made.WaveformOriginality, made.MultiplexGroupLabel = "ORIGINAL", label
    made.NumberOfWaveformChannels, made.NumberOfWaveformSamples = steps.shape
    made.SamplingFrequency = rate
    if offset is not None:
        made.MultiplexGroupTimeOffset = offset
    made.WaveformBitsAllocated, made.WaveformSampleInterpretation = 16, "SS"
    channels = []
    for name in LEADS[first : first + len(steps)]:
        channel = Dataset()
        channel.ChannelSourceSequence = _code(f"2:{SCP_CODES[name]}", "MDC", f"Lead {name}")
        channel.ChannelSensitivity, channel.ChannelBaseline = STEP, 0
        channel.ChannelSensitivityCorrectionFactor = 1
        channel.ChannelSensitivityUnitsSequence = _code("uV", "UCUM", "microvolt")
        channel.WaveformBitsStored = 16
        for field, value in more.items():
            setattr(channel, field, value)
        channels.append(channel)
    made.ChannelDefinitionSequence = channels
    made.WaveformData = steps.T.astype("<i2").tobytes()
    return made


def dicom(file: Path, steps: np.ndarray, *groups: Dataset) -> Path:
    """A median beat comes first, then the rhythm; or the `groups` that are given."""
    made = Dataset()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    made.SOPClassUID = "1.2.840.10008.5.1.4.1.1.9.1.1"
    made.SOPInstanceUID = made.file_meta.MediaStorageSOPInstanceUID = "1.2.3"
    made.file_meta.MediaStorageSOPClassUID = made.SOPClassUID
    made.Modality, made.PatientID = "ECG", "P1"
    median = group(steps[:, :60] // 2, "MEDIAN BEAT")
    made.WaveformSequence = list(groups) or [median, group(steps, "RHYTHM")]
    made.save_as(file.with_suffix(".dcm"), enforce_file_format=True)
    return file.with_suffix(".dcm")


def _crc(data: bytes) -> bytes:
    return struct.pack("<H", binascii.crc_hqx(data, 0xFFFF))


def _section(number: int, body: bytes) -> bytes:
    body += b"\0" * (len(body) % 2)
    whole = struct.pack("<HIBB6x", number, 16 + len(body), 20, 20) + body
    return _crc(whole) + whole


def scp(
    file: Path,
    steps: np.ndarray,
    names: Sequence[str] = LEADS,
    microseconds: int = 2000,
    starts: Sequence[int] = (1, 1, 1, 1, 1),
) -> Path:
    """SCP-ECG of 16-bit steps."""
    rows = [row.astype("<i2").tobytes() for row in steps]
    count = steps.shape[1]
    three = struct.pack("<BB", len(steps), 0x04 | len(steps) << 3)
    for name, start in zip(names, starts):
        three += struct.pack("<IIB", start, start + count - 1, SCP_CODES[name])
    six = struct.pack("<HHBB", round(STEP * 1000), microseconds, 0, 0)
    six += struct.pack(f"<{len(rows)}H", *map(len, rows)) + b"".join(rows)
    bodies = {1: b"\xff\0\0", 3: three, 6: six}
    sections = {number: _section(number, bodies[number]) for number in sorted(bodies)}
    at, pointers = 7 + 16 + 120, b""
    for number in range(12):
        size = 16 + 120 if number == 0 else len(sections.get(number, b""))
        where = 7 if number == 0 else at if size else 0
        pointers += struct.pack("<HII", number, size, where)
        at += size if number else 0
    data = _section(0, pointers) + b"".join(sections.values())
    data = struct.pack("<I", 6 + len(data)) + data
    file.with_suffix(".scp").write_bytes(_crc(data) + data)
    return file.with_suffix(".scp")


def _xml(file: Path, text: str) -> Path:
    file.with_suffix(".xml").write_text(f'<?xml version="1.0" encoding="UTF-8"?>{text}')
    return file.with_suffix(".xml")


def _base64(row: np.ndarray) -> str:
    return base64.b64encode(row.astype("<i2").tobytes()).decode()


def muse(file: Path, steps: np.ndarray, base: str = "500", exponent: str = "0") -> Path:
    """GE MUSE with a median beat before the rhythm."""
    waves = ""
    for kind, values in (("Median", steps[:, :60] // 2), ("Rhythm", steps)):
        leads = "".join(
            f"<LeadData><LeadByteCountTotal>{2 * len(row)}</LeadByteCountTotal><LeadTimeOffset>0"
            f"</LeadTimeOffset><LeadSampleCountTotal>{len(row)}</LeadSampleCountTotal>"
            f"<LeadAmplitudeUnitsPerBit>{STEP}</LeadAmplitudeUnitsPerBit><LeadAmplitudeUnits>"
            f"MICROVOLTS</LeadAmplitudeUnits><LeadID>{name}</LeadID><LeadDataCRC32>"
            f"{zlib.crc32(row.astype('<i2').tobytes())}</LeadDataCRC32>"
            f"<WaveFormData>{_base64(row)}</WaveFormData></LeadData>"
            for name, row in zip(LEADS, values)
        )
        waves += f"<Waveform><WaveformType>{kind}</WaveformType><SampleBase>{base}</SampleBase>"
        waves += f"<SampleExponent>{exponent}</SampleExponent>{leads}</Waveform>"
    return _xml(file, f"<RestingECG><MuseInfo/>{waves}</RestingECG>")


def aecg(
    file: Path, steps: np.ndarray, increment: str = '"0.002" unit="s"', origin: str = "0"
) -> Path:
    """HL7 aECG, leads by their MDC codes."""
    leads = "".join(
        f'<component><sequence><code code="MDC_ECG_LEAD_{name.upper()}"/><value '
        f'xsi:type="SLIST_PQ"><origin value="{origin}" unit="uV"/><scale value="{STEP / 1000}" '
        f'unit="mV"/><digits>{" ".join(map(str, row))}</digits></value></sequence></component>'
        for name, row in zip(LEADS, steps)
    )
    return _xml(
        file,
        '<AnnotatedECG xmlns="urn:hl7-org:v3" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        '><component><series><code code="RHYTHM"/><component><sequenceSet><component><sequence>'
        '<code code="TIME_ABSOLUTE"/><value xsi:type="GLIST_TS"><head value="20240501080000.000"/>'
        f"<increment value={increment}/></value></sequence></component>{leads}</sequenceSet>"
        "</component></series></component></AnnotatedECG>",
    )


def sierra(file: Path, steps: np.ndarray) -> Path:
    """Philips Sierra 1.04, not compressed."""
    data = base64.b64encode(steps.astype("<i2").tobytes()).decode()
    return _xml(
        file,
        "<restingecgdata><documentinfo><documenttype>SierraECG</documenttype><documentversion>1.04"
        "</documentversion></documentinfo><dataacquisition/><waveforms><parsedwaveforms "
        f'dataencoding="Base64" compression="none" samplespersecond="{RATE}" resolution="{STEP}" '
        f'durationperchannel="{1000 * steps.shape[1] // RATE}" numberofleads="{len(steps)}" '
        f'leadlabels="{" ".join(LEADS)}">{data}</parsedwaveforms></waveforms></restingecgdata>',
    )


def mortara(file: Path, steps: np.ndarray) -> Path:
    """Mortara ELI."""
    rows = "".join(
        f'<CHANNEL NAME="{name}" OFFSET="0" BITS="16" FORMAT="SIGNED" UNITS_PER_MV="{1000 / STEP}" '
        f'DURATION="{len(row)}" SAMPLE_FREQ="{RATE}" ENCODING="BASE64" DATA="{_base64(row)}"/>'
        for name, row in zip(LEADS, steps)
    )
    return _xml(file, f'<ECG ACQUISITION_TIME="20240501080000">{rows}</ECG>')


def kardia(file: Path, steps: np.ndarray) -> Path:
    """A recording of Kardia's web interface; the filtered signal is another."""
    names = ("leadI", "leadII", "V1", "V6", "AVR")
    block = {"frequency": RATE, "amplitudeResolution": STEP * 1000, "numLeads": len(steps)}
    samples = {name: row.tolist() for name, row in zip(names, steps)}
    other = {name: [2 * value for value in row] for name, row in samples.items()}
    data = {"raw": {**block, "samples": samples}, "enhanced": {**block, "samples": other}}
    made = {"id": "x", "recordedAt": "2024-05-01T08:00:00Z", "patientID": "P1", "data": data}
    file.with_suffix(".json").write_text(json.dumps(made))
    return file.with_suffix(".json")


def atc(file: Path, steps: np.ndarray, crc: Callable[[bytes], int] = sum) -> Path:
    """Kardia's own file; V1, V6 and aVR are blocks 7, c and 4."""
    names = (b"ecg ", b"ecg2", b"ecg7", b"ecgc", b"ecg4")
    blocks = {b"info": b"\0" * 264, b"fmt ": struct.pack("<BHHBH", 1, RATE, int(STEP * 1000), 0, 0)}
    blocks |= {name: row.astype("<i2").tobytes() for name, row in zip(names, steps)}
    data = b"ALIVE\0\0\0" + struct.pack("<I", 5)
    for name, body in {**blocks, b"avg ": b"\1\0" * 9}.items():
        block = name + struct.pack("<I", len(body)) + body
        data += block + struct.pack("<I", crc(block) % 2**32)
    file.with_suffix(".atc").write_bytes(data)
    return file.with_suffix(".atc")


def ishne(file: Path, steps: np.ndarray) -> Path:
    """An ISHNE Holter file."""
    count = len(steps)
    head = bytearray(512)  # what the checksum covers, from byte 10
    struct.pack_into("<iiiih", head, 0, 0, steps.shape[1], 522, 522, 1)
    struct.pack_into("<h", head, 146, count)
    for i in range(12):
        there = i < count
        struct.pack_into("<h", head, 148 + 2 * i, ISHNE_CODES[LEADS[i]] if there else -9)
        struct.pack_into("<h", head, 196 + 2 * i, round(STEP * 1000) if there else 0)
    struct.pack_into("<h", head, 262, RATE)
    body = steps.T.astype("<i2").tobytes()
    file.with_suffix(".ecg").write_bytes(b"ISHNE1.0" + _crc(bytes(head)) + bytes(head) + body)
    return file.with_suffix(".ecg")


def mfer(file: Path, steps: np.ndarray) -> Path:
    """MFER of one frame, channels one after the other."""

    def field(tag: int, value: bytes) -> bytes:
        return bytes([tag, len(value)]) + value

    data = field(0x40, b"MFR ".ljust(32)) + field(0x01, b"\1")  # little-endian
    data += field(0x0B, struct.pack("<BbH", 0, 0, RATE)) + field(0x0A, b"\0")
    data += field(0x0C, struct.pack("<BbH", 0, -9, round(STEP * 1000)))
    data += field(0x04, struct.pack("<I", steps.shape[1])) + field(0x05, struct.pack("<I", 5))
    data += field(0x06, struct.pack("<I", 1))
    for i, name in enumerate(LEADS):
        data += bytes([0x3F, i, 4, 0x09, 2]) + struct.pack("<H", SCP_CODES[name])
    body = steps.astype("<i2").tobytes()
    data += bytes([0x1E, 0x84]) + struct.pack(">I", len(body)) + body + b"\x80\0"
    file.with_suffix(".mwf").write_bytes(data)
    return file.with_suffix(".mwf")


WRITERS: tuple[Callable[[Path, np.ndarray], Path], ...] = (
    *(dicom, scp, muse, aecg, sierra, mortara, kardia, atc, ishne, mfer),
)


def edf(
    path: Path,
    steps: Sequence[np.ndarray],
    names: Sequence[str],
    *,
    units: Sequence[str] | str = "uV",
    physical: tuple[float, float] | None = None,
    digital: tuple[int, int] | None = None,
    rates: Sequence[int] | int = RATE,
    kind: str = "",
    begins: Sequence[float] = (),
    bdf: bool = False,
) -> Path:
    """A file of whole seconds: of each signal (time,) steps. physical: of the whole range of steps,
    in the unit; else a step is 1. begins: what the time stamps say, in seconds.
    """
    width, full = (3, (-(2**23), 2**23 - 1)) if bdf else (2, (-(2**15), 2**15 - 1))
    units = [units] * len(steps) if isinstance(units, str) else units
    each = [rates] * len(steps) if isinstance(rates, int) else list(rates)
    low, high = digital or full
    signals = [
        (name, "", unit, *(physical or (low, high)), low, high, "", rate, "")
        for name, unit, rate in zip(names, units, each)
    ]
    if begins:
        label = f"{'BDF' if bdf else 'EDF'} Annotations"
        signals.append((label, "", "", -1, 1, *full, "", 30 // width, ""))
    count = len(steps[0]) // each[0]
    sizes = (str(256 * (1 + len(signals))), kind or "24BIT" * bdf, str(count), "1")
    head = ("X X X X", "Startdate X X X X", "01.01.20", "00.00.00", *sizes, str(len(signals)))
    widths = (80, 80, 8, 8, 8, 44, 8, 8, 4)
    text = "".join(part.ljust(n) for part, n in zip(head, widths))
    for column, n in zip(zip(*signals), (16, 80, 8, 8, 8, 8, 8, 80, 8, 32)):
        text += "".join(str(part).ljust(n) for part in column)
    made = (b"\xffBIOSEMI" if bdf else b"0       ") + text.encode("latin-1")
    for k in range(count):
        for row, rate in zip(steps, each):
            wide = row[k * rate : (k + 1) * rate].astype("<i4")
            made += wide.view("u1").reshape(-1, 4)[:, :width].tobytes()
        if begins:
            made += f"{begins[k]:+g}\x14\x14".encode().ljust(30, b"\0")
    path = path.with_suffix(".bdf" if bdf else ".edf")
    path.write_bytes(made)
    return path
