"""What carts, hospitals and watches export comes back in mV, by name, at its exact rate; what
cannot be trusted is refused in one line, also where the package that reads it only warns.
"""

import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pydicom
import pytest
from pydicom.data import get_testdata_file

from ecgbench.ecg.readers import by_suffix
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting
from tests.ecg.readers import hospital_files as files
from tests.ecg.readers.hospital_files import LEADS, RATE, STEP, WRITERS

Writer = Callable[[Path, np.ndarray], Path]


@pytest.fixture
def steps() -> np.ndarray:
    """(5, 1000) slow waves with jumps that need 8 and 16 bits."""
    rng = np.random.default_rng(4)
    made = np.cumsum(rng.integers(-8, 9, (len(LEADS), 1000)), axis=1)
    return made + 100 * (rng.random(made.shape) < 0.05) + 3000 * (rng.random(made.shape) < 0.01)


def read(path: Path, **stated: object) -> Recording:
    return by_suffix.read(path, "r", "p", ReadOptions(**stated))  # type: ignore[arg-type]


def millivolts(steps: np.ndarray) -> np.ndarray:
    return steps * STEP / 1000


@pytest.mark.parametrize("write", WRITERS)
def test_the_rhythm_comes_back_in_millivolts(
    write: Writer, steps: np.ndarray, tmp_path: Path
) -> None:
    found = read(write(tmp_path / "r", steps))
    assert sorted(found.leads) == sorted(LEADS)
    assert (found.fs, found.unit, found.seconds) == (RATE, "mV", 2)
    rows = [found.leads.index(name) for name in LEADS]
    np.testing.assert_allclose(found.signal[rows], millivolts(steps), atol=STEP / 4000)
    assert ("unit", "the file") in found.notes


def test_dicom_agrees_with_an_independent_reader(steps: np.ndarray, tmp_path: Path) -> None:
    genuine = Path(get_testdata_file("waveform_ecg.dcm", download=False))
    made = files.dicom(
        tmp_path / "r",
        steps,
        files.group(steps, "RHYTHM", ChannelSensitivityCorrectionFactor=1.25, ChannelBaseline=40),
    )
    for path, count in ((genuine, 12), (made, len(LEADS))):
        found, other = read(path), pydicom.dcmread(path)
        assert len(found.leads) == count
        names = [
            channel.ChannelSourceSequence[0].CodeMeaning.split("(")[0].removeprefix("Lead ").strip()
            for channel in other.WaveformSequence[0].ChannelDefinitionSequence
        ]
        assert [name.lower() for name in found.leads] == [name.lower() for name in names]
        microvolts = other.waveform_array(0).T
        np.testing.assert_allclose(found.signal * 1000, microvolts, rtol=1e-6, atol=1e-3)
        assert found.fs == other.WaveformSequence[0].SamplingFrequency


def test_an_offset_and_a_padding_of_dicom(steps: np.ndarray, tmp_path: Path) -> None:
    """PS3.3 C.10.9.1.4: step x sensitivity x correction + baseline, all in the stated unit."""
    rhythm = files.group(steps, "RHYTHM", ChannelBaseline=40)
    found = read(files.dicom(tmp_path / "r", steps, rhythm))
    np.testing.assert_allclose(found.signal, millivolts(steps) + 0.04, atol=STEP / 4000)
    steps[2, 7] = -9000
    rhythm = files.group(steps, "RHYTHM")
    rhythm.add_new("WaveformPaddingValue", "OW", np.int16(-9000).tobytes())
    with pytest.raises(BadRecord, match="samples are missing"):
        read(files.dicom(tmp_path / "r", steps, rhythm))


