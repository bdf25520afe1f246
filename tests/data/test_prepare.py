"""The prepared store: exact, tied to its source, safe to kill, and strict about lost records."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ecgbench import datasets
from ecgbench.data.copy import Copy
from ecgbench.data.disk import verify
from ecgbench.data.prepare import find, find_any, prepare, prepare_and_check, state, where
from ecgbench.data.reading import encode
from ecgbench.data.select import Selection
from ecgbench.data.source import Source, rows
from ecgbench.datasets import ptbxl
from ecgbench.ecg.checks.scale import demand_possible
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting, EcgbenchError, MissingData


def _file(data: Path, record: int, suffix: str = ".dat") -> Path:
    return data / "ptbxl" / "records500" / "00000" / f"{record:05d}_hr{suffix}"


def _in_header(record: int, old: str, new: str) -> Callable[[Path], None]:
    def change(data: Path) -> None:
        file = _file(data, record, ".hea")
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))

    return change


# ---- what is stored


def test_the_store_gives_back_exactly_what_the_files_hold(fake_ptbxl: Path) -> None:
    copy = prepare("PTB-XL", fake_ptbxl, None)
    assert copy.folder.parent == fake_ptbxl / "prepared" / "ptbxl"
    assert len(copy.index) == 30
    assert copy.quarantined.empty
    assert set(copy.index["samples"]) == {5000}
    for row in rows(copy.index[copy.index["record"].isin(["00001", "00017", "00030"])]):
        record = row["record"]
        native, stored = ptbxl.read(fake_ptbxl / "ptbxl", row), copy.recording(record)
        np.testing.assert_array_equal(stored.signal, native.signal)
        facts = stored.record, stored.patient, stored.fs, stored.unit
        assert facts == (record, native.patient, 500, "mV")
    pd.testing.assert_frame_equal(
        copy.index[ptbxl.index(fake_ptbxl / "ptbxl").columns], ptbxl.index(fake_ptbxl / "ptbxl")
    )
    with pytest.raises(BadSetting, match="'00031'"):
        copy.recording("00031")


# ---- what is not as it was written


def _data(copy: Copy, number: int = 0) -> Path:
    return copy.folder / copy.parts.names[number] / "data"


def _spoil(file: Path, at: int, content: bytes) -> None:
    with file.open("r+b") as out:
        out.seek(at)
        out.write(content)


SIGNALS: dict[str, tuple[int, Callable[[Path], object]]] = {
    "one bit": (1, lambda file: _spoil(file, 121_000, b"\x55")),
    "a gain": (2, lambda file: _spoil(file, 2 * (120_000 + 54) + 10, b"\x55")),
    "its end": (29, lambda file: os.truncate(file, file.stat().st_size - 1000)),
}


@pytest.mark.parametrize(("row", "spoil"), SIGNALS.values(), ids=SIGNALS)
def test_a_recording_that_is_not_as_it_was_written_is_named_and_read_again(
    row: int,
    spoil: Callable[[Path], object],
    fake_ptbxl: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    copy = prepare("ptbxl", fake_ptbxl, None)
    record = copy.index["record"][row]
    signal = copy.recording(record).signal
    spoil(_data(copy))
    again = find("ptbxl", fake_ptbxl, None)
    np.testing.assert_array_equal(again.recording(record).signal, signal)
    (said,) = caplog.messages
    assert said.startswith(f"{copy.folder}: record {record} was not as it was written")
    after = find("ptbxl", fake_ptbxl, None)
    assert after.stored(record) is not None
    assert after.digest == copy.digest

    shutil.rmtree(copy.folder / after.parts.names[-1])
    _file(fake_ptbxl, row + 1).unlink()
    with pytest.raises(MissingData, match=rf"record {record} not as .* does not give it again \("):
        find("ptbxl", fake_ptbxl, None).recording(record)


@pytest.mark.parametrize("gone", [False, True])
def test_a_part_whose_table_is_damaged_is_set_aside_and_its_records_are_read_again(
    gone: bool, fake_ptbxl: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = prepare("ptbxl", fake_ptbxl, None, limit=6)
    whole = prepare("ptbxl", fake_ptbxl, None)
    table = _data(whole, 0).with_name("rows.parquet")
    table.unlink() if gone else _spoil(table, 500, b"\x01\x02")
    with pytest.raises(MissingData, match=r"only 24 of 30 records are prepared"):
        find("ptbxl", fake_ptbxl, None)
    again = prepare("ptbxl", fake_ptbxl, None)
    assert (again.digest, len(first.index)) == (whole.digest, 6)
    assert "is not as it was written; renamed to part-000000-" in caplog.messages[0]


def test_signals_that_are_no_whole_microvolts_or_too_large_keep_16_bits_per_lead() -> None:
    x = np.random.default_rng(0).normal(0, 1, (12, 500)).astype(np.float32)
    x[0] *= 1e-3
    x[1] *= 60
    x[2] = 0
    x[3] = np.float32(1 / 3)
    steps, gain = encode(
        Recording(signal=x, unit="mV", leads=LEADS, fs=500, record="a", patient="a")
    )
    restored = steps / gain[:, None]
    assert (np.abs(restored - x).max(axis=1) <= np.abs(x).max(axis=1) / 65_000).all()
    assert (np.ptp(restored[[2, 3]], axis=1) == 0).all()


def test_a_run_trusts_what_is_prepared_and_data_prepare_reads_what_changed(
    fake_ptbxl: Path, read: list[str]
) -> None:
    assert state("ptbxl", fake_ptbxl, None) == "downloaded"
    signals = fake_ptbxl / "ptbxl" / "records500"
    away = signals.rename(fake_ptbxl / "away")
    assert state("ptbxl", fake_ptbxl, None) == "downloaded"
    away.rename(signals)
    first = prepare("ptbxl", fake_ptbxl, None)
    assert state("ptbxl", fake_ptbxl, None) == "ready"
    os.utime(_file(fake_ptbxl, 3))
    _file(fake_ptbxl, 5).write_bytes(b"")
    read.clear()
    assert prepare("ptbxl", fake_ptbxl, None).digest == first.digest
    assert read == []
    again = prepare_and_check("ptbxl", fake_ptbxl, None)
    assert read == ["00003", "00005"]
    assert again.quarantined["record"].tolist() == ["00005"]
    _file(fake_ptbxl, 5).write_bytes(_file(fake_ptbxl, 6).read_bytes())
    shutil.copy(_file(fake_ptbxl, 6, ".hea"), _file(fake_ptbxl, 5, ".hea"))
    text = _file(fake_ptbxl, 5, ".hea").read_text()
    _file(fake_ptbxl, 5, ".hea").write_text(text.replace("00006", "00005"))
    read.clear()
    other = prepare_and_check("ptbxl", fake_ptbxl, None)
    assert read == ["00005"]
    assert len({first.digest, again.digest, other.digest}) == 3
    assert other.index["sha256"][4] == other.index["sha256"][5]


def test_the_digest_depends_on_content_and_not_on_the_place(
    fake_ptbxl: Path, tmp_path: Path, ptbxl_copy: ModuleType
) -> None:
    first = prepare("ptbxl", fake_ptbxl, None)
    moved = tmp_path / "elsewhere"
    shutil.copytree(fake_ptbxl / "ptbxl", moved / "ptbxl")
    second = prepare("ptbxl", moved, tmp_path / "p")
    assert second.folder.parent == tmp_path / "p" / "ptbxl"
    assert (second.folder.name, second.digest) == (first.folder.name, first.digest)
    steps = np.fromfile(_file(moved, 3), "<i2").reshape(-1, 12).T.copy()
    steps[5, 100] += 1
    ptbxl_copy.write_record(_file(moved, 3).with_suffix(""), steps)
    digests = {first.digest, prepare("ptbxl", moved, None).digest}
    assert len(digests) == 2
    table = moved / "ptbxl" / "ptbxl_database.csv"
    table.write_text(table.read_text().replace("'IRBBB': 100.0", "'ILBBB': 100.0", 1))
    assert prepare("ptbxl", moved, None).digest not in digests


# ---- a part, for a limit


def test_a_limit_reads_what_it_takes_and_a_larger_one_what_is_missing(
    fake_ptbxl: Path, read: list[str]
) -> None:
    part = prepare("ptbxl", fake_ptbxl, None, limit=6)
    assert len(read) == len(part.index) == 6
    assert (part.whole, state("ptbxl", fake_ptbxl, None)) == (False, "partial")
    assert verify(part) == []
    with pytest.raises(MissingData, match=r"only 6 of 30 records .* data prepare ptbxl --data"):
        find("ptbxl", fake_ptbxl, None)
    assert find("ptbxl", fake_ptbxl, None, limit=6).folder == part.folder
    read.clear()
    larger = prepare("ptbxl", fake_ptbxl, None, limit=12)
    assert {*read} == {*larger.index["record"]} - {*part.index["record"]}
    whole = prepare("ptbxl", fake_ptbxl, None)
    assert sorted(read) == sorted({*whole.index["record"]} - {*part.index["record"]})
    assert whole.whole
    assert whole.digest == prepare("ptbxl", fake_ptbxl, fake_ptbxl / "other").digest


@pytest.mark.long
@pytest.mark.parametrize("limit", [6, 20])
def test_a_limit_selects_the_same_records_whatever_was_read_before(
    fake_ptbxl: Path, tmp_path: Path, limit: int
) -> None:
    """Records that cannot be read stand among those that it would take."""
    sound = prepare("ptbxl", fake_ptbxl, tmp_path / "sound", limit=limit)
    for record in sound.index["record"][::5]:
        _file(fake_ptbxl, int(record)).write_bytes(b"")
    whole = Selection(prepare("ptbxl", fake_ptbxl, tmp_path / "whole"), limit)
    part = Selection(prepare("ptbxl", fake_ptbxl, tmp_path / "part", limit=limit), limit)
    assert part.prepared.count < whole.prepared.count == 30
    assert part.digest == whole.digest
    assert len(part.index) == limit
    assert not part.prepared.quarantined.empty
    prepare("ptbxl", fake_ptbxl, tmp_path / "grown", limit=4)
    grown = Selection(prepare("ptbxl", fake_ptbxl, tmp_path / "grown", limit=limit), limit)
    assert grown.digest == whole.digest


# ---- what is not trusted

FAULTS: dict[str, tuple[int, Callable[[Path], None], str]] = {
    "truncated": (1, lambda d: os.truncate(_file(d, 1), 60_000), "60000 bytes of the 120000"),
    "checksum": (4, _in_header(4, " 0 AVL", "1 0 AVL"), "checksum of lead AVL"),
    "rate": (5, _in_header(5, "12 500 5000", "12 250 5000"), "sampling rate 250 Hz"),
}


def test_bad_records_are_quarantined_each_with_its_reason(fake_ptbxl: Path) -> None:
    for _, spoil, _ in FAULTS.values():
        spoil(fake_ptbxl)
    copy = prepare("ptbxl", fake_ptbxl, None)
    reasons = dict(zip(copy.quarantined["record"], copy.quarantined["reason"]))
    assert list(reasons) == [f"{r:05d}" for r, _, _ in FAULTS.values()]
    for number, _, reason in FAULTS.values():
        assert reason in reasons[f"{number:05d}"]
        assert f"{number:05d}: " not in reasons[f"{number:05d}"]
    assert len(copy.index) == 30 - len(FAULTS)
    sixth = copy.index.iloc[copy.row("00006")]
    np.testing.assert_array_equal(
        copy.recording("00006").signal, ptbxl.read(fake_ptbxl / "ptbxl", sixth).signal
    )
    assert verify(find_any("ptbxl", fake_ptbxl, None)) == []


def test_missing_samples_and_files_are_quarantined_and_flat_leads_kept(
    fake_ptbxl: Path, ptbxl_copy: ModuleType
) -> None:
    steps = np.fromfile(_file(fake_ptbxl, 6), "<i2").reshape(-1, 12).T.copy()
    steps[3, 100] = -32768
    ptbxl_copy.write_record(_file(fake_ptbxl, 6).with_suffix(""), steps)
    _file(fake_ptbxl, 7).write_bytes(b"")
    _file(fake_ptbxl, 8, ".hea").unlink()
    flat = np.fromfile(_file(fake_ptbxl, 9), "<i2").reshape(-1, 12).T.copy()
    flat[[7, 9]] = [[0], [17]]
    ptbxl_copy.write_record(_file(fake_ptbxl, 9).with_suffix(""), flat)
    copy = prepare("ptbxl", fake_ptbxl, None)
    assert copy.quarantined["reason"].tolist() == [
        "1 samples are NaN (marked as missing in the file)",
        "00007_hr.dat is empty",
        "00008_hr.hea is missing",
    ]
    assert copy.index.set_index("record")["flat"].loc[["00009", "00010"]].tolist() == ["V2+V4", ""]


def test_a_voltage_that_no_heart_makes_is_set_aside_with_lead_and_unit(
    fake_ptbxl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the edge: 49.99 mV stays, 50 mV does not; standardised values have no such edge."""
    plain, reached = ptbxl.read, {"00004": 49.99, "00005": -50.0, "00006": 3e5}

    def read(root: Path, row: dict[str, Any]) -> Recording:
        recording = plain(root, row)
        if row["record"] in reached:
            recording.signal[7, 1234] = reached[row["record"]]
        return recording

    monkeypatch.setattr(ptbxl, "read", read)
    copy = prepare("ptbxl", fake_ptbxl, None)
    reasons = dict(zip(copy.quarantined["record"], copy.quarantined["reason"]))
    assert list(reasons) == ["00005", "00006"]
    assert "lead V2 reaches 50 mV, where an ECG stays below 50 mV" in reasons["00005"]
    assert "lead V2 reaches 3e+05 mV" in reasons["00006"]
    of: dict[str, Any] = {"leads": ("II",), "fs": 500, "record": "a", "patient": "a"}
    signal = np.full((1, 9), 99.0, np.float32)
    demand_possible(Recording(signal=signal, unit="standardised", **of))


