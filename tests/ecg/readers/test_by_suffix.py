"""Recordings from anywhere: what was written in each format comes back in mV, leads by name; what a
file does not state is asked for; a file that cannot be trusted is refused with its reason.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import wfdb as package

from ecgbench.ecg.readers import by_suffix, wfdb
from ecgbench.ecg.readers.notation import ReadOptions, per_mv
from ecgbench.errors import BadRecord, BadSetting
from tests.ecg.readers import hospital_files as files

RATE = 256
NAMES = ("Resp", "EKG V1", "Lead I", "ecg_avr")
LEADS = ("V1", "I", "aVR")
ALL = ReadOptions(fs=RATE, unit="mV", signals=("I",))


@pytest.fixture
def signal() -> np.ndarray:
    """(4, 512) mV; the first is no lead."""
    return np.random.default_rng(1).integers(-2000, 2000, (4, 512)) / 1000


def _wfdb(file: Path, signal: np.ndarray) -> Path:
    words = {"fs": RATE, "units": ["l", "uV", "mV", "V"], "sig_name": list(NAMES)}
    scaled = signal * np.array([[1], [1000], [1], [0.001]])
    gains = {"adc_gain": [1000, 1, 1000, 1e6], "baseline": [0] * 4, "fmt": ["16"] * 4}
    package.wrsamp("r", p_signal=scaled.T, write_dir=str(file.parent), **words, **gains)
    return file.with_suffix(".hea")


def _csv(file: Path, signal: np.ndarray) -> Path:
    table = np.vstack([np.arange(512) / RATE, signal * np.array([[1], [1000], [1], [1]])]).T
    head = "Device,Nice\nSample Rate,256 Hz\nUnit,mV\n\ntime (s),Resp,EKG V1 (uV),Lead I,ecg_avr"
    np.savetxt(file.with_suffix(".csv"), table, "%.6f", ",", header=head, comments="")
    return file.with_suffix(".csv")


def _semicolons(file: Path, signal: np.ndarray) -> Path:
    rows = "\r\n".join(";".join(f"{v:.3f}".replace(".", ",") for v in row) for row in signal.T)
    head = f"# Sample rate: {RATE}\r\n# Unit: mV\r\n" + ";".join(NAMES)
    file.with_suffix(".txt").write_bytes(f"{head}\r\n{rows}\r\n".encode("utf-16"))
    return file.with_suffix(".txt")


def _rdsamp(file: Path, signal: np.ndarray) -> Path:
    """As PhysioNet's rdsamp prints it: a line of units below that of names."""
    rows = "\n".join("\t".join(f"{v:.3f}" for v in row) for row in signal.T)
    names = "\t".join(f"'{name}'" for name in NAMES)
    file.with_suffix(".tsv").write_text(f"fs={RATE}\n{names}\n'l'\t'mV'\t'mV'\t'mV'\n{rows}\n")
    return file.with_suffix(".tsv")


def _edf(file: Path, signal: np.ndarray, bdf: bool = False) -> Path:
    units = ["", "uV", "uV", "uV"]
    return files.edf(file, np.round(signal * 1000), NAMES, units=units, rates=RATE, bdf=bdf)


def _bdf(file: Path, signal: np.ndarray) -> Path:
    return _edf(file, signal, bdf=True)


def _npy(file: Path, signal: np.ndarray) -> Path:
    np.save(file.with_suffix(".npy"), signal.T)
    return file.with_suffix(".npy")


def _npz(file: Path, signal: np.ndarray) -> Path:
    np.savez(file.with_suffix(".npz"), x=signal * 1e6, fs=RATE, unit="nV", leads=np.array(NAMES))
    return file.with_suffix(".npz")


@pytest.mark.parametrize("write", [_wfdb, _csv, _semicolons, _rdsamp, _edf, _bdf, _npy, _npz])
def test_what_was_written_comes_back_in_millivolts(
    write: Callable[[Path, np.ndarray], Path], signal: np.ndarray, tmp_path: Path
) -> None:
    said = ReadOptions(fs=RATE, unit="mV", signals=NAMES) if write is _npy else ReadOptions()
    found = by_suffix.read(write(tmp_path / "r", signal), "r", "p", said)
    assert (found.leads, found.fs, found.unit) == (LEADS, RATE, "mV")
    np.testing.assert_allclose(found.signal, signal[1:], atol=2e-4)


