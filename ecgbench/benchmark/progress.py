"""What a person sees while a run is at work: bars on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

EVERY = 15.0
"""Seconds between two plain lines of one stage."""


class Watcher(Protocol):
    """Told what the run is doing."""

    def note(self, text: str) -> None:
        """One line about something that is done."""

    def stage(self, text: str, total: int, unit: str) -> AbstractContextManager[Callable[[int], None]]:
        """A stretch of work; the context gives a function to call with the units just done."""


class Lines:
    """Plain lines on standard error: a start, a line every 15 s with rate and time left, an end."""

    def note(self, text: str) -> None:
        """Print one line."""
        print(text, file=sys.stderr, flush=True)

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
                self.note(f"  {text}: {done}/{total} {unit}, {rate:.1f} {unit}/s, {_time((total - done) / rate)} left")

        if total:
            self.note(f"{text}: {total} {unit}")
        yield advance
        if total and time.monotonic() - started >= EVERY:
            self.note(f"  {text}: done in {_time(time.monotonic() - started)}")


class Bars:
    """Bars on a terminal: what, how far, rate, time left."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)

    def note(self, text: str) -> None:
        """Print one line."""
        self.console.print(text, highlight=False, markup=False)

    @contextmanager
    def stage(self, text: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """Show a bar for a stretch of work."""
        if not total:
            yield lambda n: None
            return
        columns = (
            TextColumn("{task.description}", markup=False), BarColumn(bar_width=14), MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"), TimeRemainingColumn(compact=True), TextColumn("left"),
        )  # fmt: skip
        started = time.monotonic()
        with Progress(*columns, console=self.console) as bar:
            task = bar.add_task(text, total=total, rate="")

            def advance(n: int) -> None:
                bar.advance(task, n)
                done = bar.tasks[0].completed
                bar.update(task, rate=f"{done / max(time.monotonic() - started, 1e-9):.1f}/s")

            yield advance


def watcher() -> Watcher:
    """Bars where standard error is a terminal, else plain lines."""
    return Bars() if sys.stderr.isatty() else Lines()


def paced(what: str, note: Callable[[str], None]) -> Callable[[int, int], None]:
    """A (done, total) callback that notes at most a line every few seconds, and the end."""
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if done == total or time.monotonic() - last > EVERY / 3:
            last = time.monotonic()
            note(f"{what}: {done}/{total} records")

    return show


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