def test_rates_are_exact(steps: np.ndarray, tmp_path: Path) -> None:
    """The package keeps whole Hz; an interval in whole microseconds may mean them."""
    rhythm = files.group(steps, "RHYTHM", rate=250.5)
    assert read(files.dicom(tmp_path / "r", steps, rhythm)).fs == 250.5
    assert read(files.scp(tmp_path / "r", steps, microseconds=3906)).fs == 256
    assert read(files.scp(tmp_path / "r", steps, microseconds=3996)).fs == pytest.approx(1e6 / 3996)
    assert read(files.aecg(tmp_path / "r", steps, '"1953" unit="us"')).fs == 512
    assert read(files.aecg(tmp_path / "r", steps, '"3.996" unit="ms"')).fs == pytest.approx(
        1e6 / 3996
    )
    assert read(files.muse(tmp_path / "r", steps, base="5", exponent="2")).fs == 500
    for base, exponent in (("250.5", "0"), ("2505", "-1")):
        with pytest.raises(BadRecord, match="no whole number"):
            read(files.muse(tmp_path / "r", steps, base, exponent))


def test_an_origin_in_another_unit_and_an_inverted_lead(steps: np.ndarray, tmp_path: Path) -> None:
    found = read(files.aecg(tmp_path / "r", steps, origin="-500"))
    np.testing.assert_allclose(found.signal, millivolts(steps) - 0.5, atol=STEP / 4000)
    found = read(files.scp(tmp_path / "r", steps, names=("I", "II", "V1", "V6", "-aVR")))
    assert found.leads == LEADS
    np.testing.assert_allclose(found.signal[-1], -millivolts(steps)[-1], atol=STEP / 4000)
    assert ("inverted", "-aVR") in found.notes


def test_leads_that_do_not_belong_together(steps: np.ndarray, tmp_path: Path) -> None:
    """Three leads after three others, as paper shows them, are no recording of six leads."""
    with pytest.raises(BadRecord, match=r"different starts: I 0, II 0, V1 501"):
        read(files.scp(tmp_path / "r", steps, starts=(1, 1, 501, 501, 501)))
    text = (path := files.aecg(tmp_path / "r", steps)).read_text()
    path.write_text(text.replace("<digits>", "<digits>7 ", 1))
    with pytest.raises(BadRecord, match=r"different lengths in samples: I 1001, II 1000"):
        read(path)
    text = (path := files.mortara(tmp_path / "r", steps)).read_text()
    path.write_text(text.replace('SAMPLE_FREQ="500"', 'SAMPLE_FREQ="250"', 1))
    with pytest.raises(BadRecord, match=r"different rates in Hz: I 250, II 500"):
        read(path)
    first, second = files.group(steps[:3], "1 to 3"), files.group(steps[:2], "4 and 5")
    found = read(files.dicom(tmp_path / "r", steps, first, second))
    assert found.leads == LEADS[:3]
    assert ("warning", "a group of 2.00 s is left out") in found.notes
    text = (path := files.aecg(tmp_path / "r", steps)).read_text()
    at, end = text.index("<component><sequenceSet>"), text.index("</sequenceSet>")
    path.write_text(text[:end] + "</sequenceSet></component>" + text[at:])
    with pytest.raises(BadRecord, match="2 sequence sets"):
        read(path)
    only_median = files.group(steps[:, :600], "RHYTHM")  # 1.2 s
    with pytest.raises(BadRecord, match="no rhythm"):
        read(files.dicom(tmp_path / "r", steps, only_median))


def test_samples_of_scp_may_be_counted_from_0(steps: np.ndarray, tmp_path: Path) -> None:
    """Of all leads at once: one that begins at 1 beside one at 0 begins a sample later."""
    path = files.scp(tmp_path / "r", steps, starts=(0,) * 5)
    np.testing.assert_allclose(read(path).signal, millivolts(steps), atol=STEP / 4000)
    damaged = bytearray(path.read_bytes())
    damaged[-200] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(BadRecord, match=r"damaged|cannot be read"):
        read(path)
    for starts in ((0, 1, 1, 1, 1), (1, 1, 1, 0, 1)):
        with pytest.raises(BadRecord, match="different starts"):
            read(files.scp(tmp_path / "r", steps, starts=starts))


def test_a_group_of_dicom_with_more_samples_than_it_states(
    steps: np.ndarray, tmp_path: Path
) -> None:
    one = files.group(steps, "RHYTHM")
    one.NumberOfWaveformSamples //= 2
    with pytest.raises(BadRecord, match="more samples than it states"):
        read(files.dicom(tmp_path / "r", steps, one))


