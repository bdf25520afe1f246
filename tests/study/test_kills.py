"""A run that is killed, and runs side by side: nothing finished is lost, nothing is counted twice.

`make soak` kills at every step and at random moments.
"""

import hashlib
import json
import multiprocessing
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ecgbench.results.study import read
from ecgbench.study.store import Store
from ecgbench.study.store import cells_of as cells_of_run

pytestmark = [pytest.mark.durable, pytest.mark.usefixtures("one_thread")]


def intact(out: Path) -> dict[str, tuple[int, str]]:
    """Every file of a finished cell or fit with its time and hash, which are what DONE says;
    a plan file is whole where it is.
    """
    found = {}
    for done in out.rglob("DONE"):
        # a kill between the last file and the folder's name; the next run sweeps it
        if done.parent.name.startswith("."):
            continue
        own = hashlib.sha256(done.read_bytes()).hexdigest()
        for name, said in (json.loads(done.read_text()) | {"DONE": own}).items():
            path = done.with_name(name)
            assert hashlib.sha256(path.read_bytes()).hexdigest() == said, path
            found[str(path.relative_to(out))] = (path.stat().st_mtime_ns, said)
    Store(out).plan()
    return found


def numbers(out: Path) -> dict[str, bytes]:
    places = [p for p in (out / "cells").rglob("*") if p.suffix == ".parquet"]
    return {str(p.relative_to(out)): p.read_bytes() for p in places}


def table(out: Path) -> bytes:
    return read(out).main.to_csv(index=False).encode()


def cells_of(out: Path) -> int:
    return len(list(cells_of_run(out)))


@pytest.mark.long
def test_a_run_that_is_killed_goes_on_from_what_it_finished(
    typed: Callable[..., int], tmp_path: Path
) -> None:
    """Killed as soon as a cell is finished, as a copy of this process, which need not import."""
    words = ("--leads", "1-4,12,I,II", "--prepared", str(tmp_path / "prepared"))
    assert typed(tmp_path / "whole", *words) == 0
    out = tmp_path / "killed"
    process = multiprocessing.get_context("fork").Process(target=typed, args=(out, *words))
    process.start()
    while process.is_alive() and not cells_of(out):
        time.sleep(0.002)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    known = intact(out)
    assert 1 <= cells_of(out) < 7
    assert typed(out, *words) == 0
    assert cells_of(out) == 7
    assert known.items() <= intact(out).items()
    assert numbers(out) == numbers(tmp_path / "whole")
    assert table(out) == table(tmp_path / "whole")
