"""Turns what happens in a job into events."""

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from ecgbench.core.cells import Cell
from ecgbench.core.text import shortened
from ecgbench.errors import EcgbenchError
from ecgbench.study import events
from ecgbench.study.events import Emit, Event

LONGEST_REASON, LONGEST_TRACE = 500, 20_000
"""Characters of what a plug-in's exception says that are kept."""


class Reporter:
    """Emits the events of one job; a Display to the code that computes."""

    def __init__(self, job: str, emit: Emit) -> None:
        self.job, self.emit = job, emit
        self._stages = count(1)

    def note(self, text: str) -> None:
        """One line about something that is done."""
        self.emit(events.Note(self.job, text))

    @contextmanager
    def stage(self, text: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """A stretch of work; the context gives a function to call with the pieces just done."""
        stage = next(self._stages)
        self.emit(events.Stage(self.job, stage, text, int(total), unit))
        try:
            yield lambda n: self.emit(events.Advance(self.job, stage, int(n)))
        finally:
            self.emit(events.StageOver(self.job, stage))

    def tell(self, kind: Callable[..., Event], cells: Sequence[Cell], *facts: str | bool) -> None:
        """What happened to cells: an event of this kind with its other fields."""
        self.emit(kind(self.job, tuple(c.identity for c in cells), *facts))

    def disqualified(self, reason: str, trace: str) -> None:
        """No number of the model can be trusted."""
        self.emit(events.Disqualified(self.job, reason, trace))


def trace_of(error: Exception) -> str:
    """The end of an exception's traceback."""
    return "".join(traceback.format_exception(error))[-LONGEST_TRACE:]


def reason_of(error: Exception) -> str:
    """What an exception says, as one line that a terminal shows as it is.

    >>> reason_of(ValueError("no memory:\\n  you asked\\tfor \\x1b[31mmuch"))
    'ValueError: no memory: you asked for U+001B[31mmuch'
    """
    reason = str(error) if isinstance(error, EcgbenchError) else f"{type(error).__name__}: {error}"
    return shortened(reason[: 4 * LONGEST_REASON], LONGEST_REASON)
