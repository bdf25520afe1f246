"""Compute what a plan lacks: one loop that gives jobs to an engine and takes their events.

A failing cell leaves a reason, and the others go on.
"""

import os
import shutil
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Literal

from ecgbench import adapters, errors, models
from ecgbench.adapters.hide import NATIVE
from ecgbench.core.cells import Cell, Folders, Plan, grouped
from ecgbench.core.files import sweep
from ecgbench.data.people import people as people_of
from ecgbench.data.prepare import prepare
from ecgbench.data.select import Selection
from ecgbench.errors import BadSetting, Damaged
from ecgbench.evaluate import protocols
from ecgbench.results import aside, people
from ecgbench.study import ledger
from ecgbench.study.described import dataset_facts
from ecgbench.study.engine import POLL, Elsewhere, Engine
from ecgbench.study.events import Died, Disqualified, Event, Over, Stopped
from ecgbench.study.folders import read_json
from ecgbench.study.invocation import Invocation
from ecgbench.study.job import Compute, plugins
from ecgbench.study.job_record import JobRecord, Outcome
from ecgbench.study.plan import all_tasks
from ecgbench.study.progress import Display, EventDisplay, counting
from ecgbench.study.store import Store, cells_of

Detach = Literal["no", "hand over", "write"]
WAIT = 1.0
"""Seconds between two checks of what another run is computing."""


@dataclass(frozen=True)
class Claim:
    """Jobs that no other run may compute meanwhile, one after the other: one, or what is left of it
    after its process died.
    """

    jobs: list[Compute]
    lock: ExitStack


