"""Pairwise: two jobs at once, each in a new process of its own. Enters as `--engine
tests/plugins/pairwise.py`.
"""

import select
from collections.abc import Iterator

from ecgbench.study.engine import EngineCard, Setup
from ecgbench.study.events import Event
from ecgbench.study.job import Job
from ecgbench.study.worker_process import WorkerProcess, log_file

CARD = EngineCard(title="Pairwise", summary="two processes at once on this machine")


class Pairwise:
    """Starts a worker for every job."""

    slots = 2

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.workers: list[WorkerProcess] = []

    def submit(self, job: Job) -> None:
        """Start a worker for the job."""
        worker = WorkerProcess(log_file(self.setup.logs, job.model), self.setup.patience)
        self.workers.append(worker)
        worker.submit(job)

    def events(self, timeout: float) -> Iterator[Event]:
        """What the workers say; one whose job is over is ended."""
        select.select(self.workers, [], [], timeout)
        for worker in list(self.workers):
            yield from worker.events(0)
            if worker.job is None:
                self.workers.remove(worker)
                worker.end()

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.end()


def start(setup: Setup) -> Pairwise:
    """The engine."""
    return Pairwise(setup)
