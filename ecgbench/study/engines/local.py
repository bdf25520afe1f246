"""Local: processes on this machine; `local:4` runs four at once, each on its own GPU where there
are several.

A crash, an endless loop or a full memory costs only the cells of its job. A process takes job after
job; one that has run a plug-in from outside ends after it.
"""

import os
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any

from ecgbench import errors
from ecgbench.core.process import ended_in_words
from ecgbench.study.engines import Died, EngineCard, Show, Work
from ecgbench.study.engines._serve import SHOW_STACKS, end_session, environments_of, started
from ecgbench.study.jobs import Execution, Job

CARD = EngineCard(
    title="Local", summary="processes of this machine; local:4 is four of them at once"
)
START = 120.0
"""Additional seconds for a new process to import what every job needs."""


def run(
    work: Work, jobs: deque[Job], show: Show, execution: Execution
) -> Iterator[tuple[Job, Died | None]]:
    """Run jobs in separate processes. EcgbenchError where one reports an error that the user must
    correct.
    """
    environments = environments_of(execution.options, execution.device)
    free, busy = list[_Worker](), list[_Worker]()
    try:
        while jobs or busy:
            while jobs and (free or environments):
                worker = free.pop() if free else _Worker(work, environments.pop(0))
                busy.append(worker)
                worker.begin(jobs.popleft())
            wait([worker.pipe for worker in busy], timeout=1.0)
            for worker in list(busy):
                over, died = worker.listen(show, execution.settings.timeout)
                if not over and died is None:
                    continue
                busy.remove(worker)
                if over and not worker.job.foreign:
                    free.append(worker)
                else:
                    worker.end()
                    environments.append(worker.environment)
                yield worker.job, died
    finally:
        for worker in [*free, *busy]:
            worker.end()


class _Worker:
    """One process, which carries out one job at a time."""

    def __init__(self, work: Work, environment: dict[str, str]) -> None:
        self.environment, self.grace = environment, START
        self.process, self.pipe = started(work, environment)

    def begin(self, job: Job) -> None:
        self.job, self.heard, self.doing = job, time.monotonic() + self.grace, ""
        self.grace = 0.0
        self._seen, self._left = set[Any](), dict[int, int]()
        with suppress(OSError):  # it died between two jobs: `listen` finds out
            self.pipe.send(job)

    def listen(self, show: Show, timeout: float) -> tuple[bool, Died | None]:
        """Whether its job is over, and why the process died, if it did."""
        # a process that it forked may keep the pipe open
        dead = self.process.poll() is not None
        try:
            if self.pipe.poll():
                kind, what = self.pipe.recv()
                if kind == "stop":
                    raise errors.named(*what)
                if kind == "event":
                    if self.is_progress(what):
                        self.heard = time.monotonic()
                    self.doing = f" ({what[2]})" if what[0] == "stage" else self.doing
                    show(self.job, what)
                return kind == "over", None
        except (EOFError, OSError):
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
            dead = True
        if dead:
            return False, Died(ended_in_words(self.process.returncode or 0))
        if time.monotonic() - self.heard > timeout:
            with suppress(OSError):
                os.kill(self.process.pid, SHOW_STACKS)
                time.sleep(0.25)
            why = f"no progress for {timeout:g} s{self.doing}, so it was ended"
            return False, Died(f"{why} (--set run.timeout)")
        return False, None

    def is_progress(self, event: tuple[Any, ...]) -> bool:
        """Whether an event says something new. A model that copies its process says all of it twice
        and may go on for ever.
        """
        kind, *what = event
        if kind == "wait":  # for another command that computes the same
            return True
        if kind == "advance":
            stage, more = what
            left = self._left.get(stage, 0)
            self._left[stage] = left - more
            return min(left, more) > 0
        new = event not in self._seen
        if new and kind == "stage":
            self._left[what[0]] = what[2]
        self._seen.add(event)
        return new

    def end(self) -> None:
        """End the process and all that it started."""
        end_session(self.process.pid)
        self.process.kill()
        self.process.wait()
        self.pipe.close()