@pytest.mark.parametrize("fmt", ["16", "212", "61"])
def test_formats_of_wfdb(fmt: str, tmp_path: Path) -> None:
    steps = np.random.default_rng(3).integers(-2000, 2000, (333, 3))
    words = {"fs": RATE, "units": ["mV"] * 3, "sig_name": ["I", "V2", "resp"]}
    more = {"adc_gain": [200.0] * 3, "baseline": [7] * 3, "write_dir": str(tmp_path)}
    package.wrsamp("r", d_signal=steps, fmt=["212" if fmt == "212" else "16"] * 3, **words, **more)
    if fmt == "61":  # which the package neither writes nor reads
        (tmp_path / "r.dat").write_bytes(steps.astype(">i2").tobytes())
        header = (tmp_path / "r.hea").read_text()
        (tmp_path / "r.hea").write_text(header.replace("r.dat 16 ", "r.dat 61 "))
    found = by_suffix.read(tmp_path / "r.hea", "r", "p", ReadOptions())
    assert found.leads == ("I", "V2")
    np.testing.assert_allclose(found.signal.T, (steps[:, :2] - 7) / 200, atol=1e-6)
    (tmp_path / "r.dat").write_bytes((tmp_path / "r.dat").read_bytes()[:-9])
    with pytest.raises(BadRecord, match="truncated"):
        by_suffix.read(tmp_path / "r.hea", "r", "p", ReadOptions())


def test_a_missing_sample_of_format_212_is_refused(tmp_path: Path) -> None:
    steps = np.zeros((10, 1), int)
    steps[4] = -2048
    words = {"fs": RATE, "units": ["mV"], "sig_name": ["I"], "fmt": ["212"], "adc_gain": [200.0]}
    package.wrsamp("r", d_signal=steps, baseline=[0], write_dir=str(tmp_path), **words)
    with pytest.raises(BadRecord, match=r"1 samples are (NaN|missing)"):
        by_suffix.read(tmp_path / "r.hea", "r", "p", ReadOptions())


@pytest.mark.parametrize(
    ("said", "asks"),
    [
        (ReadOptions(unit="mV", signals=("I",)), "does not state its rate; .* --fs 500"),
        (ReadOptions(fs=500, signals=("I",)), "does not state its unit; .* --unit mV"),
        (ReadOptions(fs=500, unit="mV"), "does not state the name of its signal; .* --signals I"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".npy"])
def test_what_nobody_says_is_asked_for(
    said: ReadOptions, asks: str, suffix: str, tmp_path: Path
) -> None:
    file = tmp_path / f"r{suffix}"
    np.save(file, np.arange(100) % 3) if suffix == ".npy" else file.write_text("1\n2\n" * 50)
    with pytest.raises(BadSetting, match=asks) as caught:
        by_suffix.read(file, "r", "p", said)
    assert "\n" not in str(caught.value)
    assert by_suffix.read(file, "r", "p", ReadOptions(fs=500, unit="mV", signals=("I",))).leads == (
        "I",
    )


def test_names_of_ones_own_are_understood_and_what_contradicts_the_file_stops_it(
    signal: np.ndarray, tmp_path: Path
) -> None:
    names = ("Resp=II", "Lead I=III")
    file = _csv(tmp_path / "r", signal)
    found = by_suffix.read(file, "r", "p", ReadOptions(fs=RATE, signals=names))
    assert (found.leads, found.fs) == (("II", "V1", "III", "aVR"), RATE)
    np.testing.assert_allclose(found.signal, signal, atol=1e-5)
    for other, both in (
        (ReadOptions(fs=999), "256 Hz .*999 Hz"),
        (ReadOptions(unit="V"), "1000 by .*V"),
    ):
        with pytest.raises(BadRecord, match=both):
            by_suffix.read(file, "r", "p", other)


@pytest.mark.parametrize("write", [_edf, _wfdb])
def test_what_is_said_for_other_files_changes_none_with_a_header(
    write: Callable[[Path, np.ndarray], Path], signal: np.ndarray, tmp_path: Path
) -> None:
    file = write(tmp_path / "r", signal)
    right = by_suffix.read(file, "r", "p", ReadOptions())
    found = by_suffix.read(file, "r", "p", ReadOptions(fs=999, unit="nV"))
    assert found.fs == right.fs
    np.testing.assert_array_equal(found.signal, right.signal)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-700])


def _page(file: Path) -> None:
    file.write_text("<html>\n" * 500)


def _hole(file: Path) -> None:
    lines = file.read_text().splitlines()
    lines[55] = re.sub(r",[^,]*", ",", lines[55], count=1)
    file.write_text("\n".join(lines))


