"""Compute what a plan lacks: claim jobs, have them carried out, keep count. A failing cell leaves a reason and the others go on."""

import time
from functools import partial
from typing import Any, Protocol

from ecgbench import adapters, datasets, models
from ecgbench.adapt import NATIVE
from ecgbench.benchmark.described import dataset_facts
from ecgbench.benchmark.engines.isolated import DiedError
from ecgbench.benchmark.hearing import Hearing, Outcome
from ecgbench.benchmark.job import Event, Job, Tell
from ecgbench.benchmark.plan import all_tasks
from ecgbench.benchmark.progress import Watcher, paced
from ecgbench.cells import Cell, Places, Plan
from ecgbench.files import sweep
from ecgbench.prepared.prepare import prepare
from ecgbench.prepared.subset import Selection
from ecgbench.results.invocation import Invocation
from ecgbench.results.store import Store

WAIT = 1.0
"""Seconds between two looks at what another run is computing."""


class Engine(Protocol):
    """Carries jobs out; see `engines`."""

    def run(self, job: Job, tell: Tell) -> None:
        """Compute a job; DiedError when its process ended, EcgbenchError for what stops the run."""

    def log(self, job: Job) -> str:
        """Where a person finds more about a failure, or ""."""


_ROOMS = (("models", models.ROOM), ("adapters", adapters.ROOM), ("datasets", datasets.ROOM))


def doors() -> tuple[tuple[str, str], ...]:
    """(room, path) of the strangers that entered this process by path, for another process to let them in."""
    return tuple((room, str(path)) for room, r in _ROOMS for path in r.paths())


class Run:
    """One run of a plan into a folder."""

    def __init__(self, plan: Plan, places: Places, watcher: Watcher, engine: Engine, device: str = "cpu") -> None:
        self.places, self.watcher, self.engine, self.device = places, watcher, engine, device
        self.store, self.asked, self.tasks, self.outcome = Store(places.out), plan, all_tasks(), Outcome()
        self.ready: set[str] = set()
        """Datasets that are prepared and described."""
        self.condemned: dict[str, tuple[str, str]] = {}
        """Models that did what none may do, and what it was (reason, trace)."""

    def __call__(self) -> Outcome:
        """Compute every cell that is not finished. Raises what a user must mend."""
        sweep(self.store.path)
        self.store.join(self.asked)
        command = Invocation(self.store, self.device)
        self.plan = self.store.write_plan(self.asked)
        asked = set(self.asked.cells)
        self.cells = [c for c in self.plan.cells if c in asked or self._entered(c)]
        pending = self._jobs()
        while pending:
            left = [job for job in pending if not self._claimed(job)]
            if left and len(left) == len(pending):
                time.sleep(WAIT)
            pending = left
        command.end(self.outcome.computed)
        return self.outcome

    def _entered(self, cell: Cell) -> bool:
        """Whether the names of an earlier plan's cell are known to this process; a stranger's are only where its path is given."""
        here = cell.fit.model in models.names() and cell.policy in (*adapters.names(), NATIVE) and cell.task in self.tasks
        if not here:
            self.watcher.note(f"left as it is, for it enters by a path that this command does not name: {cell.label}")
        return here

    def _jobs(self) -> list[Job]:
        """The cells, grouped as they are computed: per model and dataset, fine-tuned ones per fit; in the order of the plan."""
        found: dict[tuple[Any, ...], list[Cell]] = {}
        for cell in self.cells:
            fit, dataset = cell.fit, self.tasks[cell.task][0]
            found.setdefault((fit.model, fit.weights, fit.contract, dataset, self.plan.training.protocol == "linear" or fit), []).append(
                cell
            )
        names = list(dict.fromkeys(k[0] for k in found))
        return [
            Job(dataset=place[3], places=self.places, device=self.device, doors=doors(), plan=Plan(
                name=self.plan.name, cells=tuple(cells), training=self.plan.training, scoring=self.plan.scoring, limit=self.plan.limit
            ))
            for place, cells in sorted(found.items(), key=lambda item: names.index(item[0][0]))
        ]  # fmt: skip

    def _claimed(self, job: Job) -> bool:
        """Compute a job unless another run is at it; False in that case."""
        with self.store.claim(job.name) as mine:
            if mine:
                self._dataset(job.dataset)
                self._job(job)
        return mine

    def _dataset(self, name: str) -> None:
        if name not in self.ready:
            prepared = prepare(name, self.places.data, self.places.prepared, paced(f"prepare {name}", self.watcher.note))
            self.store.add_facts("datasets", dataset_facts(Selection(prepared, self.plan.limit)))
            self.ready.add(name)

    def _job(self, job: Job) -> None:
        """Carry a job out, again and again without the cells whose turn ended its process, until each is settled."""
        rounds = [job]
        while rounds:
            part = rounds.pop(0)
            hearing = Hearing(part, self.store, self.outcome, self.watcher)
            try:
                if job.model in self.condemned:
                    hearing.fail(hearing.left.values(), *self.condemned[job.model])
                else:
                    self.engine.run(part, partial(self._hear, hearing))
                    hearing.fail(hearing.left.values(), "its job ended without it")
            except DiedError as error:
                rounds = [part.of(cells) for cells in hearing.bury(str(error), self.engine.log(job))] + rounds

    def _hear(self, hearing: Hearing, event: Event) -> None:
        if event["kind"] == "condemned":
            self.condemned[hearing.job.model] = event["reason"], event["trace"]
            if not hearing.left:  # found out when all its cells were settled: that must not pass for a success
                self.outcome.failed.setdefault((hearing.job.model, event["reason"], ""), []).append(hearing.job.model)
            hearing.fail(hearing.left.values(), event["reason"], event["trace"], self.engine.log(hearing.job))
        else:
            hearing(event, self.engine.log(hearing.job) if event.get("state") == "failed" else "")
