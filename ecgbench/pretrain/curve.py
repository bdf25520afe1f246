"""The curve of a pre-training: a point per step, as it is logged and shown."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ecgbench.core.files import lines, put, writing
from ecgbench.core.text import duration

FILE = "curve.csv"
RECENT = 100
"""Steps over which the numbers that a person sees are averaged."""


@dataclass(frozen=True)
class Point:
    """One step."""

    step: int
    """Steps made, this one included."""
    loss: float
    """Mean cross-entropy over all masked nodes of the batch, summed over codebooks, nats."""
    accuracy: tuple[float, ...]
    """Per codebook: share of the masked nodes whose likeliest code is the target."""
    nodes: int
    """Masked nodes of the batch."""
    seconds: float
    """Wall time of the step in the first process, without checkpoints and probes."""
    waiting: float
    """Of them, spent waiting for data."""

    def row(self) -> list[float]:
        """Its line in the CSV."""
        return [self.step, self.loss, *self.accuracy, self.nodes, self.seconds, self.waiting]

    @classmethod
    def of(cls, row: Sequence[float]) -> "Point":
        """From `row`."""
        step, loss, *accuracy, nodes, seconds, waiting = row
        return cls(int(step), loss, tuple(accuracy), int(nodes), seconds, waiting)


@dataclass(frozen=True)
class Report:
    """Where a stage stands, over its last `RECENT` steps in this process."""

    step: int
    steps: int
    loss: float
    accuracy: tuple[float, ...]
    rate: float
    """Records per second, of all processes together."""
    waiting: float
    """Share of the time spent waiting for data."""
    left: float
    """Seconds until the last step at this pace."""

    def __str__(self) -> str:
        accuracy = "/".join(f"{a:.3f}" for a in self.accuracy)
        return (
            f"step {self.step}/{self.steps}: loss {self.loss:.4f}, masked accuracy {accuracy}, "
            f"{self.rate:.0f} records/s, {self.waiting:.0%} of the time waiting for data, "
            f"{duration(self.left)} left"
        )


Listener = Callable[[Report], None]


def at_intervals(note: Callable[[str], None], every: float = 15.0) -> Listener:
    """A listener that notes the first report, the last one, and one every so many seconds
    between.
    """
    last = float("-inf")

    def listen(report: Report) -> None:
        nonlocal last
        if report.step == report.steps or time.monotonic() - last >= every:
            last = time.monotonic()
            note(str(report))

    return listen


@contextmanager
def logging(
    folder: Path, curve: Sequence[Point], steps: int, batch: int, listener: Listener
) -> Iterator[Callable[[Point], None]]:
    """The log in `folder`, which goes on after `curve`, whatever an interrupted run had written
    behind it.

    steps: of the stage; batch: records of a step; listener: called after each step. WriteError.
    """
    recent: deque[Point] = deque(maxlen=RECENT)
    path = put(folder / FILE, _table(curve))

    def log(point: Point) -> None:
        with writing(path):
            if not point.step - 1:
                out.write(lines([_head(point)]))
            out.write(lines([point.row()]))
            out.flush()
        recent.append(point)
        listener(_report(recent, steps, batch))

    with path.open("a", encoding="utf-8") as out:
        yield log


def _table(curve: Sequence[Point]) -> str:
    return lines([_head(curve[0]), *(p.row() for p in curve)]) if curve else ""


def _head(point: Point) -> list[str]:
    accuracies = [f"accuracy_{i}" for i, _ in enumerate(point.accuracy, 1)]
    return ["step", "loss", *accuracies, "nodes", "seconds", "waiting"]


def _report(recent: Sequence[Point], steps: int, batch: int) -> Report:
    n, seconds = len(recent), sum(p.seconds for p in recent)
    accuracy = tuple(sum(column) / n for column in zip(*(p.accuracy for p in recent)))
    return Report(
        recent[-1].step,
        steps,
        sum(p.loss for p in recent) / n,
        accuracy,
        n * batch / seconds,
        sum(p.waiting for p in recent) / seconds,
        (steps - recent[-1].step) * seconds / n,
    )
