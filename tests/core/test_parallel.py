"""Work on all cores: all of it, each piece once, whatever becomes of a process."""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from ecgbench.core import parallel
from ecgbench.core.parallel import on_all_cores

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")


@pytest.fixture(autouse=True)
def _two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "cores", lambda: 2)


def _mark(folder: Path, number: int) -> None:
    with (folder / str(number)).open("x"):  # a second time is an error
        pass


def test_each_piece_is_done_once_and_told_while_this_process_works(tmp_path: Path) -> None:
    told: list[int] = []
    here: list[int] = []
    pieces = [partial(_mark, tmp_path, n) for n in range(60)]
    on_all_cores([*pieces, lambda: 1 / 0], told.append, lambda: here.append(os.getpid()))
    assert {p.name for p in tmp_path.iterdir()} == set(map(str, range(60)))
    assert sum(told) == 60
    on_all_cores([], meanwhile=lambda: here.append(os.getpid()))
    assert here == [os.getpid()] * 2


def test_they_end_with_this_process(tmp_path: Path) -> None:
    script = f"""
import os, pathlib, time
from ecgbench.core.parallel import on_all_cores
def wait():
    pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()
    time.sleep(60)
on_all_cores([wait] * 2, lambda _: None)
"""
    with subprocess.Popen([sys.executable, "-c", script]) as parent:
        until = time.monotonic() + 20
        while len(children := list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        parent.kill()
    assert children
    while any(_runs(int(c.name)) for c in children) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(_runs(int(c.name)) for c in children)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
