"""An engine of processes elsewhere: it cuts jobs into tasks, hands them to a launcher, and learns
from the store what became of them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from ecgbench.core.text import counted
from ecgbench.study.batch import Batch, cut, fresh, of_run, seconds_of_a_cell
from ecgbench.study.engine import Setup
from ecgbench.study.events import (
    SHOWN,
    BadEvent,
    Died,
    Event,
    EventFile,
    Failed,
    Finished,
    Note,
    Over,
    Skipped,
)
from ecgbench.study.job import Compute, Job
from ecgbench.study.looks import Looks
from ecgbench.study.store import Store, made_by

LOOK = 2.0
"""Seconds between two questions how the tasks are."""
SETTLING = 90.0
"""Seconds that a file of one node may take to be seen on another: caches of shared disks."""
TRIES = 3
"""Times that a task is handed over whose process ends before its jobs are over."""

Standing = Literal["waiting", "running", "ended"]


@dataclass(frozen=True)
class State:
    """How a task is."""

    standing: Standing
    why: str = ""
    """Of one that ended before its jobs were over; of one that waits, what for."""
    again: bool = True
    """Whether it may be handed over once more: not where a person has ended it."""


class Launcher(Protocol):
    """Starts the process `python -m ecgbench worker BATCH TASK` of each task, somewhere."""

    place: str
    """Where, in words: "Slurm"."""
    seconds: float
    """That a task should take; 0: a job is a task."""
    prepares: bool
    """See `engine.Elsewhere`."""
    settles: float
    """Seconds for which a task must count as ended before it is believed."""

    def write(self, batch: Batch) -> str:
        """Leave what it takes to start the tasks by hand; how, in words."""

    def launch(self, batch: Batch, first: int, count: int) -> None:
        """Start tasks `first` to `first` + `count` - 1; `batch.hand_over` notes how they are
        called.
        """

    def states(self, batch: Batch) -> Mapping[int, State]:
        """Of the tasks that were handed over."""

    def close(self) -> str:
        """This process ends. What becomes of tasks that have not ended, in words."""


@dataclass
class _Task:
    batch: Batch
    number: int
    events: EventFile
    jobs: dict[str, Compute]
    """Id in the batch -> job with its id in this command, of those that are not over."""
    tries: int = 1
    ended: float | None = None
    """Since when it counts as ended."""
    said_over: dict[str, float] = field(default_factory=dict)
    """Those of which the task has said so, and the store not yet -> until when it is asked."""


@dataclass
class Workers:
    """Jobs in processes that `launcher` starts. Questions before the run are answered here."""

    setup: Setup
    launcher: Launcher
    name: str
    """The engine's own."""
    slots: int = 1 << 30
    _new: list[Compute] = field(default_factory=list)
    _tasks: list[_Task] = field(default_factory=list)
    _looked: float = 0.0
    _here: Looks | None = None

    def submit(self, job: Job) -> None:
        """Keep it until all are known that are handed over together."""
        if isinstance(job, Compute):
            self._new.append(job)
            return
        if self._here is None:
            self._here = Looks(self.setup)
        self._here.submit(job)

    @property
    def prepares(self) -> bool:
        """See `engine.Elsewhere`."""
        return self.launcher.prepares

    def leave(self, launch: bool = True) -> str:
        """See `engine.Elsewhere`."""
        batch = self._batch()
        if not self._tasks:
            return "nothing is left to hand over"
        if batch and not launch:
            self._tasks.clear()  # nobody waits for them
            return self.launcher.write(batch)
        if batch:
            self.launcher.launch(batch, 0, len(batch.tasks))
        names = sorted(
            {n.rpartition("_")[0] for t in self._tasks for n in t.batch.handed_over().values()}
        )
        count = len(self._tasks)
        self._tasks.clear()
        return f"{counted(count, 'task')} handed over to {self.launcher.place}: {', '.join(names)}"

    def events(self, timeout: float) -> Iterator[Event]:
        """What the tasks show, and what the store says of each job that is over."""
        if self._here is not None and not self._new and not self._tasks:
            yield from self._here.events(timeout)
            return
        if self._new and (batch := self._batch()):
            count = len(batch.tasks)
            self.launcher.launch(batch, 0, count)
            self._tell(f"{counted(count, 'task')} handed over to {self.launcher.place}")
        came = False
        for task in list(self._tasks):
            for event in self._of(task):
                came = True
                yield event
        if time.monotonic() - self._looked >= LOOK:
            yield from self._look()
        elif not came:
            time.sleep(min(timeout, LOOK))

    def close(self) -> None:
        """End what runs here; what runs elsewhere is the launcher's."""
        if self._here is not None:
            self._here.close()
        said = self.launcher.close()
        if said and any(task.batch.handed_over() for task in self._tasks):
            self._tell(said)
        self._tasks.clear()

    def _tell(self, text: str) -> None:
        """One line that is of no job."""
        self.setup.show(Note("", text))

    def _batch(self) -> Batch | None:
        """Cut the new jobs into tasks; those that an earlier command has handed over, and that have
        not ended, are followed instead. None where nothing new is left.
        """
        assert self.setup.out is not None
        alive = list(self._alive()) if self._new else []
        new = [job for job in self._new if not self._followed(job, alive)]
        self._new.clear()
        if not new:
            return None
        batch = Batch(
            folder=fresh(self.setup.out),
            engine=self.name,
            device=self.setup.device,
            patience=self.setup.patience,
            tasks=tuple(cut(new, seconds_of_a_cell(self.setup.out), self.launcher.seconds)),
            options=self.setup.options,
        ).write()
        for number, jobs in enumerate(batch.tasks):
            self._follow(batch, number, {job.id: job for job in jobs})
        return batch

    def _follow(self, batch: Batch, number: int, jobs: dict[str, Compute]) -> None:
        events = EventFile(batch.events_file(number))
        self._tasks.append(_Task(batch, number, events, jobs))

    def _alive(self) -> Iterator[tuple[Batch, int, Compute]]:
        """(batch, task, job) of earlier commands' tasks that have not ended."""
        assert self.setup.out is not None
        for batch in of_run(self.setup.out):
            if batch.engine != self.name:
                continue
            for number, state in self.launcher.states(batch).items():
                for job in batch.tasks[number] if state.standing != "ended" else ():
                    yield batch, number, job

    def _followed(self, job: Compute, alive: Sequence[tuple[Batch, int, Compute]]) -> bool:
        """Whether a job of these tasks computes the cells of this one: then it is followed."""
        wanted = {cell.identity for cell in job.plan.cells}
        for batch, number, theirs in alive:
            # a control has cells of the same names in another folder
            here = theirs.folders.out == job.folders.out
            if here and wanted <= {cell.identity for cell in theirs.plan.cells}:
                self._follow(batch, number, {theirs.id: job})
                return True
        return False

    def _of(self, task: _Task) -> Iterator[Event]:
        """What a task has shown since the last look. Only what a person sees is believed; that a
        job is over is asked of the store.
        """
        try:
            for event in task.events.events():
                if isinstance(event, Over):
                    task.said_over.setdefault(event.job, time.monotonic() + SETTLING)
                elif isinstance(event, SHOWN) and event.job in task.jobs:
                    yield replace(event, job=task.jobs[event.job].id)
        except BadEvent as error:
            self._tell(f"task {task.number}: {error}")
            task.events = EventFile(task.batch.folder / "none")  # nothing more of it is shown
        for number in task.said_over.keys() & task.jobs.keys():
            if is_over(task.jobs[number]) or time.monotonic() > task.said_over[number]:
                yield from _became(task.jobs.pop(number), task.batch)
        if not task.jobs:
            self._tasks.remove(task)

    def _look(self) -> Iterator[Event]:
        """Tasks that ended, for whatever reason, before their jobs were over."""
        self._looked = time.monotonic()
        batches = {id(task.batch): task.batch for task in self._tasks}
        states = {key: self.launcher.states(batch) for key, batch in batches.items()}
        for task in list(self._tasks):
            state = states[id(task.batch)].get(
                task.number, State("ended", "it is not known any more")
            )
            if state.standing != "ended":
                task.ended = None
                continue
            task.ended = self._looked if task.ended is None else task.ended
            if self._looked - task.ended < self.launcher.settles:
                continue
            yield from self._of(task)  # what it said last
            if task not in self._tasks or task.said_over.keys() >= task.jobs.keys():
                continue
            left = {i: job for i, job in task.jobs.items() if not is_over(job)}
            for number in task.jobs.keys() - left.keys():
                yield from _became(task.jobs.pop(number), task.batch)
            if not left:
                self._tasks.remove(task)
            elif state.again and task.tries < TRIES:
                task.tries, task.ended = task.tries + 1, None
                self.launcher.launch(task.batch, task.number, 1)
                self._tell(f"task {task.number} ended ({state.why}) and is handed over again")
            else:
                self._tasks.remove(task)
                log = task.batch.log_file(task.number)
                said = f"its task ended: {state.why}"
                for job in left.values():
                    yield Died(job.id, said, str(log) if log.exists() else "")


def is_over(job: Compute) -> bool:
    """Whether the store says of every cell of a job what became of it."""
    store = Store(job.folders.out)
    return all(store.state(cell)[0] in ("ok", "skipped", "failed") for cell in job.plan.cells)


def _became(job: Compute, batch: Batch) -> Iterator[Event]:
    """What the store says of the cells of a job that is over, which a task of `batch` had."""
    store = Store(job.folders.out)
    for cell in job.plan.cells:
        status, reason = store.state(cell)
        match status:
            case "ok":
                place = store.folder(cell)
                by = made_by(place) if place else ""
                yield Finished(job.id, (cell.identity,), others=not batch.has_made(by))
            case "skipped":
                yield Skipped(job.id, (cell.identity,), reason)
            case "failed":
                yield Failed(job.id, (cell.identity,), reason, "")
    yield Over(job.id, {})
