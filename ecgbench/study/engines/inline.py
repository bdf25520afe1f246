"""Inline: jobs in this process, one after the other. For a debugger, and under torchrun.

A model that ends its process ends the run.
"""

from collections import deque
from collections.abc import Iterator

from ecgbench.study.engine import EngineCard, Setup
from ecgbench.study.events import SHOWN, Event
from ecgbench.study.job import Job

CARD = EngineCard(title="Inline", summary="in this process, for a debugger")


class Inline:
    """Carries a job out when its events are requested."""

    slots = 1

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._jobs = deque[Job]()

    def submit(self, job: Job) -> None:
        """Take a job."""
        self._jobs.append(job)

    def events(self, timeout: float) -> Iterator[Event]:
        """Carry the job out to its end; what a person sees is shown meanwhile."""
        # imports torch, which checking names does not need
        from ecgbench.study.carry_out import carry_out

        while self._jobs:
            happened: list[Event] = []

            def emit(event: Event) -> None:
                (self.setup.show if isinstance(event, SHOWN) else happened.append)(event)  # noqa: B023

            carry_out(self._jobs.popleft(), emit)
            yield from happened

    def close(self) -> None:
        """Nothing is left to end."""


def start(setup: Setup) -> Inline:
    """The engine."""
    return Inline(setup)