FAULTS: dict[str, tuple[Callable[[Path, np.ndarray], Path], Callable[[Path], None], str]] = {
    "EDF cut": (_edf, _cut, "Incomplete data record"),
    "EDF web page": (_edf, _page, "cannot be read as EDF"),
    "BDF empty": (_bdf, lambda file: file.write_text("") and None, "is empty"),
    "npy cut": (_npy, _cut, "cannot be read as an array"),
    "npz cut": (_npz, _cut, "cannot be read as an array"),
    "CSV hole": (_csv, _hole, "r: .*"),
    "CSV web page": (_csv, _page, "no line of numbers"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_with_its_reason(fault: str, signal: np.ndarray, tmp_path: Path) -> None:
    write, spoil, reason = FAULTS[fault]
    file = write(tmp_path / "r", signal)
    spoil(file)
    said = ReadOptions() if fault == "CSV hole" else ALL
    if fault == "CSV hole":  # of a signal that is no lead: it costs nothing
        assert by_suffix.read(file, "r", "p", said).leads == LEADS
        file.write_text(re.sub(r",,[^,]*,", ",1,,", file.read_text()))
        reason = "1 samples are missing .* sample 51 of lead V1"
    with pytest.raises(BadRecord, match=reason) as caught:
        by_suffix.read(file, "r", "p", said)
    assert str(caught.value).startswith("r: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("write", [_npy, _npz, _edf, _csv, _wfdb])
def test_changed_bytes_are_read_or_refused_and_nothing_else(
    write: Callable[[Path, np.ndarray], Path], signal: np.ndarray, tmp_path: Path
) -> None:
    file, draw = write(tmp_path / "r", signal), np.random.default_rng(0)
    if write is _npz:  # the kind whose damage only its decompression meets
        np.savez_compressed(file, x=signal[1:2], fs=RATE)
    whole = file.read_bytes()
    for _ in range(50):
        content = bytearray(whole)
        content[int(draw.integers(min(len(content), 400)))] = int(draw.integers(256))
        file.write_bytes(content)
        with suppress(BadRecord, BadSetting):
            by_suffix.read(file, "r", "p", ALL)


HEAD = "Lead,Lead I\nUnit,uV\n"


def test_a_column_that_counts_the_samples_is_no_part_of_them(tmp_path: Path) -> None:
    steps = np.random.default_rng(0).integers(400, 600, 30)
    for names, signals in (("sample,value", "value=I"), ("time,value", "value=I")):
        lines = "\n".join(f"{i},{step}" for i, step in enumerate(steps))
        (tmp_path / "r.csv").write_text(f"Sample Rate,500\n{HEAD}\n{names}\n{lines}\n")
        found = by_suffix.read(tmp_path / "r.csv", "r", "p", ReadOptions(signals=(signals,)))
        np.testing.assert_allclose(found.signal[0], steps / 1000, rtol=1e-6)
    # one signal whose decimals are written with a comma
    (tmp_path / "r.csv").write_text(f"Sample Rate,500\n{HEAD}\n" + "1,5\n2,5\n2,25\n")
    found = by_suffix.read(tmp_path / "r.csv", "r", "p", ReadOptions())
    np.testing.assert_allclose(found.signal[0], [0.0015, 0.0025, 0.00225], rtol=1e-6)


def test_a_row_that_counts_is_no_lead_under_any_name(signal: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "r.npy", np.vstack([np.arange(512), signal[1:2]]))
    said = ReadOptions(fs=RATE, unit="mV", signals=("I", "II"))
    found = by_suffix.read(tmp_path / "r.npy", "r", "p", said)
    assert found.leads == ("II",)
    np.testing.assert_allclose(found.signal, signal[1:2], atol=1e-6)


def test_an_npz_that_says_nothing_by_an_empty_array_is_asked_about(tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", x=np.zeros(500), fs=np.zeros(0), unit="mV", leads=["I"])
    with pytest.raises(BadSetting, match="does not state its rate"):
        by_suffix.read(tmp_path / "r.npz", "r", "p", ReadOptions())


@pytest.mark.parametrize("unit", ["", "mmHg", "mV/s", "0mV", "dB"])
def test_what_is_no_unit_of_voltage_is_none(unit: str) -> None:
    assert per_mv(unit) is None


@pytest.mark.real
def test_genuine_files_read_alike_by_header_and_as_a_table(real_data: Path, tmp_path: Path) -> None:
    for header in sorted((real_data / "samples" / "challenge-2021" / "georgia").glob("*.hea")):
        one = by_suffix.read(header, "r", "p", ReadOptions())
        direct = wfdb.read(header.with_suffix(""), "r", "p")
        np.testing.assert_array_equal(one.signal, direct.signal)
        head = ",".join(f"{name} (mV)" for name in one.leads)
        np.savetxt(tmp_path / "r.csv", one.signal.T, "%.4f", ",", header=head, comments="")
        table = by_suffix.read(tmp_path / "r.csv", "r", "p", ReadOptions(fs=500))
        np.testing.assert_allclose(table.signal, one.signal, atol=1e-4)
    (tables,) = (real_data / "samples" / "chapman" / "ECGDataDenoised").glob("*.csv")
    names = ("I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6")
    found = by_suffix.read(tables, "r", "p", ReadOptions(fs=500, unit="uV", signals=names))
    assert found.signal[0, 0] == np.float32(-0.16533)
