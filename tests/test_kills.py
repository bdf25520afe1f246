"""Runs that are killed, and runs side by side, as processes of the command line: nothing finished
is lost, nothing is counted twice.

`make test-long` runs a short version of each; with ECGBENCH_SOAK in the environment, the full
counts.
"""

import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ecgbench.core.cells import Request, plan_of
from ecgbench.results.study import read
from ecgbench.study import plan as planning
from ecgbench.study.store import Store
from ecgbench.study.store import cells_of as cells_of_run

pytestmark = [pytest.mark.durable, pytest.mark.usefixtures("one_thread")]
TINY = Path(__file__).parent / "tiny.py"
SOAK = bool(os.environ.get("ECGBENCH_SOAK"))
KILLS, ROUNDS, RACES = (50, 100, 100) if SOAK else (2, 2, 40)
USUAL = ("--tasks", "demo", "--weights", "random", "--limit", "60")
USUAL += ("--protocol", "linear", "--set", "training.epochs=3", "--models")
SEEDS, CELLS = (5, 60) if SOAK else (2, 27)
GRID = (str(TINY), "--leads", "1-12,I,II,III,V1", "--seeds", str(SEEDS))
"""Eleven counts of leads at `SEEDS` seeds, all twelve, and four sets with names: `CELLS` cells."""
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Whole:
    """An uninterrupted run."""

    folder: Path
    prepared: Path
    seconds: float


def start(out: Path, prepared: Path, words: tuple[str, ...] = GRID) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-m",
        "ecgbench",
        "run",
        *USUAL,
        *words,
        "--prepared",
        str(prepared),
        "--out",
        str(out),
    ]
    return subprocess.Popen(
        command,
        env=ENV,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: "subprocess.Popen[str]", code: int = 0) -> tuple[int, int]:
    """How many cells a run computed and found."""
    told, _ = process.communicate(timeout=600)
    assert process.returncode == code, told
    counts = re.search(r"(\d+) cells computed, (\d+) were there already, 0 skipped", told)
    assert counts, told
    return int(counts[1]), int(counts[2])


def stop(process: "subprocess.Popen[str]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def intact(out: Path) -> dict[str, tuple[int, str]]:
    """Every file of a finished cell or fit with its time and hash, which are what DONE says;
    a plan file is whole where it is.
    """
    found = {}
    for done in out.rglob("DONE"):
        # a kill between the last file and the folder's name; the next run sweeps it
        if done.parent.name.startswith("."):
            continue
        for name, said in {
            **json.loads(done.read_text()),
            "DONE": hashlib.sha256(done.read_bytes()).hexdigest(),
        }.items():
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


def parent_of(worker: int) -> int:
    return int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])


def workers(process: "subprocess.Popen[str]") -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (
                parent_of(int(place.name)) == process.pid
                and b"spawn_main" in (place / "cmdline").read_bytes()
            ):
                found.append(int(place.name))
    return found


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    began = time.monotonic()
    assert finish(start(folder / "run", folder / "prepared")) == (CELLS, 0)
    return Whole(folder / "run", folder / "prepared", time.monotonic() - began)


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


@pytest.mark.long
def test_killed_at_any_moment_nothing_finished_is_lost(whole: Whole, tmp_path: Path) -> None:
    """The group of a run is killed at random moments, resumed each time; a run that got through is
    followed by another from nothing.
    """
    seed = time.time_ns()
    moments, rounds = random.Random(seed), 0
    out, prepared, known = tmp_path / "0", tmp_path / "prepared", dict[str, tuple[int, str]]()
    for _ in range(KILLS):
        process = start(out, prepared)
        # a short version has no kills to spend on imports
        time.sleep(moments.uniform(0 if SOAK else 0.4, 1) * whole.seconds)
        stop(process)
        now = intact(out)
        assert known.items() <= now.items(), seed
        known = now
        if process.returncode == 0:
            _same(out, whole, seed)
            rounds, known = rounds + 1, {}
            out, prepared = tmp_path / str(rounds), tmp_path / f"prepared{rounds}"
    computed, there = finish(start(out, prepared))
    assert computed + there == CELLS, seed
    assert known.items() <= intact(out).items(), seed
    assert not [*out.rglob("*.tmp"), *prepared.rglob("*.tmp")], seed
    _same(out, whole, seed)


