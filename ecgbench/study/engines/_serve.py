"""The process of a job: it serves jobs until its command ends, and can be killed with all that it
started.
"""

import faulthandler
import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import psutil

from ecgbench.core.parallel import cores
from ecgbench.errors import BadSetting, EcgbenchError
from ecgbench.evaluate.device import usable_gpus
from ecgbench.study.engines import Work
from ecgbench.study.jobs import Job

SHOW_STACKS = signal.SIGUSR1
"""Makes a process that makes no progress write its stacks to its log."""


def serve(work: Work, pipe: Connection) -> None:
    """Job after job: sends ("event", what `work` sends), then ("over", None), or ("stop", (name,
    text)) with an error that the user must correct.
    """
    os.setsid()
    for ignored in (signal.SIGINT, signal.SIGUSR2):  # the second: Slurm's, to the whole step
        signal.signal(ignored, signal.SIG_IGN)
    faulthandler.enable()  # an abort leaves its trace in the log
    faulthandler.register(SHOW_STACKS)
    threading.Thread(target=_end_with_the_command, daemon=True).start()
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


def _end_with_the_command() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
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