def test_the_header_of_ishne_may_state_a_nominal_number_of_samples(
    steps: np.ndarray, tmp_path: Path
) -> None:
    path = files.ishne(tmp_path / "r", steps)
    whole = path.read_bytes()

    def changed(at: int, value: bytes) -> Recording:
        data = bytearray(whole)
        data[at : at + len(value)] = value
        data[8:10] = files._crc(bytes(data[10:522]))
        path.write_bytes(data)
        return read(path)

    for stated in (1000, 5000, 43_200_000, 0, 7):
        found = changed(14, struct.pack("<i", stated))
        np.testing.assert_allclose(found.signal, millivolts(steps), atol=1e-3)
    for at, value in ((158 + 2 * 4, -9), (158 + 2 * 5, 12), (156, 4)):
        with pytest.raises(BadRecord, match=r"states . leads"):
            changed(at, struct.pack("<h", value))
    for size in (0, -9):  # of a step of II: not stated
        with pytest.raises(BadSetting, match="does not state its unit"):
            changed(206 + 2, struct.pack("<h", size))
    path.write_bytes(whole[:-2])
    with pytest.raises(BadRecord, match="truncated"):
        read(path)


def test_a_unit_that_the_file_does_not_state(steps: np.ndarray, tmp_path: Path) -> None:
    text = (path := files.muse(tmp_path / "r", steps)).read_text()
    path.write_text(text.replace("MICROVOLTS", ""))
    with pytest.raises(BadSetting, match="does not state its unit"):
        read(path)
    found = read(path, unit="uV")
    np.testing.assert_allclose(found.signal, millivolts(steps), atol=STEP / 4000)
    assert ("unit", "--unit") in found.notes
    found = read(files.scp(tmp_path / "r", steps), unit="mV")
    assert ("unit", "the file") in found.notes
    np.testing.assert_allclose(found.signal, millivolts(steps), atol=STEP / 4000)


@pytest.mark.parametrize("write", WRITERS)
def test_damaged_files_are_refused_in_one_line(
    write: Writer, steps: np.ndarray, tmp_path: Path
) -> None:
    path = write(tmp_path / "r", steps)
    whole = path.read_bytes()
    cuts = [0, 1, 7, 40, 130, *np.linspace(200, len(whole) - 3, 12).astype(int)]
    cuts = [cut - (write is files.ishne) * (cut % 10 == 2) for cut in cuts]  # not whole samples
    for damaged in (*(whole[:cut] for cut in cuts), b"\0" * 999, whole[::-1], b"{<x>" * 400):
        path.write_bytes(damaged)
        with pytest.raises(BadRecord) as refused:
            read(path)
        text = str(refused.value)
        assert text.startswith("r: ")
        assert "\n" not in text
        assert str(tmp_path) not in text


@pytest.mark.parametrize("write", [files.scp, files.muse, files.atc])
def test_a_changed_byte_of_a_format_with_checksums(
    write: Writer, steps: np.ndarray, tmp_path: Path
) -> None:
    path = write(tmp_path / "r", steps)
    whole = bytearray(path.read_bytes())
    whole[-300] ^= 1 if path.suffix != ".xml" else 0x20  # another letter of base64
    path.write_bytes(whole)
    with pytest.raises(BadRecord, match="damaged"):
        read(path)


def test_mfer_with_a_gap_or_without_some_of_its_samples(steps: np.ndarray, tmp_path: Path) -> None:
    path = files.mfer(tmp_path / "r", steps)
    whole = path.read_bytes()
    frame = whole[-(2 * steps.size + 8) : -2]
    for start in (1000, 60_000):
        path.write_bytes(whole[:-2] + bytes([0x07, 4]) + struct.pack("<I", start) + frame)
        if start == steps.shape[1]:
            assert read(path).seconds == 4
        else:
            with pytest.raises(BadRecord, match=r"gap .*starts at pointer 60000, expected 1000"):
                read(path)
    path.write_bytes(whole.replace(bytes([0x06, 4, 1]), bytes([0x06, 4, 2])))
    with pytest.raises(BadRecord, match="truncated"):
        read(path)