def test_too_many_lost_stops_and_names_reasons_and_nothing_is_known_of_them(
    fake_ptbxl: Path, read: list[str]
) -> None:
    for record in range(1, 7):
        _file(fake_ptbxl, record).rename(_file(fake_ptbxl, record, ".gone"))
    why = r"6 records in .* 00001: .* is missing; 00002: .*ecgbench data prepare ptbxl"
    for _ in range(2):
        with pytest.raises(MissingData, match=why):
            prepare("ptbxl", fake_ptbxl, None)
    for record in range(1, 7):
        _file(fake_ptbxl, record, ".gone").rename(_file(fake_ptbxl, record))
    assert prepare("ptbxl", fake_ptbxl, None).quarantined.empty


DATASET = """from pathlib import Path
from dataclasses import replace
from ecgbench.datasets import demo
CARD = {card}
def index(root): {index}
def read(root, row): {read}
"""


TABLE = "return demo.index(root)"
FAULTS_OF_CODE = [  # part of the plug-in, its code, what is told
    ("index", "raise ValueError('boom')", r"mine.py:5: ValueError: boom"),
    ("index", "return None", r"its index\(\) gives a NoneType"),
    ("index", TABLE + ".assign(record=range(180))", "column record of its index holds 0"),
    ("index", TABLE + ".assign(patient=None)", "has no patient"),
    (
        "index",
        TABLE + ".assign(x=1).rename(columns={'x': 5})",
        "row of column names .* holds 5",
    ),
    ("read", "raise KeyError(5)", r"mine.py:6: KeyError: 5"),
    ("read", "return None", r"its read\(\) gives a NoneType"),
    ("read", "return Path('gone').read_bytes()", "6 records cannot be used.* of 180 "),
    ("card", "{}", r"\(.*mine.py\): its CARD is a dict"),
    ("card", "replace(demo.CARD, tasks=demo.CARD.tasks[0])", r"mine.py:4: .* tasks is Task"),
]


