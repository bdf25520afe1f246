"""Inline: jobs in this process, one after the other. For a debugger, and under torchrun.

A model that ends its process ends the run.
"""

from collections import deque
from collections.abc import Iterator
from functools import partial

from ecgbench.study.engines import Died, EngineCard, Show, Work
from ecgbench.study.jobs import Execution, Job

CARD = EngineCard(title="Inline", summary="in this process, for a debugger")


def run(
    work: Work, jobs: deque[Job], show: Show, execution: Execution
) -> Iterator[tuple[Job, Died | None]]:
    """Carry jobs out in this process."""
    while jobs:
        job = jobs.popleft()
        work(job, partial(show, job))
        yield job, None
