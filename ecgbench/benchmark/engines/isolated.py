"""Isolated: jobs in a process of their own, so that an abort, an endless loop or a full memory
costs the model's cells only.

The models of this package share a process, one after the other; a plug-in has one that no other
model sees.
"""

from collections.abc import Iterator

from ecgbench import models
from ecgbench.benchmark.engine import EngineCard, Setup
from ecgbench.benchmark.events import Event
from ecgbench.benchmark.job import Job
from ecgbench.benchmark.worker_process import WorkerProcess, log_file

CARD = EngineCard(
    title="Isolated", summary="in a process of their own on this machine, one after the other"
)


class Isolated:
    """Carries jobs out in a worker process, which is kept until a job needs another."""

    slots = 1

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._of, self._worker = "", None  # type: str, WorkerProcess | None

    def submit(self, job: Job) -> None:
        """Give the job to the worker of its model."""
        of = "ecgbench" if models.ROOM.built_in(job.model) else job.model
        if self._worker is None or self._of != of or not self._worker.alive:
            self.close()
            self._of = of
            self._worker = WorkerProcess(log_file(self.setup.logs, of), self.setup.patience)
        self._worker.submit(job)

    def events(self, timeout: float) -> Iterator[Event]:
        """What the worker says."""
        yield from self._worker.events(timeout) if self._worker is not None else ()

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None


def start(setup: Setup) -> Isolated:
    """The engine."""
    return Isolated(setup)