class Run:
    """One run of a plan into a folder."""

    def __init__(
        self, plan: Plan, folders: Folders, progress: Display, engine: Engine, device: str = "cpu"
    ) -> None:
        self.folders, self.progress = folders.absolute(), progress
        self.engine, self.device = engine, device
        self.store, self.requested = Store(self.folders.out), plan
        self.tasks, self.outcome = all_tasks(), Outcome()
        self.display = EventDisplay(progress)
        self.ready: set[str] = set()
        """Datasets that are prepared."""
        self.waiting: list[Compute] = []
        """Jobs that nobody has claimed."""
        self.claimed: deque[Claim] = deque()
        """Those that wait for the engine."""
        self.in_flight: dict[str, tuple[JobRecord, Claim]] = {}
        """Job's id -> what is known of it."""
        self.submitted = 0

    def __call__(
        self,
        keep_features: bool = True,
        pin_environment: bool = False,
        keep_views: bool = True,
        leave_windows: bool = False,
        part: bool = False,
        detach: Detach = "no",
    ) -> Outcome:
        """Compute every cell that is not finished. EcgbenchError for what a user must correct
        first.

        Without `keep_features` cells refer to no features, and those of windows are removed at the
        end, unless `leave_windows` is set, for `remove_windows` later. `pin_environment`: all must
        come from this version of torch and this kind of device. `part`: another command has asked
        for more cells in this folder, which are not computed here. `detach`: hand the jobs over and
        return ("hand over"), or only leave the files for it ("write").
        """
        self.keep_features, self.pin_environment = keep_features, pin_environment
        self.keep_views = keep_views
        self.detach = detach
        if not part:
            sweep(self.store.path)
        self.plan = self._own_part() if part else self.store.write_plan(self.requested)
        before = len(aside.listed(self.store.path))
        self.command = None if part else Invocation(self.store, self.device)
        requested = set(self.requested.cells)
        self.cells = [c for c in self.plan.cells if c in requested or (not part and self._known(c))]
        if pin_environment:
            self._pinned()
        self._compute(self._jobs())
        if not (keep_features or leave_windows or self.outcome.handed_over):
            self.remove_windows()
        self._note(ended=True)
        self.outcome.set_aside = len(aside.listed(self.store.path)) - before
        return self.outcome

    def _own_part(self) -> Plan:
        """The plan of the command that asked for more; written only where it is not there."""
        plan = self.store.plan()
        if plan is None or not set(self.requested.cells) <= set(plan.cells):
            return self.store.write_plan(self.requested)
        return plan

    def _note(self, ended: bool = False) -> None:
        """How far the command is that a person typed."""
        if self.command is not None:
            self.command.note(self.outcome.computed, self.outcome.reused, ended)

    def remove_windows(self) -> None:
        """Remove the features of windows of this run folder."""
        for cell in self.cells:
            features = self.store.features_folder(cell.fit.model, self.tasks[cell.task][0])
            shutil.rmtree(features / "windows", ignore_errors=True)

    def _pinned(self) -> None:
        """BadSetting where a finished cell comes from another environment."""
        from ecgbench.evaluate.network import environment  # torch: a second

        here = environment(self.device)
        for folder in filter(None, map(self.store.folder, self.cells)):
            try:
                stored = read_json(folder, "cell.json").get("environments", ["an unknown version"])
            except Damaged:  # it is computed again here
                continue
            if stored != [here]:
                raise BadSetting(
                    f"--pin-environment: {self.store.path} holds cells computed with "
                    f"{'; '.join(stored)}, and this is {here}; leave --pin-environment out, or "
                    f"choose another --out"
                )

    def _known(self, cell: Cell) -> bool:
        """Whether the names of an earlier plan's cell are known to this process; those of a plug-in
        only where its path is given.
        """
        known = (
            cell.fit.model in [*models.names(), *models.ROOM.variants()]
            and cell.policy in (*adapters.names(), NATIVE)
            and cell.task in self.tasks
        )
        if not known:
            self.progress.note(
                f"left as it is, this command does not name the file of its plug-in: {cell.label}"
            )
        return known

    def _jobs(self) -> list[Compute]:
        """The cells, grouped as they are computed: per model and dataset, fine-tuned ones per fit,
        those of a policy from outside apart; in the order of the plan.
        """
        frozen, registered = protocols.get(self.plan.training.protocol).frozen, plugins()

        def foreign(cell: Cell) -> str:
            """A policy from outside: its cells have a job of their own."""
            ours = cell.policy == NATIVE or adapters.ROOM.built_in(cell.policy)
            return "" if ours else cell.policy

        def together(cell: Cell) -> tuple[Any, ...]:
            fit = cell.fit
            return (
                self.tasks[cell.task][0],
                fit.weights,
                fit.contract,
                frozen or fit,
                foreign(cell),
            )

        return [
            Compute(
                model=model,
                dataset=dataset,
                folders=self.folders,
                device=self.device,
                plugins=registered,
                keep_features=self.keep_features,
                keep_views=self.keep_views,
                pin_environment=self.pin_environment,
                # the run itself has tried its plug-ins on these recordings
                recompute=not self.plan.control
                and os.environ.get("ECGBENCH_RECOMPUTE", "yes") != "no",
                plan=replace(self.plan, suite=None, cells=tuple(cells)),
            )
            for model, of_model in grouped(self.cells, lambda c: c.fit.model).items()
            # fits that serve every policy are made where no code from outside runs
            for (dataset, *_), cells in grouped(sorted(of_model, key=foreign), together).items()
        ]

    def _compute(self, jobs: list[Compute]) -> None:
        """The loop: submit while the engine takes jobs, take events, until nothing is left."""
        self.waiting = jobs
        try:
            while self.waiting or self.claimed or self.in_flight:
                self._submit()
                if self.detach != "no" and isinstance(self.engine, Elsewhere):
                    self.outcome.handed_over = self.engine.leave(self.detach == "hand over")
                    return
                if not self.in_flight:
                    time.sleep(WAIT)
                for event in self.engine.events(POLL) if self.in_flight else ():
                    self._take(event)
        finally:
            for job in self.in_flight:
                self.display.end(job)
            for claim in [*self.claimed, *(claim for _, claim in self.in_flight.values())]:
                claim.lock.close()

    def _submit(self) -> None:
        """Claim jobs that no other run computes, and give the engine as many as it takes at
        once.
        """
        for job in list(self.waiting):
            if len(self.in_flight) + len(self.claimed) >= self.engine.slots:
                break
            if isinstance(self.engine, Elsewhere):
                self.waiting.remove(job)
                if not self._is_over(job):
                    self.claimed.append(Claim([job], ExitStack()))
                    if not self.engine.prepares:
                        self._prepare(job.dataset)
                continue
            lock = ExitStack()
            if lock.enter_context(self.store.claim(job.name)):
                self.waiting.remove(job)
                self.claimed.append(Claim([job], lock))
                self._prepare(job.dataset)
            else:
                lock.close()
        while self.claimed and len(self.in_flight) < self.engine.slots:
            claim = self.claimed.popleft()
            self.submitted += 1
            job = replace(claim.jobs.pop(0), id=str(self.submitted))
            record = JobRecord(job, self.store, self.outcome, self.progress)
            self.in_flight[job.id] = record, claim
            self.engine.submit(job)

    def _is_over(self, job: Compute) -> bool:
        """Whether nothing of a job is left to hand over; what it has finished counts as reused."""
        states = {cell.label: self.store.state(cell) for cell in job.plan.cells}
        if any(state not in ("ok", "skipped") for state, _ in states.values()):
            return False
        skipped = [f"{label}: {why}" for label, (state, why) in states.items() if state != "ok"]
        self.outcome.reused += len(states) - len(skipped)
        self.outcome.skipped += skipped
        return True

    def _take(self, event: Event) -> None:
        """One event of a job in flight; one of any other job is ignored."""
        if event.job not in self.in_flight:
            return
        record, claim = self.in_flight[event.job]
        match event:
            case Stopped():
                raise errors.named(event.error, event.reason)
            case Died():
                self._over(record, claim, record.died(event))
            case Over():
                record.fail(list(record.left), "its job ended without it")
                self._over(record, claim, [])
            case Disqualified():
                record.disqualified(event.reason, event.trace, event.log)
            case _:
                self.display(event)
                record.take(event)
                self._note()

    def _over(self, record: JobRecord, claim: Claim, again: list[list[Cell]]) -> None:
        """A job is over; `again`: its cells that another job must try."""
        del self.in_flight[record.job.id]
        self.display.end(record.job.id)
        claim.jobs[:0] = [record.job.of(cells) for cells in again]
        if claim.jobs:
            self.claimed.appendleft(claim)
        else:
            claim.lock.close()

    def _prepare(self, name: str) -> None:
        if name not in self.ready:
            plan, folders = self.plan, self.folders
            where = name, folders.data, folders.prepared
            with counting(f"prepare {name}", self.progress) as shown:
                prepared = prepare(*where, shown, plan.limit, plan.fix, plan.division)
            selection = Selection(prepared, plan.limit, plan.exclude)
            machine, late = prepared.folder.parent, any(cells_of(self.store.path))
            people.keep(self.store.path, prepared.name, people_of(prepared, selection.index))
            for one in selection.crossed(plan.folds).values():
                self.store.add_facts("datasets", dataset_facts(one))
                ledger.begin(one.tested, self.store.path, machine, late)
            self.ready.add(name)
