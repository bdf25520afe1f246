"""What happens in a job, as small typed values that travel as lines of JSON, over a pipe or in a
file.

An event only says where to look: a cell is computed when its folder in the store holds DONE.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_origin

from ecgbench.errors import EcgbenchError

LONGEST = 1 << 24
"""Bytes after which a line that has not ended is no event."""
LONGEST_TEXT = 1 << 16
"""Characters of a text of an event; a reason or a trace that we write is far shorter."""


class BadEvent(EcgbenchError):
    """Bytes that are no event: something else wrote where events are expected."""


@dataclass(frozen=True)
class Event:
    """Something that happened in a job."""

    job: str
    """Its id."""


@dataclass(frozen=True)
class Started(Event):
    """A process has loaded what every job needs and turns to this one."""


@dataclass(frozen=True)
class Note(Event):
    """One line for people."""

    text: str


@dataclass(frozen=True)
class Stage(Event):
    """A stretch of work begins: `total` pieces, `unit` being their plural; `stage` numbers it
    within the job.
    """

    stage: int
    text: str
    total: int
    unit: str


@dataclass(frozen=True)
class Advance(Event):
    """`n` more pieces of a stage are done."""

    stage: int
    n: int


@dataclass(frozen=True)
class StageOver(Event):
    """A stage has ended."""

    stage: int


@dataclass(frozen=True)
class InProgress(Event):
    """The cells that are lost if the process ends now."""

    cells: tuple[str, ...]
    """Their identities, here and below."""
    together: bool
    """Whether they are computed at once: one of them may be at fault, so each is then tried
    alone.
    """


@dataclass(frozen=True)
class Finished(Event):
    """Cells that lie in the store with DONE."""

    cells: tuple[str, ...]
    others: bool = False
    """Whether another command has computed them meanwhile."""


@dataclass(frozen=True)
class Skipped(Event):
    """Cells that the model cannot do, and why."""

    cells: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Failed(Event):
    """Cells that failed, why, and where (a traceback); `log`: the file with what the model printed,
    or "".
    """

    cells: tuple[str, ...]
    reason: str
    trace: str
    log: str = ""


@dataclass(frozen=True)
class Disqualified(Event):
    """No number of the model can be trusted; what is left of it in this run fails. A file in the
    store says so too.
    """

    reason: str
    trace: str
    log: str = ""


@dataclass(frozen=True)
class Over(Event):
    """The job came to its end; `answer`: what a look or a measurement found."""

    answer: dict[str, Any]


@dataclass(frozen=True)
class Stopped(Event):
    """What the user must correct before anything else is computed: an error of `ecgbench.errors` by
    its name.
    """

    error: str
    reason: str


@dataclass(frozen=True)
class Died(Event):
    """From an engine: the process of the job ended, or made no progress, before the job was
    over.
    """

    reason: str
    log: str = ""


Emit = Callable[[Event], None]
SHOWN = (Note, Stage, Advance, StageOver)
"""Events that only a person needs."""
KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__subclasses__()}


def to_line(event: Event) -> bytes:
    """An event as a line of JSON.

    >>> to_line(Advance("3", 1, 20))
    b'{"kind": "Advance", "job": "3", "stage": 1, "n": 20}\\n'
    """
    return (json.dumps({"kind": type(event).__name__, **event.__dict__}) + "\n").encode()


def from_line(line: bytes) -> Event:
    """The event that `to_line` wrote; BadEvent for any other line.

    >>> from_line(b'{"kind": "Started", "job": "3"}')
    Started(job='3')
    """
    try:
        data = json.loads(line)
        kind: Any = KINDS[data.pop("kind")]
        event: Event = kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in data.items()})
        if not all(_fits(getattr(event, f.name), f.type) for f in fields(event)):
            raise TypeError
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise BadEvent(f"no event: {line[:60]!r}") from None
    return event


def _fits(value: object, kind: Any) -> bool:
    if type(value) is not (get_origin(kind) or kind):
        return False
    if isinstance(value, tuple):
        return all(type(v) is str for v in value)
    if isinstance(value, str):
        return len(value) <= LONGEST_TEXT
    # pieces of work, and numbers of stages
    return not isinstance(value, int) or 0 <= value < 2**53


class Lines:
    """Bytes as they come in, to events as they end."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that end in `data`; BadEvent at the first line that is none."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            yield from_line(line)
        if len(self._rest) > LONGEST:
            raise BadEvent(f"a line of more than {LONGEST} bytes is no event")


class EventFile:
    """Events that another process appends to a file; a line that is not whole yet waits for its
    end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read, self._lines = 0, Lines()

    def events(self) -> Iterator[Event]:
        """What was written since the last call, nothing while there is no file; BadEvent at a line
        that is none.
        """
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        yield from self._lines.feed(data)
