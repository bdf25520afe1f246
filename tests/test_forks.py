"""Work on all cores: all of it, each piece once, whatever becomes of a process."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from ecgbench import forks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")


@pytest.fixture(autouse=True)
def _two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "cores", lambda: 2)


def _mark(folder: Path, number: int) -> None:
    with (folder / str(number)).open("x"):  # a second time is an error
        pass


def test_each_piece_is_done_once_and_told(tmp_path: Path) -> None:
    told: list[int] = []
    forks.on_all_cores([partial(_mark, tmp_path, n) for n in range(60)], told.append)
    assert {p.name for p in tmp_path.iterdir()} == set(map(str, range(60)))
    assert sum(told) == 60


def test_more_pieces_than_a_pipe_holds() -> None:
    told: list[int] = []
    forks.on_all_cores([int] * 40_000, told.append)
    assert sum(told) == 40_000


def test_what_a_piece_does_to_its_process_stays_there(tmp_path: Path) -> None:
    def folder_left() -> None:
        os.chdir("/")
        raise ValueError

    before = os.getcwd()
    forks.on_all_cores([folder_left, partial(_mark, tmp_path, 1)], lambda _: None)
    assert os.getcwd() == before
    assert (tmp_path / "1").exists()


def test_when_all_are_killed_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    forked: list[int] = []
    fork = os.fork

    def noted() -> int:
        forked.append(fork())
        return forked[-1]

    monkeypatch.setattr(forks.os, "fork", noted)
    told: list[int] = []
    forks.on_all_cores([killed] * 40_000, told.append)
    assert told == []
    assert len(forked) == 2
    for child in forked:  # this process may have children besides
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def test_they_end_with_this_process(tmp_path: Path) -> None:
    script = f"""
import os, pathlib, time
from ecgbench.forks import on_all_cores
def wait():
    pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()
    time.sleep(60)
on_all_cores([wait] * 2, lambda _: None)
"""
    with subprocess.Popen([sys.executable, "-c", script]) as parent:
        until = time.monotonic() + 20
        while not (children := list(tmp_path.iterdir())) and time.monotonic() < until:
            time.sleep(0.02)
        parent.kill()
    assert children
    while any(_runs(int(c.name)) for c in tmp_path.iterdir()) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(_runs(int(c.name)) for c in tmp_path.iterdir())


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_this_process_works_meanwhile_and_where_there_is_nothing_to_share(tmp_path: Path) -> None:
    said: list[int] = []
    pieces = [lambda k=k: (tmp_path / str(k)).touch() for k in range(5)]
    forks.on_all_cores(pieces, meanwhile=lambda: said.append(os.getpid()))
    assert len(list(tmp_path.iterdir())) == 5
    forks.on_all_cores([], meanwhile=lambda: said.append(os.getpid()))
    assert said == [os.getpid()] * 2
