"""What an engine is: it takes jobs and gives events. The room `engines` holds one file for each."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ecgbench import errors
from ecgbench.study.events import Died, Event, Over, Stopped
from ecgbench.study.job import Job

POLL = 1.0
"""Seconds that a run waits for events at a time."""


@dataclass(frozen=True, kw_only=True)
class EngineCard:
    """Facts of an engine."""

    title: str
    summary: str
    """One line: where jobs are carried out."""
    other_machines: bool = False
    """Whether that is on machines whose devices this one does not know."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What an engine starts with."""

    logs: Path
    """Folder for what models print to standard output and error."""
    patience: float
    """Seconds without an event after which a job counts as dead."""
    show: Callable[[Event], None]
    """Takes events of `events.SHOWN` at once. For an engine whose jobs run in this process and
    would show them too late.
    """
    options: Mapping[str, str] = field(default_factory=dict)
    """Of this engine, as they were typed; "": what stood behind its name (local:4)."""
    out: Path | None = None
    """The run folder."""
    device: str = "auto"
    """As it was asked for."""


class Engine(Protocol):
    """Carries jobs out, wherever that is. A job's events end with Over, Stopped or Died, exactly
    one of them.
    """

    @property
    def slots(self) -> int:
        """How many jobs it takes at once."""

    def submit(self, job: Job) -> None:
        """Take a job; called only while fewer than `slots` are in flight."""

    def events(self, timeout: float) -> Iterable[Event]:
        """What happened since the last call; where nothing did, waits for `timeout` seconds at
        most.
        """

    def close(self) -> None:
        """End all that it started, in any state."""


@runtime_checkable
class Elsewhere(Engine, Protocol):
    """An engine whose jobs are claimed by the processes that carry them out, and may go on when the
    command has ended.
    """

    @property
    def prepares(self) -> bool:
        """Whether recordings are prepared by a job of its own before the others, and not by the
        command.
        """

    def leave(self, launch: bool = True) -> str:
        """Hand over what was submitted, without waiting for it, and say where it went. Without
        `launch`: only leave the files of it.
        """


def ask(engine: Engine, job: Job) -> dict[str, Any]:
    """The answer of a look or a measurement; {"failed": reason} where its process died or gave no
    such answer. EcgbenchError for what stops the run.
    """
    return ask_all(engine, [job])[job.id]


def ask_all(engine: Engine, jobs: Iterable[Job]) -> dict[str, dict[str, Any]]:
    """The answers to several, by the names of the jobs, as many at once as the engine takes."""
    from ecgbench.study.answers import checked  # imports adapters, which an engine need not

    waiting, asked, answers = [*jobs][::-1], dict[str, Job](), dict[str, dict[str, Any]]()
    while waiting or asked:
        while waiting and len(asked) < engine.slots:
            job = waiting.pop()
            asked[job.id] = job
            engine.submit(job)
        for event in engine.events(POLL):
            if event.job not in asked:
                continue
            match event:
                case Over():
                    answer = event.answer
                case Died():
                    answer = {"failed": event.reason}
                case Stopped():
                    raise errors.named(event.error, event.reason)
                case _:
                    continue
            answers[event.job] = checked(asked.pop(event.job), answer)
    return answers
