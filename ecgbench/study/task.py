"""Carries out one task of a batch, in the process that an engine has started for it: each of its
jobs is a run of those cells alone, into the same store.
"""

import glob
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import BinaryIO, NoReturn

from ecgbench.data.prepare import prepare as prepared
from ecgbench.errors import BadSetting, EcgbenchError
from ecgbench.evaluate.device import choose, demand
from ecgbench.study.batch import TASK, Batch
from ecgbench.study.engine import Setup
from ecgbench.study.events import Advance, Event, Note, Over, Stage, StageOver, to_line
from ecgbench.study.job import Compute, enter
from ecgbench.study.progress import EventDisplay, counting, display
from ecgbench.study.run import Run
from ecgbench.study.started import start
from ecgbench.study.store import Store

ENGINE = "isolated"
"""Where a task's jobs run: what ends one of their processes ends no other job of the task."""
LEAVE = signal.SIGUSR1
"""Asks a task to stop, as its time is nearly over; what it has finished and its checkpoints stay.
"""
EVERY = 5.0
"""Seconds between two lines of one stage: a cluster's disk is shared by all."""


class Left(BaseException):
    """The task was asked to stop before it was over."""

    further: bool = False
    """Whether it has left more in the store than it found: another turn will go on from there."""


def prepare(batch: Batch) -> None:
    """Prepare the recordings that the jobs of a batch need, each dataset once. EcgbenchError as
    `prepared.prepare` says.
    """
    progress, done = display(), set()
    for job in (job for task in batch.tasks for job in task):
        plan, places = job.plan, (job.folders.data, job.folders.prepared)
        asked = job.dataset, *places, plan.limit, plan.fix, plan.division
        if asked in done:
            continue
        done.add(asked)
        enter(job)
        with counting(f"prepare {job.dataset}", progress) as shown:
            prepared(job.dataset, *places, shown, plan.limit, plan.fix, plan.division)
        progress.note(f"{job.dataset} is prepared")


def carry_out(batch: Batch, number: int) -> None:
    """Every job of a task, one after the other; one that fails fails its own cells. Left: it was
    asked to stop.
    """
    device = choose(batch.device)
    demand(device)
    started = time.time()
    try:
        _carry_out(batch, number, device)
    except Left as left:
        runs = {job.folders.out for job in batch.tasks[number]}
        left.further = any(_changed(run, started) for run in runs)
        raise


def _changed(run: Path, since: float) -> bool:
    """Whether a cell, a fit, a checkpoint or features of windows were stored since a time. Those of
    another task may be taken for ours: then this one has another turn.
    """
    below = ("cells/*/*/*/*/DONE", "fits/*/*/*/DONE", "checkpoints/*/*", "features/*/*/windows/*/*")
    names = (name for pattern in below for name in glob.iglob(pattern, root_dir=run))
    with suppress(FileNotFoundError):  # a checkpoint that was replaced meanwhile
        return any(os.stat(run / name).st_mtime > since for name in names)
    return True


def _carry_out(batch: Batch, number: int, device: str) -> None:
    os.environ[TASK] = batch.name_of(number)
    with batch.events_file(number).open("ab", buffering=0) as out, _asked_to_leave():
        for job in batch.tasks[number]:
            enter(job)
            shown = Shown(job.id, out)
            setup = Setup(
                logs=job.folders.out / "logs", patience=batch.patience, show=EventDisplay(shown)
            )
            began = time.monotonic()
            with closing(start(ENGINE, setup)) as engine:
                run = Run(job.plan, job.folders, shown, engine, device)
                try:
                    run(job.keep_features, job.pin_environment, job.keep_views, part=True)
                except EcgbenchError as error:  # it stops this job, and none beside it
                    _fail(job, str(error))
            taken = {"seconds": time.monotonic() - began, "computed": run.outcome.computed}
            shown.emit(Over(job.id, taken))


def _fail(job: Compute, reason: str) -> None:
    store = Store(job.folders.out)
    for cell in job.plan.cells:
        if store.folder(cell) is None:
            store.give_reason(cell, "failed", reason)


@contextmanager
def _asked_to_leave() -> Iterator[None]:
    def leave(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(LEAVE, signal.SIG_IGN)  # once is enough
        raise Left

    before = signal.signal(LEAVE, leave)
    try:
        yield
    finally:
        signal.signal(LEAVE, before)


class Shown:
    """A display that appends events to a file, which the command that gave the job reads."""

    def __init__(self, job: str, out: BinaryIO) -> None:
        self.job, self.out = job, out
        self._stages = count(1)

    def emit(self, event: Event) -> None:
        """Append an event."""
        self.out.write(to_line(event))

    def note(self, text: str) -> None:
        """One line about something that is done."""
        self.emit(Note(self.job, text))

    @contextmanager
    def stage(self, text: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """A stretch of work."""
        number, told, waiting = next(self._stages), time.monotonic(), 0
        self.emit(Stage(self.job, number, text, total, unit))

        def advance(n: int) -> None:
            nonlocal told, waiting
            waiting += n
            if time.monotonic() - told >= EVERY:
                self.emit(Advance(self.job, number, waiting))
                told, waiting = time.monotonic(), 0

        try:
            yield advance
        finally:
            if waiting:
                self.emit(Advance(self.job, number, waiting))
            self.emit(StageOver(self.job, number))


def read(file: Path, number: int) -> Batch:
    """The batch of a file, which has a task of that number; BadSetting where it has none."""
    batch = Batch.read(file)
    if not batch.tasks:
        raise BadSetting(f"{file} has no task")
    if not 0 <= number < len(batch.tasks):
        raise BadSetting(f"{file} has the tasks 0 to {len(batch.tasks) - 1}, and no task {number}")
    return batch
