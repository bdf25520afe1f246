"""The engine of a run, started. What the code of a plug-in raises, and what it gives that is no
event, is one line.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ecgbench.errors import BadSetting
from ecgbench.study import engines
from ecgbench.study.engine import Elsewhere, Engine, Setup
from ecgbench.study.events import Event
from ecgbench.study.job import Job


def start(name: str, setup: Setup) -> Engine:
    """The engine called `name`; UnknownName. BadSetting, here and later, where the code of a
    plug-in fails.
    """
    with engines.ROOM.calling(name):
        engine: Engine = engines.get(name).start(setup)
        kind = _PluginElsewhere if isinstance(engine, Elsewhere) else _Plugin
    return engine if engines.ROOM.built_in(name) else kind(name, engine)


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


class _PluginElsewhere(_Plugin):
    """One whose jobs may go on when the command has ended."""

    @property
    def prepares(self) -> bool:
        with engines.ROOM.calling(self.name):
            return bool(self._elsewhere.prepares)

    def leave(self, launch: bool = True) -> str:
        with engines.ROOM.calling(self.name):
            return str(self._elsewhere.leave(launch))

    @property
    def _elsewhere(self) -> Elsewhere:
        assert isinstance(self.engine, Elsewhere)
        return self.engine