def _same(out: Path, whole: Whole, seed: int) -> None:
    assert cells_of(out) == CELLS, seed
    assert numbers(out) == numbers(whole.folder), seed
    assert table(out) == table(whole.folder), seed


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")
@pytest.mark.parametrize("moment", ["while it imports", "at work"])
def test_a_worker_does_not_outlive_its_run(moment: str, whole: Whole, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(out, whole.prepared)
    found = _worker(process, out, cells=1 if moment == "at work" else 0)
    process.kill()
    killed = time.monotonic()
    while running(found) and time.monotonic() - killed < (2 if moment == "at work" else 60):
        time.sleep(0.02)
    assert not running(found)
    process.communicate()
    intact(out)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")
def test_a_worker_that_is_killed_costs_one_cell_at_most(
    whole: Whole, here: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = start(out, whole.prepared)
    os.kill(_worker(process, out, cells=5), signal.SIGKILL)
    told, _ = process.communicate(timeout=600)
    counts = re.search(r"(\d+) cells computed, 0 were there already, 0 skipped, (\d+) failed", told)
    assert counts, told
    computed, failed = int(counts[1]), int(counts[2])
    assert computed + failed == CELLS
    assert failed <= 1
    assert process.returncode == failed, told
    assert told.count("its process was killed by SIGKILL (memory may have run out)") == 2 * failed
    known = intact(out)
    assert cells_of(out) == computed
    words = (*USUAL, *GRID, "--prepared", whole.prepared, "--out", out, "--engine", "inline")
    again = here("run", *words, cwd=tmp_path)
    assert f"{failed} cells computed, {computed} were there already, 0 skipped" in again.stdout
    assert known.items() <= intact(out).items()
    _same(out, whole, 0)


def _worker(process: "subprocess.Popen[str]", out: Path, cells: int) -> int:
    """Its worker, once so many cells are finished."""
    until = time.monotonic() + 300
    while time.monotonic() < until and process.poll() is None:
        found = workers(process)
        if found and cells_of(out) >= cells:
            return found[0]
        time.sleep(0.02)
    raise AssertionError("no worker at that moment")


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "how"),
    [
        (2, ()),
        (
            3,
            (
                "--engine",
                "inline",
            ),
        ),
        *(
            [
                (
                    2,
                    (
                        "--engine",
                        "inline",
                    ),
                ),
                (3, ()),
            ]
            if SOAK
            else []
        ),
    ],
)
def test_runs_side_by_side_share_the_work(
    count: int, how: tuple[str, ...], whole: Whole, tmp_path: Path
) -> None:
    """Each cell is computed by one of them; afterwards each has all, and the same command anywhere
    gives the same files. Two with workers, three of one process each.
    """
    twin = tmp_path / "twin.py"
    twin.write_text(TINY.read_text())
    words = (f"{TINY},{twin}", "--leads", "1,12,I", "--seeds", "2", *how)
    first: dict[str, bytes] = {}
    for turn in range(max(1, ROUNDS // 2)):
        out = tmp_path / str(turn)
        told = [finish(p) for p in [start(out, whole.prepared, words) for _ in range(count)]]
        assert sum(computed for computed, _ in told) == 8, (turn, told)
        assert all(computed + there == 8 for computed, there in told), (turn, told)
        assert cells_of(out) == 8
        intact(out)
        assert numbers(out) == (first := first or numbers(out))


def _contend(
    folder: Path, which: int, request: Request, gate: "multiprocessing.synchronize.Barrier"
) -> None:
    store = Store(folder)
    gate.wait()
    for name in ("a", "b", "c"):
        with store.claim(name) as mine:
            if mine and not (folder / name).exists():
                time.sleep(0.001)
                with (folder / name).open("a") as notes:
                    notes.write("computed\n")
    store.add_facts("models", {"name": str(which)})
    store.add_keys({str(which): "key"})
    store.add_request(request)


@pytest.mark.long
def test_claims_and_plans_of_many_processes(tmp_path: Path) -> None:
    """Races of three processes: nobody holds what another holds, and what each wrote into
    the plan is there.
    """
    request = planning.check(Request(models=("laef",), tasks=("demo",), leads=(12,), seeds=1))
    context = multiprocessing.get_context("fork")
    for turn in range(RACES):
        folder, gate = tmp_path / str(turn), context.Barrier(3)
        folder.mkdir()
        racers = [
            context.Process(target=_contend, args=(folder, i, request, gate)) for i in range(3)
        ]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert [racer.exitcode for racer in racers] == [0, 0, 0], turn
        assert all(
            (folder / n).read_text() == "computed\n" for n in "abc" if (folder / n).exists()
        ), turn
        store = Store(folder)
        assert store.plan() == plan_of(request)
        assert (
            set(store.keys())
            == {facts["name"] for facts in store.facts("models").values()}
            == {"0", "1", "2"}
        ), turn
        assert not list(folder.rglob("*.tmp"))
