"""The room of engines: where jobs run, one file each.

An engine defines `CARD` and `run(work, jobs, show, execution)`. It takes jobs from the deque
`jobs`, which may grow, calls `work(job, show)` for each, on any machine, and yields (job, None), or
(job, Died) where the process ended before the job. Jobs that it does not yield go on without this
command. `show(job, event)` takes what `study.progress.Reporter` sends; `execution` is a
`study.jobs.Execution`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ecgbench.cards.rooms import EngineCard as EngineCard
from ecgbench.contracts import Engine
from ecgbench.core.registry import Room
from ecgbench.study.jobs import Job

ROOM = Room("ecgbench.study.engines", "engine", Engine)
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve

Event = tuple[Any, ...]
Work = Callable[[Job, Callable[[Event], None]], None]
Show = Callable[[Job, Event], None]


@dataclass(frozen=True)
class Died:
    """The process of a job ended, or made no progress, before the job was finished."""

    reason: str
    log: str = ""
    """File with its output, where that is not the log of the job."""


def named(text: str) -> tuple[str, str]:
    """Name and options: ("local", "4") of `local:4`; UnknownName."""
    if text.endswith(".py"):
        return resolve(text), ""
    name, _, options = text.partition(":")
    return resolve(name), options