def test_a_step_of_dicom_in_no_unit_of_voltage(steps: np.ndarray, tmp_path: Path) -> None:
    """--unit must not make a step of 2.5 one of 1 uV."""
    rhythm = files.group(steps, "RHYTHM")
    for channel in rhythm.ChannelDefinitionSequence:
        del channel.ChannelSensitivityUnitsSequence
    with pytest.raises(BadRecord, match=r"a step of I is 2\.5 by the file, in no unit of voltage"):
        read(files.dicom(tmp_path / "r", steps, rhythm), unit="uV")


def test_a_step_that_is_no_number_is_not_1(steps: np.ndarray, tmp_path: Path) -> None:
    file = files.aecg(tmp_path / "r", steps)
    file.write_text(file.read_text().replace('scale value="0.0025"', 'scale value="0,0025"'))
    with pytest.raises(BadRecord, match="a step of I"):
        read(file)


def test_what_a_file_says_of_an_electrode_is_noted(steps: np.ndarray, tmp_path: Path) -> None:
    rhythm = files.group(steps, "RHYTHM", ChannelStatus="OK")
    rhythm.ChannelDefinitionSequence[2].ChannelStatus = "DISCONNECTED"
    notes = read(files.dicom(tmp_path / "r", steps, rhythm)).notes
    assert [what for kind, what in notes if kind == "warning"] == [
        "V1: channel_status DISCONNECTED"
    ]


def test_notes_quote_nothing_personal(steps: np.ndarray, tmp_path: Path) -> None:
    path = files.mfer(tmp_path / "r", steps)
    born = bytes([0x83, 7, 70]) + struct.pack("<HHBB", 0, 1950, 13, 1)
    path.write_bytes(path.read_bytes().replace(b"\x1e\x84", born + b"\x1e\x84", 1))
    assert "1950" not in str(read(path).notes)


def test_half_a_sample_of_atc(steps: np.ndarray, tmp_path: Path) -> None:
    path = files.atc(tmp_path / "r", steps)
    block = b"ecg " + struct.pack("<I", 601) + bytes(601)
    path.write_bytes(path.read_bytes() + block + struct.pack("<I", zlib.crc32(block)))
    with pytest.raises(BadRecord, match=r"I 300\.5, II 1000"):
        read(path)
    fmt = b"fmt " + struct.pack("<IBHHBH", 8, 1, 300, 500, 0, 0)
    alone = b"".join(part + struct.pack("<I", zlib.crc32(part)) for part in (fmt, block))
    path.write_bytes(b"ALIVE\0\0\0" + struct.pack("<I", 5) + alone)
    with pytest.raises(BadRecord, match=r"samples of each lead: I 300\.5"):
        read(path)


def test_both_checksums_of_atc(steps: np.ndarray, tmp_path: Path) -> None:
    assert read(files.atc(tmp_path / "r", steps, zlib.crc32)).leads == (
        "I",
        "II",
        "aVR",
        "V1",
        "V6",
    )


def test_other_xml_and_other_images_are_named(steps: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "r.xml").write_text("<html><body/></html>")
    with pytest.raises(BadRecord, match="none of DICOM Waveform, SCP-ECG, HL7 aECG, GE MUSE XML"):
        read(tmp_path / "r.xml")
    with pytest.raises(BadRecord, match="DICOM Waveform"):
        read(Path(get_testdata_file("CT_small.dcm", download=False)))


def test_without_the_extra(
    here: Callable[..., "subprocess.CompletedProcess[str]"],
    steps: np.ndarray,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "rec").mkdir()
    files.dicom(tmp_path / "rec" / "a", steps)
    (tmp_path / "labels.csv").write_text("record,af\na,1\n")
    monkeypatch.setitem(sys.modules, "ecgdatakit", None)
    monkeypatch.setitem(sys.modules, "ecgdatakit.parsing.parser", None)
    line = "reading .dcm needs the extra formats: pip install 'ecgbench-leads[formats]'"
    words = ("data", "import", "rec", "--labels", "labels.csv", "--name", "mine")
    done = here(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"ecgbench: {line}"
    files.atc(tmp_path / "b", steps)
    assert read(tmp_path / "b.atc").fs == RATE
