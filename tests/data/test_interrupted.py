"""Preparing that is killed, meets a full disk, or runs twice at once; and in several processes."""

import io
import multiprocessing
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

from ecgbench import datasets
from ecgbench.core import parts
from ecgbench.data import prepare as preparing
from ecgbench.data.prepare import prepare
from ecgbench.errors import BadSetting, MissingData, WriteError

pytestmark = pytest.mark.durable

BLOCK = 4
PLUG_IN = """
import os, signal, sys
from multiprocessing import parent_process
from ecgbench.datasets import demo
from ecgbench.datasets.demo import CARD, index

def read(root, row):
    {fault}
    return demo.read(root, row)
"""


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "BLOCK", BLOCK)


def _prepare_until(data: Path, started: Path) -> None:
    preparing.BLOCK = BLOCK

    def slowly(done: int, total: int) -> None:
        if done == 15:
            started.touch()
            time.sleep(60)

    prepare("ptbxl", data, None, slowly)


def test_what_was_read_before_a_kill_is_not_read_again(
    fake_ptbxl: Path, tmp_path: Path, kill_when: Callable[..., None], read: list[str]
) -> None:
    (fake_ptbxl / "ptbxl" / "records500" / "00000" / "00003_hr.dat").write_bytes(b"")
    kill_when(_prepare_until, fake_ptbxl, tmp_path / "started")
    assert preparing.state("ptbxl", fake_ptbxl, None) == "partial"
    copy = prepare("ptbxl", fake_ptbxl, None)
    assert read == ["00003", *(f"{n:05d}" for n in range(13, 31))], "three blocks of four are there"
    assert not list(copy.folder.glob(".*"))
    read.clear()
    other = prepare("ptbxl", fake_ptbxl, tmp_path / "other")
    assert len(read) == 30
    assert other.index.equals(copy.index)
    assert (other.digest, other.left_out.values.tolist()) == (
        copy.digest,
        copy.left_out.values.tolist(),
    )


def test_a_full_disk_keeps_what_was_finished(
    fake_ptbxl: Path, monkeypatch: pytest.MonkeyPatch, read: list[str]
) -> None:
    plain, written = parts.move, []

    def full(work: Path, folder: Path) -> bool:
        written.append(folder)
        if len(written) == 3:
            raise WriteError(f"cannot write {folder}: No space left on device; make room")
        return plain(work, folder)

    with monkeypatch.context() as patch:
        patch.setattr(parts, "move", full)
        with pytest.raises(WriteError, match="No space left on device; make room"):
            prepare("ptbxl", fake_ptbxl, None)
    read.clear()
    copy = prepare("ptbxl", fake_ptbxl, None)
    assert read == [f"{n:05d}" for n in range(9, 31)]
    assert copy.digest == prepare("ptbxl", fake_ptbxl, fake_ptbxl / "other").digest


def _prepare_and_note(data: Path, out: Path) -> None:
    out.write_text(prepare("ptbxl", data, None).digest)


def test_two_processes_at_once_agree_and_read_each_record_once(
    fake_ptbxl: Path, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("fork")
    both = [
        context.Process(target=_prepare_and_note, args=(fake_ptbxl, tmp_path / f"{i}.txt"))
        for i in range(2)
    ]
    for process in both:
        process.start()
    for process in both:
        process.join()
    copy = prepare("ptbxl", fake_ptbxl, None)
    assert {(tmp_path / f"{i}.txt").read_text() for i in range(2)} == {copy.digest}
    assert copy.parts.spare() == []
    assert len(copy.parts.names) == 8


# ---- in several processes


def test_the_copy_is_the_same_whoever_reads(
    fake_ptbxl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among the records are one that is cut short and one that is gone, and a part was prepared
    before.
    """
    folder = fake_ptbxl / "ptbxl" / "records500" / "00000"
    os.truncate(folder / "00007_hr.dat", 60_000)
    (folder / "00019_hr.hea").unlink()
    monkeypatch.setattr(preparing, "FEW", 4)
    alone = prepare("ptbxl", fake_ptbxl, tmp_path / "alone", workers=1)
    prepare("ptbxl", fake_ptbxl, tmp_path / "several", limit=6, workers=3)
    several = prepare("ptbxl", fake_ptbxl, tmp_path / "several", workers=3)
    assert several.quarantined["record"].tolist() == ["00007", "00019"]
    assert several.index.equals(alone.index)
    assert several.digest == alone.digest


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("", ""),
        ("assert not sys.stdin.read()", ""),
        ("parent_process() and os.kill(os.getpid(), signal.SIGKILL)", ""),
        ("raise OSError('truncated file')", r"mine: 6 records cannot .* read \(truncated"),
        ("raise KeyError(5)", r"dataset 'mine' failed at mine.py:8: KeyError: 5"),
    ],
)
def test_what_is_read_in_other_processes_or_not_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, complaint: str
) -> None:
    monkeypatch.setattr(preparing, "FEW", 4)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    (tmp_path / "mine.py").write_text(PLUG_IN.format(fault=fault))
    arguments: Any = (str(tmp_path / "mine.py"), None, tmp_path / "prepared")
    try:
        if not complaint:
            assert prepare(*arguments, workers=2).count == 180
            return
        with pytest.raises((BadSetting, MissingData), match=complaint) as said:
            prepare(*arguments, workers=2)
        assert "\n" not in str(said.value)
    finally:
        datasets.ROOM.forget()


COMMAND = """
from pathlib import Path
from typing import Any
from ecgbench.data import prepare
if __name__ == "__main__":
    prepare.FEW = prepare.BLOCK = 4
    shown = lambda done, total: print(done, flush=True)
    prepare.prepare("ptbxl", Path({data!r}), None, shown, workers=2)
"""


@pytest.mark.long
def test_no_reading_process_outlives_the_one_that_started_it(
    fake_ptbxl: Path, tmp_path: Path
) -> None:
    (tmp_path / "command.py").write_text(COMMAND.format(data=str(fake_ptbxl)))
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "command.py")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while int(process.stdout.readline()) <= 4:
        pass
    readers = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert psutil.wait_procs(readers, timeout=30)[1] == []