@pytest.mark.parametrize(("part", "code", "told"), FAULTS_OF_CODE)
def test_a_dataset_plug_in_that_fails_is_one_line(
    tmp_path: Path, part: str, code: str, told: str
) -> None:
    sound = {"card": "demo.CARD", "index": TABLE, "read": "return demo.read(root, row)"}
    (tmp_path / "mine.py").write_text(DATASET.format(**{**sound, part: code}))
    try:
        with pytest.raises(EcgbenchError, match=told):
            prepare(str(tmp_path / "mine.py"), None, tmp_path / "prepared")
    finally:
        datasets.ROOM.forget()


def test_a_module_that_a_plug_in_imports_late_makes_its_copy_new(tmp_path: Path) -> None:
    read = "from own_reader import read as own; return own(root, row)"
    (tmp_path / "mine.py").write_text(DATASET.format(card="demo.CARD", index=TABLE, read=read))
    places = []
    for text in ("read = 1", "read = 2"):
        (tmp_path / "own_reader.py").write_text(text)
        places.append(Source.of(str(tmp_path / "mine.py"), None).folder(tmp_path))
        datasets.ROOM.forget()
    assert places[0] != places[1]


def test_a_patient_on_both_sides_of_a_split_stops(fake_ptbxl: Path) -> None:
    file = fake_ptbxl / "ptbxl" / "ptbxl_database.csv"
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    table.loc[29, "patient_id"] = "1000.0"
    table.to_csv(file, index=False)
    with pytest.raises(BadRecord, match="patient 1000 is in more than one split"):
        prepare("ptbxl", fake_ptbxl, None)


