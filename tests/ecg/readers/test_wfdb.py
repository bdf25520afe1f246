"""Reading WFDB: what was written comes back; whatever does not agree with itself is refused with
its own reason.
"""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import wfdb
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord


@pytest.fixture
def written(ptbxl_copy: ModuleType, tmp_path: Path) -> tuple[Path, np.ndarray]:
    steps = ptbxl_copy.signal({"NORM": 100.0}, np.random.default_rng(5))
    ptbxl_copy.write_record(tmp_path / "00007_hr", steps)
    return tmp_path / "00007_hr", steps


def _read(path: Path) -> Recording:
    return wfdb.read(path, "00007", "p1", expected_fs=500, expected_gain=1000).clinical()


def test_what_was_written_comes_back_in_millivolts(written: tuple[Path, np.ndarray]) -> None:
    path, steps = written
    recording = _read(path)
    np.testing.assert_array_equal(recording.signal, (steps / 1000).astype(np.float32))
    assert (recording.leads, recording.fs, recording.unit, recording.patient) == (
        LEADS,
        500,
        "mV",
        "p1",
    )


def test_leads_are_taken_by_name_and_microvolts_become_millivolts(
    written: tuple[Path, np.ndarray],
) -> None:
    path, steps = written
    header = path.with_suffix(".hea")
    text = header.read_text().replace("1000.0(0)/mV", "1.0(250)/uV")
    lines = text.splitlines()
    lines[1], lines[7] = lines[1][: -len("I")] + "v1", lines[7][: -len("V1")] + "I"
    header.write_text("\n".join(lines) + "\n")
    recording = wfdb.read(path, "00007", "p1").clinical()
    np.testing.assert_allclose(recording.signal[0], (steps[6] - 250.0) / 1000, rtol=1e-6)
    np.testing.assert_allclose(recording.signal[6], (steps[0] - 250.0) / 1000, rtol=1e-6)


