"""Local: processes of this machine; `local:4` is four of them at once, each on a GPU of its own
where there are several.

A crash, an endless loop or a full memory costs the cells of its job only. A process takes job
after job; one that has run a plug-in from outside ends behind it.
"""

import faulthandler
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import psutil

from ecgbench import errors
from ecgbench.evaluate.device import gpus
from ecgbench.study.engines import Died, EngineCard, Event, Setup, Show, Work
from ecgbench.study.jobs import Job

CARD = EngineCard(
    title="Local", summary="processes of this machine; local:4 is four of them at once"
)
START = 120.0
"""Seconds that a new process may take to import what every job needs, before the time limit of the
model begins.
"""
MOST = 1024
SHOW_STACKS = signal.SIGUSR1
"""Has a process that stands still write to its log where."""


def run(
    work: Work, jobs: deque[Job], show: Show, setup: Setup
) -> Iterator[tuple[Job, Died | None]]:
    """Carry jobs out in processes of their own. EcgbenchError where one says what the user must
    correct first.
    """
    slots, free, busy = _number(setup.options), list[_Worker](), list[_Worker]()
    cards = _cards(setup.device) if slots > 1 else []
    try:
        while jobs or busy:
            while jobs and len(busy) < slots:
                job = jobs.popleft()
                if free and job.foreign:
                    free.pop().end()
                taken = {worker.slot for worker in [*free, *busy]}
                slot = min(set(range(slots)) - taken, default=0)
                worker = (
                    free.pop() if free else _Worker(work, slot, _environment(slot, slots, cards))
                )
                busy.append(worker.begin(job))
            wait([worker.pipe for worker in busy], timeout=1.0)
            for worker in list(busy):
                over, died = worker.listen(show, setup.timeout)
                if over or died:
                    busy.remove(worker)
                    if died or worker.job.foreign:
                        worker.end()
                    else:
                        free.append(worker)
                    yield worker.job, died
    finally:
        for worker in [*free, *busy]:
            worker.end()


class _Worker:
    """One process, which carries out one job at a time."""

    def __init__(self, work: Work, slot: int, environment: dict[str, str]) -> None:
        context = multiprocessing.get_context("spawn")
        self.slot, self.ready, self.doing = slot, False, ""
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, theirs))
        with _set(environment):  # libraries read it as they are loaded
            self.process.start()
        theirs.close()

    def begin(self, job: Job) -> "_Worker":
        self.job, self.heard, self.doing = job, time.monotonic(), ""
        with suppress(OSError):  # it died between two jobs: `listen` finds out
            self.pipe.send(job)
        return self

    def listen(self, show: Show, timeout: float) -> tuple[bool, Died | None]:
        """Whether its job is over, or why it died."""
        # a process that it forked may keep the pipe open
        dead = self.process.exitcode is not None
        try:
            if self.pipe.poll():
                kind, what = self.pipe.recv()
                self.heard, self.ready = time.monotonic(), True
                return self._take(kind, what, show), None
        except (EOFError, OSError):
            self.process.join(5)
            dead = True
        if dead:
            code = self.process.exitcode
            return False, Died("its process closed its pipe" if code is None else in_words(code))
        if time.monotonic() - self.heard > (timeout if self.ready else max(timeout, START)):
            with suppress(OSError):
                os.kill(self.process.pid or 0, SHOW_STACKS)
                time.sleep(0.25)
            doing = f"{timeout:g} s{self.doing}"
            return False, Died(f"no progress for {doing}, so it was ended (--set run.timeout)")
        return False, None

    def _take(self, kind: str, what: Any, show: Show) -> bool:
        if kind == "stop":
            raise errors.named(*what)
        if kind == "event":
            if what[0] == "stage":
                self.doing = f" ({what[2]})"
            show(self.job, what)
        return kind == "over"

    def end(self) -> None:
        """End the process and all that it started."""
        if self.process.pid is not None:
            end_group(self.process.pid)
            self.process.kill()
            self.process.join()
        self.pipe.close()


def _serve(work: Work, pipe: Connection) -> None:
    """In the process: job after job, until the command is gone."""
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

    def tell(event: Event) -> None:
        send("event", event)

    with suppress(EOFError):
        while True:
            job = pipe.recv()
            _print_to(job)
            try:
                work(job, tell)
            except errors.EcgbenchError as error:
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
    end_group(os.getpid())


def end_group(leader: int) -> None:
    """Kill a process that leads a session, and all that it started."""
    started = []
    with suppress(psutil.Error):
        started = psutil.Process(leader).children(recursive=True)
    for process in started:
        with suppress(psutil.Error):
            process.kill()
    with suppress(ProcessLookupError, PermissionError):  # the latter of macOS: all are dead
        os.killpg(leader, signal.SIGKILL)


def in_words(code: int) -> str:
    """An exit code, negative for a signal.

    >>> in_words(-6), in_words(3)
    ('its process was killed by SIGABRT', 'its process ended with exit code 3')
    """
    if code >= 0:
        return f"its process ended with exit code {code}"
    known = {s.value: s.name for s in signal.Signals}
    memory = " (memory may have run out)" if code == -signal.SIGKILL else ""
    return f"its process was killed by {known.get(-code, f'signal {-code}')}{memory}"


def _number(text: str) -> int:
    if text and not (text.isdecimal() and 0 < int(text) <= MOST):
        raise errors.BadSetting(
            f"--engine local:{text}: a number of processes from 1, as in local:4"
        )
    return int(text or 1)


def _environment(slot: int, slots: int, cards: list[str]) -> dict[str, str]:
    """Of a process: its share of the cores, and its GPU."""
    if slots == 1:
        return {}
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    own = {"OMP_NUM_THREADS": str(max(1, cores // slots))}
    return {**own, "CUDA_VISIBLE_DEVICES": cards[slot % len(cards)]} if cards else own


def _cards(device: str) -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    if device not in ("auto", "cuda"):
        return []
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [card for card in named.split(",") if card.strip()]
    return [str(number) for number in range(len(gpus()))]


@contextmanager
def _set(environment: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        for name in environment:
            os.environ.pop(name)
            if name in before:
                os.environ[name] = before[name]
