"""Progress of a run for people: bars on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from ecgbench.core.files import warnings_to
from ecgbench.core.text import duration, shortened, visible

LONGEST = 1000
"""Longest text of an event, in characters."""
EVERY = 15.0
"""Seconds between two plain lines of one stage."""


class Terminal:
    """Standard error: on a terminal a bar for each stretch of work that is under way, and a line
    when it is over; elsewhere a line when it starts, one every 15 s with rate and time left, and
    one when it took longer than that.
    """

    def __init__(self, bars: bool, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.bars = bars
        self._live = Progress(console=self.console, transient=True)

    def note(self, text: str) -> None:
        """Print one line, above the bars."""
        self.console.print(
            visible(text), markup=False, emoji=False, highlight=False, soft_wrap=True
        )

    @contextmanager
    def stage(self, text: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """Show the progress of a stage."""
        if not total:
            yield lambda n: None
            return
        started = last = time.monotonic()
        done, bar = 0, None
        if self.bars:
            self._live.start()
            bar = self._live.add_task(escape(text), total=total)
        else:
            self.note(f"{text}: {total} {unit}")

        def advance(n: int) -> None:
            nonlocal done, last
            done, now = done + n, time.monotonic()
            if bar is not None:
                self._live.update(bar, completed=done)
            elif now - last >= EVERY and done:
                last, rate = now, done / (now - started)
                left = duration((total - done) / rate)
                self.note(f"  {text}: {done}/{total} {unit}, {rate:.1f} {unit}/s, {left} left")

        try:
            yield advance
        finally:
            spent = time.monotonic() - started
            if bar is not None:
                self._live.remove_task(bar)
                if not self._live.tasks:
                    self._live.stop()
        if bar is not None or spent >= EVERY:
            self.note(f"{text}: {done}/{total} {unit} in {duration(spent)}")


class Reporter:
    """A Display inside a job: what it shows goes to `send`, as tuples that begin with their kind:
    ("note", text), ("stage", number, text, total, unit), ("advance", number, n), ("end", number).
    """

    def __init__(self, send: Callable[[tuple[Any, ...]], None]) -> None:
        self.send = send
        self._stages = count(1)

    def note(self, text: str) -> None:
        """One line about something that is done."""
        self.send(("note", text))

    @contextmanager
    def stage(self, text: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """A stretch of work; the context gives a function to call with the pieces just done."""
        stage = next(self._stages)
        self.send(("stage", stage, text, int(total), unit))
        try:
            yield lambda n: self.send(("advance", stage, int(n)))
        finally:
            self.send(("end", stage))


SILENT = Reporter(lambda event: None)
Display = Terminal | Reporter
"""Shows what a run is doing: `note`, one line about something that is done; `stage`, a stretch of
work, whose context gives a function to call with the units just done.
"""


class TimeLeft:
    """A line about all cells of a run when some of them are finished, at most every 15 s."""

    def __init__(self, cells: int, progress: Display) -> None:
        self.cells, self.progress = cells, progress
        self.started = self.last = time.monotonic()

    def __call__(self, done: int) -> None:
        """So many of its cells are finished."""
        now = time.monotonic()
        if not 0 < done < self.cells or now - self.last < EVERY:
            return
        self.last, spent = now, now - self.started
        left = duration((self.cells - done) * spent / done)
        self.progress.note(
            f"{done} of {self.cells} cells in {duration(spent)}, at this pace {left} left"
        )


class JobDisplay:
    """Shows the events of several jobs."""

    def __init__(self, progress: Display) -> None:
        self.progress = progress
        self._stages: dict[tuple[int, int], tuple[ExitStack, Callable[[int], None]]] = {}

    def __call__(self, job: int, event: tuple[Any, ...]) -> None:
        """Show what a job sent; of a stage that is not open, nothing."""
        match event:
            case ("note", text):
                self.progress.note(shortened(text, LONGEST))
            case ("stage", stage, text, total, unit):
                stack = ExitStack()
                bar = self.progress.stage(shortened(text, LONGEST), total, unit)
                self._stages[job, stage] = stack, stack.enter_context(bar)
            case ("advance", stage, n) if (job, stage) in self._stages:
                self._stages[job, stage][1](n)
            case ("end", stage) if (job, stage) in self._stages:
                self._stages.pop((job, stage))[0].close()

    def end(self, job: int) -> None:
        """A job is over, and so are its stages."""
        for key in [k for k in self._stages if k[0] == job]:
            self._stages.pop(key)[0].close()


def display() -> Display:
    """Bars where standard error is a terminal, else plain lines."""
    return Terminal(bars=sys.stderr.isatty())


@contextmanager
def counting(
    what: str, progress: Display, unit: str = "records", step: int = 1
) -> Iterator[Callable[[int, int | None], None]]:
    """A (done, in all) callback that is shown as a stage of units of `step`, which begins with its
    first call; a count that begins again is another stage. Files that are named meanwhile because
    they are not as they were written (`quarantine`) are noted.
    """
    with warnings_to(progress.note), ExitStack() as stack:
        advance: Callable[[int], None] | None = None
        before = 0

        def show(done: int, total: int | None) -> None:
            nonlocal advance, before
            if not total:
                return
            if advance is None or done // step < before:
                stack.close()
                stage = progress.stage(what, max(1, total // step), unit)
                advance, before = stack.enter_context(stage), 0
            advance(done // step - before)
            before = done // step

        yield show
