"""The engine of a run, started. What the code of a plug-in raises, and what it gives that is no
event, is one line.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ecgbench.benchmark import engines
from ecgbench.benchmark.engine import Engine, Setup
from ecgbench.benchmark.events import Event
from ecgbench.benchmark.job import Job
from ecgbench.errors import BadSetting


def start(name: str, setup: Setup) -> Engine:
    """The engine called `name`; UnknownName. BadSetting, here and later, where the code of a
    plug-in fails.
    """
    with engines.ROOM.calling(name):
        engine: Engine = engines.get(name).start(setup)
    return engine if engines.ROOM.built_in(name) else _Plugin(name, engine)


@dataclass(frozen=True)
class _Plugin:
    """An engine from outside; each call of its code is guarded."""

    name: str
    engine: Engine

    @property
    def slots(self) -> int:
        with engines.ROOM.calling(self.name):
            return int(self.engine.slots)

    def submit(self, job: Job) -> None:
        with engines.ROOM.calling(self.name):
            self.engine.submit(job)

    def events(self, timeout: float) -> Iterator[Event]:
        with engines.ROOM.calling(self.name):
            for event in self.engine.events(timeout):
                if not isinstance(event, Event):
                    raise BadSetting(
                        f"engine {self.name!r}: its events() gives a {type(event).__name__} where "
                        f"an Event belongs"
                    )
                yield event

    def close(self) -> None:
        with engines.ROOM.calling(self.name):
            self.engine.close()
