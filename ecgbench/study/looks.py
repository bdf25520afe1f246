"""Questions before a run, to several models at once: each in a process of its own, as many at a
time as there are cores, eight at most. Models of this package share one process.
"""

import time
from collections import deque
from collections.abc import Iterator

from ecgbench.forks import cores
from ecgbench.study.engine import Engine, Setup
from ecgbench.study.events import Died, Event, Over, Stopped
from ecgbench.study.job import Job
from ecgbench.study.started import start

ENGINE = "isolated"
"""Where models are looked at."""
MOST, IDLE = 8, 3
"""Processes at work at a time, and those that may wait for another question of their model; each
has imported torch.
"""
_SHORT = 0.02
"""Seconds that one process is listened to at a time."""

Uses = tuple[str, tuple[tuple[str, str], ...]]


class Looks:
    """An engine of questions: any number of jobs in flight, one at a time in each process."""

    slots = 1 << 30

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._engines: dict[Uses, Engine] = {}
        """Those that are at work last."""
        self._busy: dict[Uses, str] = {}
        self._waiting: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        """Take a job."""
        self._waiting.append(job)

    def events(self, timeout: float) -> Iterator[Event]:
        """What any of the processes says."""
        deadline, came = time.monotonic() + timeout, False
        while not came:
            self._begin()
            for of in list(self._busy):
                for event in self._engines[of].events(_SHORT):
                    came = True
                    if isinstance(event, Over | Stopped | Died) and event.job == self._busy[of]:
                        del self._busy[of]
                    yield event
            if not self._busy or time.monotonic() > deadline:
                return

    def close(self) -> None:
        """End all processes."""
        self._waiting.clear()
        self._busy.clear()
        while self._engines:
            self._engines.popitem()[1].close()

    def _begin(self) -> None:
        """Hand jobs to the processes of their models, where a core and the process are free."""
        for job in list(self._waiting):
            of = (job.model if job.foreign else "ecgbench", job.foreign)
            if len(self._busy) >= min(cores(), MOST):
                return
            if of in self._busy:
                continue
            self._waiting.remove(job)
            engine = self._engines.pop(of, None) or start(ENGINE, self.setup)
            self._engines[of] = engine
            self._busy[of] = job.id
            engine.submit(job)
        idle = [of for of in self._engines if of not in self._busy]
        for of in idle[: max(0, len(idle) - IDLE)]:
            self._engines.pop(of).close()
