"""A preparation that was killed goes on where it stopped, and gives the same bytes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ecgbench.data import prepare as preparing
from ecgbench.data import unfinished
from ecgbench.data.prepare import Prepared, prepare
from ecgbench.datasets import ptbxl
from ecgbench.errors import MissingData, WriteError

pytestmark = pytest.mark.durable

BLOCK = 4


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfinished, "BLOCK", BLOCK)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The records that are read from now on."""
    plain, names = ptbxl.read, []

    def counted(root: Path, row: dict[str, Any]) -> Any:
        names.append(row["record"])
        return plain(root, row)

    monkeypatch.setattr(ptbxl, "read", counted)
    return names


def _bytes(copy: Prepared) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(copy.folder.iterdir())}


def _prepare_until(data: Path, started: Path) -> None:
    unfinished.BLOCK = BLOCK

    def slowly(done: int, total: int) -> None:
        if done == 15:
            started.touch()
            time.sleep(60)

    prepare("ptbxl", data, None, slowly)


def test_what_was_read_before_a_kill_is_not_read_again(
    fake_ptbxl: Path,
    tmp_path: Path,
    kill_when: Callable[..., None],
    read: list[str],
) -> None:
    (fake_ptbxl / "ptbxl" / "records500" / "00000" / "00003_hr.dat").write_bytes(b"")
    kill_when(_prepare_until, fake_ptbxl, tmp_path / "started")
    assert preparing.state("ptbxl", fake_ptbxl, None) == "downloaded"
    copy = prepare("ptbxl", fake_ptbxl, None)
    assert read == [f"{n:05d}" for n in range(13, 31)], "three blocks of four were finished"
    assert [p.name for p in copy.folder.parent.iterdir() if p.is_dir()] == [copy.folder.name]
    read.clear()
    assert _bytes(prepare("ptbxl", fake_ptbxl, tmp_path / "other")) == _bytes(copy)
    assert len(read) == 30


def _fails_at(record: int) -> Callable[[int, int], None]:
    def stop(done: int, total: int) -> None:
        if done == record:
            raise KeyboardInterrupt

    return stop


def _interrupted(data: Path) -> Path:
    """The folder that an interruption after 22 records leaves: five blocks."""
    with pytest.raises(KeyboardInterrupt):
        prepare("ptbxl", data, None, _fails_at(22))
    (work,) = (data / "prepared" / "ptbxl").glob("*.tmp")
    return work


def test_damaged_blocks_are_read_again_and_no_other(fake_ptbxl: Path, read: list[str]) -> None:
    work = _interrupted(fake_ptbxl)
    with (work / "signal.i16").open("r+b") as signal_file:  # of the second block
        signal_file.seek(120_000 * 6 + 50)
        signal_file.write(b"\x7f")
    note = work / "block-000003.json"
    note.write_text(note.read_text().replace('"flat":""', '"flat":"I"', 1))
    read.clear()
    copy = prepare("ptbxl", fake_ptbxl, None)
    assert read == [f"{n:05d}" for n in (*range(5, 9), *range(13, 17), *range(21, 31))]
    assert _bytes(copy) == _bytes(prepare("ptbxl", fake_ptbxl, fake_ptbxl / "other"))


def test_blocks_of_other_files_or_records_are_not_taken_over(
    fake_ptbxl: Path, read: list[str]
) -> None:
    work = _interrupted(fake_ptbxl)
    read.clear()
    prepare("ptbxl", fake_ptbxl, None, limit=6)
    assert len(read) == 6
    assert work.exists(), "it is of the same files, and the whole may be asked for again"
    os.utime(fake_ptbxl / "ptbxl" / "records500" / "00000" / "00003_hr.dat")
    read.clear()
    copy = prepare("ptbxl", fake_ptbxl, None)
    assert len(read) == len(copy.index) == 30
    assert not work.exists()


def test_a_full_disk_keeps_what_was_finished_and_too_many_faults_keep_nothing(
    fake_ptbxl: Path, monkeypatch: pytest.MonkeyPatch, read: list[str]
) -> None:
    def full(self: Any, number: int, *rest: Any) -> None:
        if number == 3:
            raise OSError(28, "No space left on device")
        finish(self, number, *rest)

    finish = unfinished.Unfinished.finish
    with monkeypatch.context() as patch:
        patch.setattr(unfinished.Unfinished, "finish", full)
        with pytest.raises(WriteError, match="No space left on device; make room"):
            prepare("ptbxl", fake_ptbxl, None)
    read.clear()
    for record in range(20, 27):
        (fake_ptbxl / "ptbxl" / "records500" / "00000" / f"{record:05d}_hr.dat").write_bytes(b"")
    with pytest.raises(MissingData, match="6 of 30 records"):
        prepare("ptbxl", fake_ptbxl, None)
    assert [p.name for p in (fake_ptbxl / "prepared" / "ptbxl").iterdir()] == [".lock"]


COMMAND = """
from pathlib import Path
from ecgbench.data import readers, unfinished
from ecgbench.data.prepare import prepare
readers.BATCH = unfinished.BLOCK = 4
prepare("ptbxl", Path({data!r}), None, lambda done, total: print(done, flush=True), workers=2)
"""


def test_no_reading_process_outlives_the_one_that_started_it(
    fake_ptbxl: Path, tmp_path: Path
) -> None:
    code = COMMAND.format(data=str(fake_ptbxl))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    readers = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert psutil.wait_procs(readers, timeout=30)[1] == []
