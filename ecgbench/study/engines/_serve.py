"""The process of a job: it serves jobs until its command ends, and can be killed with all that it
started.
"""

import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import psutil

from ecgbench.core.parallel import cores
from ecgbench.core.process import serves_jobs
from ecgbench.errors import BadSetting, EcgbenchError
from ecgbench.evaluate.device import usable_gpus
from ecgbench.study.engines import Work
from ecgbench.study.jobs import Job

WATCHED = 0.25
"""Seconds between two looks at whether the command is still there."""
SHOW_STACKS = signal.SIGUSR1
"""Makes a process that makes no progress write its stacks to its log."""


_CHILD = """
import json, sys
sys.path[:], sys.argv[:], pipe, parent = json.loads(sys.argv[1])
from ecgbench.study.engines import _serve
_serve.begin(pipe, parent)
"""


def started(
    work: Work, environment: Mapping[str, str]
) -> tuple["subprocess.Popen[bytes]", Connection]:
    """A process that serves jobs, with the modules that this one finds and some more environment,
    which libraries read as they are loaded; and the pipe to it. The script of whoever called
    `ecgbench.run` is not executed once more.
    """
    ours, theirs = Pipe()
    told = json.dumps([[*map(os.path.abspath, sys.path)], sys.argv, theirs.fileno(), os.getpid()])
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", _CHILD, told],
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    with suppress(OSError):  # it died already, which the first look at it finds out
        ours.send(work)
    return child, ours


def begin(pipe: int, parent: int) -> None:
    """In the child: serve the work that comes first. pipe: of a file descriptor; parent: process
    of the command.
    """
    serves_jobs()
    threading.Thread(target=_end_with, args=[parent], daemon=True).start()
    connection = Connection(pipe)
    with suppress(EOFError):
        serve(connection.recv(), connection)


def serve(work: Work, pipe: Connection) -> None:
    """Job after job: sends ("event", what `work` sends), then ("over", None), or ("stop", (name,
    text)) with an error that the user must correct.
    """
    os.setsid()
    for ignored in (signal.SIGINT, signal.SIGUSR2):  # the second: Slurm's, to the whole step
        signal.signal(ignored, signal.SIG_IGN)
    faulthandler.enable()  # an abort leaves its trace in the log
    faulthandler.register(SHOW_STACKS)
    lock = threading.Lock()

    def send(kind: str, what: Any = None) -> None:
        with lock:
            pipe.send((kind, what))

    with suppress(EOFError):
        while True:
            job = pipe.recv()
            _print_to(job)
            try:
                work(job, partial(send, "event"))
            except EcgbenchError as error:
                send("stop", (type(error).__name__, str(error)))
            else:
                send("over")


def _print_to(job: Job) -> None:
    """What is printed from now on goes to the job's log."""
    target = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError):  # a log that cannot be written is no reason to stop
        job.log.parent.mkdir(parents=True, exist_ok=True)
        target = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(target, stream)
    os.close(target)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCHED)
    end_session(os.getpid())


def end_session(leader: int) -> None:
    """Kill a process that leads a session, and all that it started."""
    started = []
    with suppress(psutil.Error):
        started = psutil.Process(leader).children(recursive=True)
    for process in started:
        with suppress(psutil.Error):
            process.kill()
    with suppress(ProcessLookupError, PermissionError):  # the latter of macOS: all are dead
        os.killpg(leader, signal.SIGKILL)


def environments_of(options: str, device: str) -> list[dict[str, str]]:
    """For each process its share of the cores, and its GPU. BadSetting where `options` is no number
    of processes.
    """
    text = options or "1"
    if not text.isdecimal() or not 0 < int(text) <= 1024:
        raise BadSetting(f"--engine local:{text}: a number of processes from 1, as in local:4")
    if text == "1":
        return [{}]
    own = {"OMP_NUM_THREADS": str(max(1, cores() // int(text)))}
    gpus = usable_gpus() if device in ("auto", "cuda") else []
    cards = [{"CUDA_VISIBLE_DEVICES": card} for card in gpus] or [{}]
    return [{**own, **cards[i % len(cards)]} for i in range(int(text))]
