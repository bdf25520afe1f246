"""Reading WFDB: what was written comes back; whatever does not agree with itself is refused with
its own reason.
"""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import by_suffix, cleaned, wfdb
from ecgbench.ecg.readers.notation import ReadOptions
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


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "no .dat": (lambda p: p.with_suffix(".dat").unlink(), r"00007_hr\.dat is missing"),
    "no header": (lambda p: p.with_suffix(".hea").unlink(), r"00007_hr\.hea is missing"),
    "empty .dat": (_dat(lambda _: b""), r"00007_hr\.dat is empty"),
    "empty header": (lambda p: p.with_suffix(".hea").write_text(""), r"00007_hr\.hea is empty"),
    "truncated": (_dat(lambda d: d[:-24]), "truncated: 119976 bytes of the 120000"),
    "appended": (_dat(lambda d: d + b"\0" * 24), "has 120024 bytes"),
    "html": (
        _dat(lambda d: (b"<!DOCTYPE html><html>404</html>\n" * len(d))[: len(d)]),
        "checksum of lead I ",
    ),
    "one bit": (_dat(lambda d: d[:100] + bytes([d[100] ^ 4]) + d[101:]), "checksum of lead"),
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
    "unit": (_replace("1000.0(0)/mV", "1000.0(0)/mmHg"), "unit 'mmHg' is not a unit of voltage"),
    "lead twice": (_replace(" AVL", " AVF"), "a lead is there twice"),
    "line lost": (_replace("00007_hr.dat 16 1000.0(0)/mV 16 0", "# "), "describes 11|wfdb refuses"),
    "format": (_replace("00007_hr.dat 16 ", "00007_hr.dat 7 "), "signal format|wfdb refuses"),
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


STEPS = np.random.default_rng(8).integers(-400, 400, (3, 120))


def _own(path: Path, signals: tuple[str, ...] = ()) -> Recording:
    return by_suffix.read(path.with_suffix(".hea"), "r", "p", ReadOptions(signals=signals))


def _write(
    folder: Path, specs: list[str], head: str = "r 3 500 120", names: str = "I II V1"
) -> Path:
    """A record of format 16; specs: format with what follows it, of each signal."""
    lines = [
        f"r.dat {spec} 200(0)/mV 16 0 {row[0]} {row.sum() % 65536} 0 {name}"
        for spec, row, name in zip(specs, STEPS, names.split(), strict=True)
    ]
    (folder / "r.hea").write_text("\n".join([head, *lines]) + "\n")
    (folder / "r.dat").write_bytes(STEPS.astype("<i2").T.tobytes())
    return folder / "r"


def test_a_skew_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRecord, match="II has a skew"):
        _own(_write(tmp_path, ["16", "16:7", "16"]))


def _packed(steps: np.ndarray, fmt: str) -> bytes:
    """(sample,) integers of an even number in formats that need no package."""
    if fmt == "212":
        a, b = (steps.reshape(-1, 2) & 0xFFF).T
        return np.stack([a & 0xFF, a >> 8 | b >> 8 << 4, b & 0xFF], 1).astype("u1").tobytes()
    return steps.astype({"16": "<i2", "61": ">i2"}[fmt]).tobytes()


@pytest.mark.parametrize("long", [0, 5e6])
@pytest.mark.parametrize("fmt", ["16", "61", "212"])
def test_several_samples_a_frame_are_read(
    fmt: str, long: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaned, "LONG", long)
    rng, each = np.random.default_rng(3), (2, 1, 2, 3)
    signals = [rng.integers(-40, 40, 100 * n) for n in each]
    frames = np.hstack([x.reshape(100, n) for x, n in zip(signals, each)])
    (tmp_path / "r.dat").write_bytes(_packed(frames.reshape(-1), fmt))
    names = ("II", "resp", "V1", "ppg")
    lines = [
        f"r.dat {fmt}x{n} 200(-3)/mV 12 0 0 {x.sum() % 65536} 0 {name}"
        for x, n, name in zip(signals, each, names)
    ]
    (tmp_path / "r.hea").write_text("\n".join(["r 4 125 100", *lines]) + "\n")
    found = _own(tmp_path / "r")
    assert (found.leads, found.fs) == (("II", "V1"), 250)
    np.testing.assert_allclose(found.signal[0], (signals[0] + 3) / 200, rtol=1e-6)
    np.testing.assert_allclose(found.signal[1], (signals[2] + 3) / 200, rtol=1e-6)


def test_a_date_that_cannot_be_read_costs_nothing_but_the_date(tmp_path: Path) -> None:
    right = _own(_write(tmp_path, ["16"] * 3)).signal
    for date in ("10:00:00 2020-01-31", "10:00:00 00/00/0000", "25:61:00 1/1/2020", "xx yy"):
        read = _own(_write(tmp_path, ["16"] * 3, head=f"r 3 500 120 {date}"))
        np.testing.assert_array_equal(read.signal, right)


def test_a_unit_outside_ascii_and_marks_of_missing_samples(tmp_path: Path) -> None:
    path = _write(tmp_path, ["16"] * 3)
    header = (tmp_path / "r.hea").read_text().replace("/mV", "/µV")
    for encoding in ("utf-8", "latin-1"):
        (tmp_path / "r.hea").write_bytes(header.encode(encoding))
        np.testing.assert_allclose(_own(path).signal, STEPS / 200_000, rtol=1e-6)
    STEPS[0, 3], kept = -9999, STEPS[0, 3]
    try:
        with pytest.raises(BadRecord, match="1 samples are missing"):
            _own(_write(tmp_path, ["16"] * 3))
    finally:
        STEPS[0, 3] = kept


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("r/2 3 500 240\na 120\nb 120\n", "multi-segment"),
        ("r/3 3 500 240\nr_layout 0\na 120\n~ 120\n", "multi-segment"),
        (
            "r 2 250 120\nr.dat 16x2 200 16 0 0 0 0 I\nr.dat 16 200 16 0 0 0 0 II\n",
            "different rates: I 500 Hz, II 250 Hz",
        ),
    ],
)
def test_what_is_not_read_is_refused_as_what_it_is(text: str, reason: str, tmp_path: Path) -> None:
    _write(tmp_path, ["16"] * 3)
    (tmp_path / "r.hea").write_text(text)
    with pytest.raises(BadRecord, match=reason):
        _own(tmp_path / "r")
