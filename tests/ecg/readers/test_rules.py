"""What no file may pass for ECG, and what hospital formats say of their samples: each by the right
value.
"""

import os
from pathlib import Path

import numpy as np
import pytest
import wfdb

from ecgbench.datasets import demo
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import by_suffix
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting
from tests.ecg.readers import hospital_files as files

REAL = os.environ.get("ECGBENCH_REAL_DATA")
DEVICES = Path(REAL or ".") / "devices"
genuine = pytest.mark.skipif(not DEVICES.is_dir(), reason="needs genuine recordings")
FS = 500


def read(path: Path, **stated: object) -> Recording:
    return by_suffix.read(path, "r", "p", ReadOptions(**stated))  # type: ignore[arg-type]


def as_csv(folder: Path, signal: np.ndarray, names: tuple[str, ...] = LEADS) -> Recording:
    """Of (lead, time) mV."""
    file = folder / "r.csv"
    head = ",".join(f"{name} (mV)" for name in names)
    np.savetxt(file, signal.T, fmt="%.6f", delimiter=",", header=head, comments="")
    return read(file, fs=float(FS))


@pytest.fixture(scope="module")
def ecg() -> np.ndarray:
    """(12, 5000) mV."""
    return demo.recording(3).signal.astype(np.float64)


def sierra(ecg: np.ndarray, dither: float = 0.0) -> np.ndarray:
    """11 s: the ECG ends after 10 s, then zeros and a pulse of 1 mV in all leads at once."""
    tail = np.zeros((12, 500))
    tail[:, 350:450] = 1.0
    tail += dither * np.random.default_rng(0).integers(-1, 2, tail.shape)
    return np.hstack([ecg, tail])


@pytest.mark.parametrize("dither", [0.0, 0.005])
def test_a_calibration_pulse_at_an_end_is_cut_off(
    ecg: np.ndarray, dither: float, tmp_path: Path
) -> None:
    for signal in (sierra(ecg, dither), sierra(ecg[:, ::-1], dither)[:, ::-1]):
        found = as_csv(tmp_path, signal)
        assert found.signal.shape[1] == pytest.approx(5000, abs=3)
        assert any(kind == "cut" for kind, _ in found.notes)
    whole = as_csv(tmp_path, ecg)
    assert whole.signal.shape[1] == 5000
    assert not any(kind == "cut" for kind, _ in whole.notes)


def test_copies_of_one_lead_are_no_pulse(ecg: np.ndarray, tmp_path: Path) -> None:
    long = np.hstack([ecg[1:2]] * 3)
    found = as_csv(tmp_path, np.vstack([long, long, long]), ("I", "II", "V1"))
    assert found.signal.shape[1] == long.shape[1]


def test_an_offset_of_all_leads_is_no_pulse(ecg: np.ndarray, tmp_path: Path) -> None:
    quiet = ecg.copy()
    quiet[:, :20] = 0.0
    assert as_csv(tmp_path, quiet + 5.12).signal.shape[1] == 5000
    np.savez(tmp_path / "r.npz", x=np.round(quiet * 400) + 2048, fs=FS, unit="2.5uV", leads=LEADS)
    found = read(tmp_path / "r.npz")
    assert np.abs(found.signal - quiet).max() < 0.03


def test_a_quiet_end_is_ecg_and_seconds_of_nothing_are_not(ecg: np.ndarray, tmp_path: Path) -> None:
    quiet = ecg.copy()
    quiet[:, -200:] = quiet[:, -200:-199]
    assert as_csv(tmp_path, quiet).signal.shape[1] == 5000
    silent = ecg.copy()
    silent[:, -800:] = 0
    assert as_csv(tmp_path, silent).signal.shape[1] == 4200


@pytest.mark.parametrize("value", [0.0, 0.01526, -3.2])
def test_a_lead_of_one_value_was_not_measured(
    ecg: np.ndarray, value: float, tmp_path: Path
) -> None:
    signal = ecg.copy()
    signal[1] = signal[7] = value
    found = as_csv(tmp_path, signal[[0, 1, 7]], ("I", "II", "V2"))
    assert found.leads == ("I",)
    assert found.completed().leads == ("I",), "no limb lead is made of it"


def test_no_lead_is_made_of_one_that_holds_its_value_for_seconds(
    ecg: np.ndarray, tmp_path: Path
) -> None:
    signal = ecg.copy()
    signal[1, 1000:2500] = signal[1].max()
    found = as_csv(tmp_path, signal)
    assert ("held", "II holds one value for 3.0 s") in found.notes
    assert as_csv(tmp_path, signal[:2], ("I", "II")).completed().leads == ("I", "II")
    three = as_csv(tmp_path, signal[:3], ("I", "II", "III")).completed()
    np.testing.assert_allclose(three.signal[3:], ecg[3:6], atol=2e-3)  # of I and III
    long = as_csv(tmp_path, np.hstack([ecg[:2], signal[:2], ecg[:2]]), ("I", "II"))
    assert ("warning", "II holds one value for 3.0 s") in long.notes
    assert len(long.completed().leads) == 6