def test_missing_data_says_where_how_and_which_command(tmp_path: Path) -> None:
    assert state("ptbxl", tmp_path, None) == "absent"
    said = f"{tmp_path}/ptbxl.*physionet.*ECGBENCH_DATA.*prepare ptbxl --data {tmp_path}"
    with pytest.raises(MissingData, match=said):
        prepare("ptbxl", tmp_path, None)
    with pytest.raises(MissingData, match="--data DIR or ECGBENCH_DATA=DIR"):
        prepare("ptbxl", None, None)


def test_where_prepared_copies_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert where(tmp_path / "p", tmp_path) == tmp_path / "p"
    assert where(None, tmp_path) == tmp_path / "prepared"
    monkeypatch.setenv("ECGBENCH_DATA", str(tmp_path / "d"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert where(None, None) == tmp_path / "cache" / "ecgbench" / "prepared"
    monkeypatch.setenv("ECGBENCH_PREPARED", str(tmp_path / "q"))
    assert where(None, tmp_path) == tmp_path / "q"


# ---- compared with the files


def test_damage_is_found(fake_ptbxl: Path, ptbxl_copy: ModuleType) -> None:
    with pytest.raises(MissingData, match="no prepared copy"):
        verify(find_any("ptbxl", fake_ptbxl, None))
    copy = prepare("ptbxl", fake_ptbxl, None)
    assert verify(find_any("ptbxl", fake_ptbxl, None)) == []
    file = _file(fake_ptbxl, 12)
    times = file.stat()
    raw = bytearray(file.read_bytes())
    raw[500] ^= 1
    file.write_bytes(raw)
    # bit rot changes neither size nor time
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    _spoil(_data(copy), 4 * 120_054 + 100, b"\x01\x7f")
    steps = np.fromfile(_file(fake_ptbxl, 20), "<i2").reshape(-1, 12).T.copy()
    steps[5, 100] += 1
    ptbxl_copy.write_record(_file(fake_ptbxl, 20).with_suffix(""), steps)
    problems = dict(verify(find_any("ptbxl", fake_ptbxl, None)))
    assert list(problems) == ["00005", "00012", "00020"]
    assert "published file differs" in problems["00020"]
    assert "differs from what was written; it is read again" in problems["00005"]
    assert "checksum" in problems["00012"]


def test_the_order_of_lines_in_the_index_file_does_not_matter(fake_ptbxl: Path) -> None:
    """Features are addressed by position: two copies of one content must have one order, not only
    one digest.
    """
    one = prepare("ptbxl", fake_ptbxl, None)
    table = fake_ptbxl / "ptbxl" / "ptbxl_database.csv"
    head, *lines = table.read_text().splitlines()
    table.write_text("\n".join([head, *reversed(lines)]) + "\n")
    two = prepare("ptbxl", fake_ptbxl, None)
    assert two.digest == one.digest
    pd.testing.assert_frame_equal(one.index, two.index)


def test_a_file_outside_the_data_folder_is_not_read(fake_ptbxl: Path, tmp_path: Path) -> None:
    outside = fake_ptbxl.parent / "secret_hr"
    for suffix in (".hea", ".dat"):
        shutil.copy(_file(fake_ptbxl, 5, suffix), outside.with_suffix(suffix))
    table = fake_ptbxl / "ptbxl" / "ptbxl_database.csv"
    table.write_text(table.read_text().replace("records500/00000/00005_hr", "../../secret_hr"))
    copy = prepare("ptbxl", fake_ptbxl, tmp_path / "p", workers=1)
    (reason,) = copy.quarantined["reason"]
    assert "names the file '../../secret_hr', which is not below" in reason
