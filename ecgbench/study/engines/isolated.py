"""Isolated: jobs in a process of their own, so that an abort, an endless loop or a full memory
costs the model's cells only.

The models of this package share a process, one after the other. A job that uses a plug-in from
outside, of whichever kind, has one that no other model sees, nor a job that does without.
"""

from collections.abc import Iterator

from ecgbench.study.engine import EngineCard, Setup
from ecgbench.study.events import Event
from ecgbench.study.job import Job, Look
from ecgbench.study.worker_process import WorkerProcess, log_file

CARD = EngineCard(
    title="Isolated", summary="in a process of their own on this machine, one after the other"
)


Uses = tuple[str, tuple[tuple[str, str], ...]]
"""Whose log a worker writes, and which plug-ins from outside are in its process."""
IDLE = 3
"""Workers that may wait for a job of their model while another works; each has imported torch."""


class Isolated:
    """Carries jobs out in worker processes, one at a time. A worker that has only looked at its
    model waits for that model's next job; one that has computed ends when another begins.
    """

    slots = 1

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._waiting: dict[Uses, WorkerProcess] = {}
        """Of the models that they have looked at, oldest first."""
        self._of, self._worker = ("", ()), None  # type: Uses, WorkerProcess | None
        self._looked = False

    def submit(self, job: Job) -> None:
        """Give the job to the worker of its model."""
        of = (job.model if job.foreign else "ecgbench", job.foreign)
        if self._worker is None or self._of != of or not self._worker.alive:
            self._leave()
            self._of, worker = of, self._waiting.pop(of, None)
            if worker is None or not worker.alive:
                worker = WorkerProcess(log_file(self.setup.logs, of[0]), self.setup.patience)
            self._worker = worker
        self._looked = isinstance(job, Look)
        self._worker.submit(job)

    def events(self, timeout: float) -> Iterator[Event]:
        """What the worker says."""
        yield from self._worker.events(timeout) if self._worker is not None else ()

    def close(self) -> None:
        """End all workers."""
        self._looked = False
        self._leave()
        while self._waiting:
            self._waiting.popitem()[1].end()

    def _leave(self) -> None:
        """Let the worker wait, or end it."""
        if self._worker is None:
            return
        if self._looked and self._worker.alive:
            self._waiting[self._of] = self._worker
            if len(self._waiting) > IDLE:
                self._waiting.pop(next(iter(self._waiting))).end()
        else:
            self._worker.end()
        self._worker = None


def start(setup: Setup) -> Isolated:
    """The engine."""
    return Isolated(setup)