def channels(steps: np.ndarray, **of: list[float]) -> object:
    """A group whose channels have these fields each."""
    made = files.group(steps, "RHYTHM")
    for field, values in of.items():
        for channel, value in zip(made.ChannelDefinitionSequence, values):
            setattr(channel, field, value)
    return made


@pytest.mark.parametrize("field", ["ChannelSampleSkew", "ChannelTimeSkew"])
def test_channels_that_were_sampled_later_are_refused(
    ecg: np.ndarray, field: str, tmp_path: Path
) -> None:
    steps = np.round(ecg[:5] * 1000 / files.STEP).astype(int)
    with pytest.raises(BadRecord, match="sampled later"):
        read(files.dicom(tmp_path / "r", steps, channels(steps, **{field: [0, 7, 14, 0, 3]})))


def test_the_longest_group_is_the_rhythm_whatever_labels_say(
    ecg: np.ndarray, tmp_path: Path
) -> None:
    rows = [LEADS.index(name) for name in files.LEADS]
    steps = np.round(ecg[rows] * 1000 / files.STEP).astype(int)
    beat = files.group(steps[:, :600], "ECG")  # 1.2 s
    long = [files.group(steps, label) for label in ("RHYTHM", "", "MEDIAN BEAT", "AVERAGE")]
    other = files.group(steps // 2, "MEDIAN")  # of two equal ones the label decides
    for groups in (*([beat, one] for one in long), [beat, other, long[0]], [long[2]]):
        found = read(files.dicom(tmp_path / "r", steps, *groups))
        np.testing.assert_allclose(found.signal, steps * files.STEP / 1000, atol=1e-5)


def test_groups_of_other_leads_at_the_same_time_are_refused(
    ecg: np.ndarray, tmp_path: Path
) -> None:
    rows = [LEADS.index(name) for name in files.LEADS]
    steps = np.round(ecg[rows] * 1000 / files.STEP).astype(int)
    limb, chest, later, unknown = (
        files.group(part, "", first=first, offset=offset)
        for part, first, offset in (
            (steps[:2], 0, 0.0),
            (steps[2:], 2, 0.0),
            (steps[2:], 2, 10_000.0),
            (steps[2:], 2, None),
        )
    )
    strip = files.group(np.hstack([steps[:1]] * 2), "C")  # of one lead, twice as long
    found = read(files.dicom(tmp_path / "r", steps, strip, files.group(steps, "D")))
    assert sorted(found.leads) == sorted(files.LEADS)
    with pytest.raises(BadRecord, match="several groups"):
        read(files.dicom(tmp_path / "r", steps, chest, limb, strip))
    for other in (later, unknown):
        assert read(files.dicom(tmp_path / "r", steps, limb, other)).leads == files.LEADS[2:]
    median = files.group(steps[:, :1100], "MEDIAN BEAT")  # 2.2 s
    assert read(files.dicom(tmp_path / "r", steps, median, strip)).leads == files.LEADS[:1]


def test_a_header_that_names_some_leads_takes_the_others_from_signals(
    ecg: np.ndarray, tmp_path: Path
) -> None:
    one = {"fs": 360, "units": ["mV"] * 2, "sig_name": ["MLII", "V5"], "fmt": ["16"] * 2}
    wfdb.wrsamp("r", p_signal=ecg[[1, 10]].T, write_dir=str(tmp_path), **one)
    for signals, leads in (("II", "V5"), ("II", "V5")), (("V1", "V2"), ("V5",)), ((), ("V5",)):
        assert read(tmp_path / "r.hea", signals=signals).leads == leads


def test_a_padding_value_in_the_middle_is_a_voltage(ecg: np.ndarray, tmp_path: Path) -> None:
    rows = [LEADS.index(name) for name in files.LEADS]
    steps = np.round(ecg[rows] * 1000 / files.STEP).astype(int)
    rhythm = files.group(steps, "RHYTHM")
    rhythm.add_new("WaveformPaddingValue", "OW", np.int16(0).tobytes())
    assert (steps == 0).any()
    found = read(files.dicom(tmp_path / "r", steps, rhythm))
    np.testing.assert_allclose(found.signal, steps * files.STEP / 1000, atol=1e-5)


def test_a_step_without_a_unit_is_multiplied_once(ecg: np.ndarray, tmp_path: Path) -> None:
    rows = [LEADS.index(name) for name in files.LEADS]
    steps = np.round(ecg[rows] * 1000 / files.STEP).astype(int)
    text = (path := files.muse(tmp_path / "r", steps)).read_text()
    path.write_text(text.replace("MICROVOLTS", ""))
    found = read(path, unit="uV")
    np.testing.assert_allclose(found.signal, steps * files.STEP / 1000, atol=1e-5)
    with pytest.raises(BadRecord, match=r"2\.5 by the file"):
        read(path, unit="4.88uV")
    with pytest.raises(BadSetting):
        read(path)


def test_checksums_that_are_all_zero_are_not_stated(ecg: np.ndarray, tmp_path: Path) -> None:
    one = {"fs": 300, "units": ["mV"], "sig_name": ["I"], "fmt": ["16"], "adc_gain": [1000.0]}
    wfdb.wrsamp("r", p_signal=ecg[:1].T, write_dir=str(tmp_path), baseline=[0], **one)
    header = tmp_path / "r.hea"
    lines = header.read_text().split("\n")
    words = lines[1].split()
    lines[1] = " ".join([*words[:6], "0", *words[7:]])
    header.write_text("\n".join(lines))
    np.testing.assert_allclose(read(header).signal, ecg[:1], atol=1e-3)
    lines[1] = " ".join([*words[:6], "17", *words[7:]])
    header.write_text("\n".join(lines))
    with pytest.raises(BadRecord, match="checksum"):
        read(header)


def test_differences_of_format_8(tmp_path: Path) -> None:
    steps = np.cumsum(np.random.default_rng(0).integers(-90, 91, (2, 1500)), axis=1)
    first = steps[:, 0] - 5
    stored = np.diff(steps, axis=1, prepend=first[:, None]).T.astype(np.int8)
    stored.tofile(tmp_path / "r.dat")
    lines = ["r 2 250 1500"]
    for name, row, start in zip(("I", "II"), steps, first):
        lines.append(f"r.dat 8 1000/mV 16 0 {start} {int(row.sum()) % 65536} 0 {name}")
    (tmp_path / "r.hea").write_text("\n".join(lines) + "\n")
    np.testing.assert_allclose(read(tmp_path / "r.hea").signal, steps / 1000, atol=1e-6)


@genuine
def test_genuine_philips_files_end_where_the_ecg_ends() -> None:
    for name in ("v103_129DYPRG.XML", "v104_demo_patient.xml", "v10401_utf16.xml"):
        found = read(DEVICES / "formats" / name)
        assert found.fs == FS
        assert 10.0 < found.seconds <= 10.6
    found = read(DEVICES / "formats" / "philips_converted.xml")
    assert 10.0 < found.seconds <= 10.6


@genuine
def test_one_genuine_recording_in_three_formats_is_the_same() -> None:
    names = "ecgtoolkit_example_padding0.dcm", "ecgtoolkit_example.scp", "hl7_reference_example.xml"
    first, *others = (read(DEVICES / "formats" / name) for name in names)
    assert first.signal.shape == (12, 5000)
    for other in others:
        rows = [other.leads.index(name) for name in first.leads]
        assert np.abs(first.signal - other.signal[rows]).max() < 1e-7


@genuine
def test_genuine_files_of_the_challenge_2017_are_read() -> None:
    headers = sorted((DEVICES / "cinc2017").glob("*.hea"))
    assert len(headers) == 150
    for header in headers[::10]:
        found = read(header, signals=("ECG=I",))
        assert found.leads == ("I",)
        assert found.fs == 300
        steps = np.fromfile(header.with_suffix(".mat"), "<i2", offset=24)
        np.testing.assert_allclose(found.signal[0], steps / 1000, atol=1e-6)


def test_the_rhythm_of_muse_is_known_by_its_length_and_a_bad_lead_costs_itself(
    ecg: np.ndarray, tmp_path: Path
) -> None:
    steps = np.round(ecg[: len(files.LEADS)] * 1000 / files.STEP).astype(np.int64)
    file = files.muse(tmp_path / "r", steps)
    whole, text = read(file), file.read_text()
    for label in ("Rhythm", "Average", "", "Median"):
        file.write_text(
            text.replace("<WaveformType>Rhythm", "<WaveformType>Median").replace(
                "<WaveformType>Median", f"<WaveformType>{label}", 1
            )
        )
        np.testing.assert_array_equal(read(file).signal, whole.signal)
    for damaged in ("", "@@@", files._base64(steps[3, :100])):
        file.write_text(text.replace(files._base64(steps[3]), damaged))
        found = read(file)
        assert found.leads == (*whole.leads[:3], *whole.leads[4:])
        np.testing.assert_array_equal(found.signal, np.delete(whole.signal, 3, axis=0))
        assert any(kind == "not measured" and files.LEADS[3] in what for kind, what in found.notes)
