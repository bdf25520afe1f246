"""What was found of a dataset's files is believed for the very same files, and for no others."""

import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from ecgbench.data import manifest, prepare, source
from ecgbench.data.source import Source
from ecgbench.data.verify import verify
from ecgbench.datasets import ptbxl
from ecgbench.errors import MissingData

MADE: list[int] = []


@pytest.fixture
def data(fake_ptbxl: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small PTB-XL whose manifest is written, and whose index counts when it is made."""
    monkeypatch.setattr(manifest, "MANY", 1)
    plain = ptbxl.index
    MADE.clear()

    def index(root: Path) -> pd.DataFrame:
        MADE.append(1)
        return plain(root)

    monkeypatch.setattr(ptbxl, "index", index)
    return fake_ptbxl


def _home(data: Path) -> Path:
    return data / "prepared" / "ptbxl"


def test_a_ready_copy_opens_without_the_index_the_folders_or_a_table(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare.prepare("ptbxl", data, None)
    MADE.clear()
    monkeypatch.setattr(source, "_record_files", lambda *_: pytest.fail("all files looked at"))
    monkeypatch.setattr(os, "walk", lambda *_: pytest.fail("all files looked at"))
    copy = prepare.find("ptbxl", data, None)
    assert (copy.folder, copy.digest, copy.whole) == (first.folder, first.digest, True)
    assert "index" not in vars(copy), "read when it is asked for"
    pd.testing.assert_frame_equal(copy.published, first.published)
    pd.testing.assert_frame_equal(copy.index, first.index)
    assert not MADE


def _other_file(data: Path) -> None:
    (data / "ptbxl" / "records500" / "00000" / "new.dat").write_bytes(b"1")


def _table(data: Path) -> None:
    file = data / "ptbxl" / "ptbxl_database.csv"
    file.write_text(file.read_text() + "\n")


def _record(data: Path) -> None:
    os.utime(data / "ptbxl" / "records500" / "00000" / "00003_hr.dat", (1, 1))


def _gone(data: Path) -> None:
    (data / "ptbxl" / "records500" / "00000" / "00003_hr.hea").unlink()


def _note(data: Path) -> None:
    (file,) = _home(data).glob("manifest-*.json")
    file.write_text(file.read_text().replace('"records":30', '"records":29'))


def _index(data: Path) -> None:
    (file,) = _home(data).glob("index-*.parquet")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("change", [_other_file, _table, _record, _gone, _note, _index])
def test_what_changed_is_looked_at_in_full(data: Path, change: Callable[[Path], None]) -> None:
    before = Source.of("ptbxl", data)
    Source.of("ptbxl", data)
    assert MADE == [1]
    change(data)
    after = Source.of("ptbxl", data)
    assert MADE == [1, 1]
    assert (after.fingerprint == before.fingerprint) == (change in (_other_file, _note, _index))
    Source.of("ptbxl", data)
    assert MADE == [1, 1], "and noted anew"


def test_a_look_at_every_file_sees_what_was_not_drawn(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alteration in its place that keeps the folder's time; and the index of the same files is
    not made again.
    """
    monkeypatch.setattr(manifest, "FILES", 4)
    first = prepare.prepare("ptbxl", data, None)
    (note,) = (manifest.unsealed(f) or {} for f in _home(data).glob("manifest-*.json"))
    drawn = {path for path, *_ in note["watched"]}
    assert len([path for path in drawn if path.endswith((".hea", ".dat"))]) == 4
    files = sorted((data / "ptbxl" / "records500" / "00000").glob("*.dat"))
    altered = next(f for f in files if str(f.relative_to(data / "ptbxl")) not in drawn)
    MADE.clear()
    Source.of("ptbxl", data, thorough=True)
    assert not MADE
    os.utime(altered, (1, 1))
    assert prepare.prepare("ptbxl", data, None).folder == first.folder
    assert verify(prepare.held("ptbxl", data, None)) == []
    with pytest.raises(MissingData, match="no prepared copy of these files"):
        prepare.held("ptbxl", data, None, thorough=True)
    assert prepare.prepare_and_check("ptbxl", data, None).folder != first.folder


def test_of_many_folders_the_upper_ones_are_watched_and_some_of_the_lower(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "FOLDERS", 8)
    own = manifest.Manifest("ptbxl", ptbxl, data / "ptbxl", data)
    paths = [f"a{i // 10}/b{i}/c" for i in range(30)]
    watched = [path for path, *_ in own._watched(paths)]
    assert {"", "a0", "a1", "a2", "ptbxl_database.csv"} <= {*watched}
    assert len(watched) == 8
    assert watched == [path for path, *_ in own._watched(reversed(paths))]


def test_a_home_that_cannot_be_written_costs_time_alone(data: Path, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    for _ in range(2):
        assert Source.of("ptbxl", data, tmp_path / "home").count == 30
    assert MADE == [1, 1]


def test_files_that_change_meanwhile_and_what_is_quick_are_not_noted(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = 2_000_000_000
    os.utime(data / "ptbxl" / "records500" / "00000" / "00003_hr.dat", (ahead, ahead))
    Source.of("ptbxl", data)
    assert not _home(data).exists()
    os.utime(data / "ptbxl" / "records500" / "00000" / "00003_hr.dat", (1, 1))
    monkeypatch.setattr(manifest, "MANY", 1000)
    monkeypatch.setattr(manifest, "LONG", 60.0)
    Source.of("ptbxl", data)
    assert not _home(data).exists()