def _replace(old: str, new: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        text = path.with_suffix(".hea").read_text()
        assert old in text
        path.with_suffix(".hea").write_text(text.replace(old, new, 1))

    return change


def _dat(content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        file = path.with_suffix(".dat")
        file.write_bytes(content(file.read_bytes()))

    return change


def _swap_leads(data: bytes) -> bytes:
    steps = np.frombuffer(data, "<i2").reshape(-1, 12)
    return steps[:, [1, 0, *range(2, 12)]].tobytes()


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "no .dat": (lambda p: p.with_suffix(".dat").unlink(), r"00007_hr\.dat is missing"),
    "no header": (lambda p: p.with_suffix(".hea").unlink(), r"00007_hr\.hea is missing"),
    "empty .dat": (_dat(lambda _: b""), r"00007_hr\.dat is empty"),
    "empty header": (lambda p: p.with_suffix(".hea").write_text(""), r"00007_hr\.hea is empty"),
    "truncated": (_dat(lambda d: d[:-24]), "truncated: 119976 bytes of the 120000"),
    "half a sample": (_dat(lambda d: d[:-1]), "truncated"),
    "appended": (_dat(lambda d: d + b"\0" * 24), "has 120024 bytes"),
    "html": (
        _dat(lambda d: (b"<!DOCTYPE html><html>404</html>\n" * len(d))[: len(d)]),
        "checksum of lead I ",
    ),
    "one bit": (_dat(lambda d: d[:100] + bytes([d[100] ^ 4]) + d[101:]), "checksum of lead"),
    "leads swapped": (_dat(_swap_leads), "checksum of lead I "),
    "header is html": (
        lambda p: p.with_suffix(".hea").write_text("<html>\n<body>404 Not Found</body>\n</html>\n"),
        "wfdb refuses",
    ),
    "length": (
        _replace("12 500 5000", "12 500 4000"),
        r"states 4000 samples \(96000 bytes\), but 00007_hr\.dat has 120000 bytes",
    ),
    "no length": (_replace("12 500 5000", "12 500"), "does not state the length"),
    "rate": (_replace("12 500 5000", "12 250 5000"), "sampling rate 250 Hz, expected 500 Hz"),
    "gain": (_replace("1000.0(0)/mV", "200.0(0)/mV"), "gain 200 per mV, expected 1000"),
    "baseline": (_replace("1000.0(0)/mV", "1000.0(500)/mV"), "baseline 500 of lead I, expected 0"),
    "zero of the converter": (
        _replace("1000.0(0)/mV 16 0", "1000.0/mV 16 -7"),
        "baseline -7 of lead I, expected 0",
    ),
    "unit": (_replace("1000.0(0)/mV", "1000.0(0)/mmHg"), "unit 'mmHg' is no unit of voltage"),
    "lead twice": (_replace(" AVL", " AVF"), "a lead is there twice"),
    "line lost": (_replace("00007_hr.dat 16 1000.0(0)/mV 16 0", "# "), "describes 11|wfdb refuses"),
    "format": (_replace("00007_hr.dat 16 ", "00007_hr.dat 311 "), "signal format 16, 311; only"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_with_its_reason(fault: str, written: tuple[Path, np.ndarray]) -> None:
    spoil, reason = FAULTS[fault]
    spoil(written[0])
    with pytest.raises(BadRecord, match=reason) as caught:
        _read(written[0])
    assert str(caught.value).startswith("00007: ")
    assert "\n" not in str(caught.value)


def test_samples_marked_missing_are_nan_and_refused(
    ptbxl_copy: ModuleType, written: tuple[Path, np.ndarray]
) -> None:
    path, steps = written
    steps[3, 100:103] = -32768  # with a checksum that agrees
    ptbxl_copy.write_record(path, steps)
    with pytest.raises(BadRecord, match="3 samples are NaN"):
        _read(path)


def test_checksums_are_compared_modulo_65536(written: tuple[Path, np.ndarray]) -> None:
    path, steps = written
    found = int(steps[0].astype(int).sum()) % 65536
    _replace(f" {found} 0 I\n", f" {found - 65536} 0 I\n")(path)
    assert _read(path).leads == LEADS


def test_signals_that_are_no_leads_are_left_out_with_their_files(
    ptbxl_copy: ModuleType, tmp_path: Path
) -> None:
    """Other units, other formats and a file that is not there: nobody asks for them."""
    steps = ptbxl_copy.signal({"NORM": 100.0}, np.random.default_rng(6))
    ptbxl_copy.write_record(tmp_path / "r", steps)
    lines = (
        (tmp_path / "r.hea")
        .read_text()
        .replace(" AVL\n", " pleth\n")
        .replace("r 12 ", "r 13 ")
        .splitlines()
    )
    lines[5] = lines[5].replace("/mV", "/NU")
    lines.append("r.xyz 212 200(0)/L 12 0 0 0 0 respiration")
    (tmp_path / "r.hea").write_text("\n".join(lines) + "\n")
    recording = wfdb.read(tmp_path / "r", "r", "p")
    assert recording.leads == tuple(n for n in LEADS if n != "aVL")
    np.testing.assert_array_equal(
        recording.signal, (np.delete(steps, 4, axis=0) / 1000).astype(np.float32)
    )


def test_two_files_with_a_preamble_and_a_signal_between_read_as_wfdb_reads_them(
    tmp_path: Path,
) -> None:
    """The package that only parses our headers is asked for the samples too."""
    import wfdb as package

    steps = np.random.default_rng(8).integers(-3000, 3000, (5, 100)).astype("<i2")
    names = ["V2", "pleth", "II", "I", "aVR"]
    files = ["a.dat 16+7"] * 3 + ["b.dat 16"] * 2
    lines = [
        f"{file} 500(3)/mV 16 0 {row[0]} {row.sum() % 65536} 0 {name}"
        for file, row, name in zip(files, steps.astype(int), names)
    ]
    (tmp_path / "r.hea").write_text("\n".join(["r 5 500 100", *lines]) + "\n")
    (tmp_path / "a.dat").write_bytes(b"preface" + steps[:3].T.tobytes())
    (tmp_path / "b.dat").write_bytes(steps[3:].T.tobytes())
    recording = wfdb.read(tmp_path / "r", "r", "p")
    theirs, _ = package.rdsamp(str(tmp_path / "r"), channel_names=["V2", "II", "I", "aVR"])
    order = [recording.leads.index(name) for name in ("V2", "II", "I", "aVR")]
    np.testing.assert_array_equal(recording.signal[order], theirs.T.astype(np.float32))
