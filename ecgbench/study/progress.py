"""What a person sees during a run: bars on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ecgbench.core.files import warnings_to
from ecgbench.core.text import duration, shortened, visible

LONGEST = 1000
"""Characters of a text of an event that are shown."""
EVERY = 15.0
"""Seconds between two plain lines of one stage."""


class Display(Protocol):
    """Shows what a run is doing."""

    def note(self, text: str) -> None:
        """One line about something that is done."""

    def stage(
        self, text: str, total: int, unit: str
    ) -> AbstractContextManager[Callable[[int], None]]:
        """A stretch of work; the context gives a function to call with the units just done."""


class Lines:
    """Plain lines on standard error: a start, a line every 15 s with rate and time left, an end."""

    def note(self, text: str) -> None:
        """Print one line."""
        print(visible(text), file=sys.stderr, flush=True)

    @contextmanager
    def stage(self, text: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """Print how a stretch of work goes."""
        started = last = time.monotonic()
        done = 0

        def advance(n: int) -> None:
            nonlocal done, last
            done += n
            now = time.monotonic()
            if now - last >= EVERY and done:
                last = now
                rate = done / (now - started)
                self.note(
                    f"  {text}: {done}/{total} {unit}, {rate:.1f} {unit}/s, "
                    f"{duration((total - done) / rate)} left"
                )

        if total:
            self.note(f"{text}: {total} {unit}")
        yield advance
        if total and time.monotonic() - started >= EVERY:
            self.note(f"  {text}: done in {duration(time.monotonic() - started)}")


class Bars:
    """Bars on a terminal, one for each stretch of work that is under way: what, how far, rate, time
    left.
    """

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self._live: Progress | None = None

    def note(self, text: str) -> None:
        """Print one line above the bars."""
        self.console.print(visible(text), highlight=False, markup=False)

    @contextmanager
    def stage(self, text: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """Show a bar for a stretch of work, and a line when it is over."""
        if not total:
            yield lambda n: None
            return
        live = self._live = self._live or self._begun()
        task, started, done = live.add_task(text, total=total, rate=""), time.monotonic(), 0

        def advance(n: int) -> None:
            nonlocal done
            done += n
            rate = f"{done / max(time.monotonic() - started, 1e-9):.1f}/s"
            live.update(task, completed=done, rate=rate)

        try:
            yield advance
        finally:
            live.remove_task(task)
            if not live.tasks:
                live.stop()
                self._live = None
        self.note(f"{text}: {done}/{total} {unit} in {duration(time.monotonic() - started)}")

    def _begun(self) -> Progress:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=14),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
        )
        live = Progress(*columns, console=self.console, transient=True)
        live.start()
        return live


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


class JobDisplay:
    """Shows what several jobs send, which may be mixed."""

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
                shown = self.progress.stage(shortened(text, LONGEST), total, unit)
                self._stages[job, stage] = stack, stack.enter_context(shown)
            case ("advance", stage, n) if (job, stage) in self._stages:
                self._stages[job, stage][1](n)
            case ("end", stage) if (job, stage) in self._stages:
                self._stages.pop((job, stage))[0].close()

    def end(self, job: int) -> None:
        """A job is over: so are its stages."""
        for key in [k for k in self._stages if k[0] == job]:
            self._stages.pop(key)[0].close()


def display() -> Display:
    """Bars where standard error is a terminal, else plain lines."""
    return Bars() if sys.stderr.isatty() else Lines()


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
