"""Pairwise: two jobs at once, each in a new process of its own, by the engine local. Enters as
`--engine tests/plugins/pairwise.py`.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from ecgbench.study.engines import Died, EngineCard, Show, Work, local
from ecgbench.study.jobs import Execution, Job

CARD = EngineCard(title="Pairwise", summary="two processes at once on this machine")


def run(
    work: Work, jobs: deque[Job], show: Show, execution: Execution
) -> Iterator[tuple[Job, Died | None]]:
    """Carry jobs out in pairs."""
    while jobs:
        pair = deque(jobs.popleft() for _ in range(min(2, len(jobs))))
        yield from local.run(work, pair, show, replace(execution, options="2"))
