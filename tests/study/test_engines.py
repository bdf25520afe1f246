"""Engines with jobs that end in every way. What they do to a study: tests/study/test_zoo.py."""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from ecgbench.errors import BadSetting, BadWeights
from ecgbench.study.engines import Died, local, slurm
from ecgbench.study.jobs import Execution


@dataclass(frozen=True)
class Stub:
    """Stands for a job."""

    do: str
    out: Path
    foreign: bool = False

    @property
    def log(self) -> Path:
        return self.out / "logs" / f"{self.do}.log"


def work(job: Any, send: Callable[[Any], None]) -> None:
    """What its name says."""
    send(("note", f"{job.do} {os.getpid()} {os.environ.get('OMP_NUM_THREADS', '-')}"))
    print("it prints", job.do, flush=True)
    if job.do == "weights":
        raise BadWeights("not these")
    if job.do == "hang":
        send(("stage", 1, "training", 3, "steps"))
        time.sleep(300)
    if job.do == "child":  # which keeps the pipe open, in a session of its own
        if not os.fork():
            os.setsid()
            time.sleep(300)
        os._exit(1)
    if job.do == "talk":
        for n in range(20_000):  # more than a pipe holds
            send(("advance", 1, n))


def carried(
    tmp_path: Path, *does: str, options: str = "", foreign: bool = False
) -> tuple[dict[str, Died | None], list[str]]:
    """What became of jobs, and what they noted."""
    jobs: Any = deque(Stub(do, tmp_path, foreign) for do in does)
    notes: list[str] = []

    def show(job: Any, event: Any) -> None:
        if event[0] == "note":
            notes.append(event[1])

    came = {j.do: died for j, died in local.run(work, jobs, show, Execution(options=options))}
    return came, notes


def multiprocessing_children() -> list[psutil.Process]:
    """Processes of this one that are alive, but the one that multiprocessing keeps."""
    return [
        p
        for p in psutil.Process().children(recursive=True)
        if p.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(p.cmdline())
    ]


@pytest.mark.long
def test_a_process_serves_job_after_job_but_for_plug_ins_from_outside(tmp_path: Path) -> None:
    came, notes = carried(tmp_path, "a", "talk", "child", "c")
    assert {do: died and died.reason for do, died in came.items()} == {
        **dict.fromkeys(("a", "talk", "c")),
        "child": "its process ended with exit code 1",
    }
    assert len({note.split()[1] for note in notes}) == 2
    _, notes = carried(tmp_path, "a", "b", foreign=True)
    assert len({note.split()[1] for note in notes}) == 2


def test_what_the_user_must_correct_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(BadWeights, match="not these"):
        carried(tmp_path, "weights", "a")
    assert not multiprocessing_children()


@pytest.mark.parametrize("number", ["0", "x", "100000"])
def test_a_number_of_processes_is_from_one(number: str, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=f"--engine local:{number}"):
        carried(tmp_path, "a", options=number)


FOLLOWED = """
import signal
import sys
from collections import deque
from pathlib import Path
from ecgbench.study.engines import local
from ecgbench.study.jobs import Execution
from tests.study.test_engines import Stub, work
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job of a shell ignores
    out = Path(sys.argv[1])
    jobs = deque([Stub("hang", out), Stub("hang", out)])
    show = lambda job, event: print(*event, flush=True)
    list(local.run(work, jobs, show, Execution(options="2")))
"""


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGKILL,
        *(pytest.param(s, marks=pytest.mark.long) for s in (signal.SIGINT, signal.SIGTERM)),
    ],
)
def test_nothing_outlives_the_command(how: int, tmp_path: Path) -> None:
    (tmp_path / "command.py").write_text(FOLLOWED)
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, tmp_path / "command.py", tmp_path],
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    begun = {
        line.split()[2] for line in (process.stdout.readline() for _ in range(4)) if "note" in line
    }
    assert len(begun) == 2
    process.send_signal(how)
    process.wait(20)
    until = time.monotonic() + 10
    while any(map(lives, begun)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(lives, begun))


def lives(pid: str) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    return False


def test_a_state_is_asked_of_the_accounts_where_a_cluster_keeps_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    sacct = tmp_path / "sacct"
    sacct.write_text('#!/bin/sh\n[ "$7" = 12_3 ] && echo OUT_OF_MEMORY\n')
    sacct.chmod(0o755)
    assert slurm.accounted("12_3") == "OUT_OF_MEMORY"
    sacct.write_text("#!/bin/sh\necho 'Slurm accounting storage is disabled' >&2; exit 1\n")
    assert slurm.accounted("12_3") == ""
