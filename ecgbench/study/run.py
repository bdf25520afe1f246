"""Compute what a plan lacks: jobs go to an engine, and the store says what came of each.

A failing cell leaves a reason, and the others go on.
"""

import secrets
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ecgbench import adapters, models
from ecgbench.adapters.hide import NATIVE
from ecgbench.core.cells import Cell, Folders, Plan, Request, plan_of
from ecgbench.core.files import sweep
from ecgbench.core.folders import read_json
from ecgbench.core.text import shortened
from ecgbench.data.people import people as people_of
from ecgbench.data.prepare import prepare
from ecgbench.data.select import Selection
from ecgbench.errors import BadSetting, Damaged
from ecgbench.results import aside, people
from ecgbench.study import engines
from ecgbench.study.described import dataset_facts
from ecgbench.study.engines import Died, Event, Setup
from ecgbench.study.invocation import Invocation
from ecgbench.study.jobs import Job, group, plugins
from ecgbench.study.plan import all_tasks
from ecgbench.study.progress import Display, JobDisplay, counting
from ecgbench.study.store import Store, made_by

LONGEST_REASON = 500
"""Characters of a reason that are kept."""


@dataclass(frozen=True, kw_only=True)
class Carrying:
    """How jobs are carried out; nothing of it changes a number."""

    engine: str = "local"
    options: str = ""
    """Of the engine: 4 in local:4."""
    timeout: float = 900.0
    """Seconds without progress after which a job has died."""
    device: str = "auto"
    keep_features: bool = True
    """Whether features stay when the run ends; without, cells refer to none."""
    pin_environment: bool = False
    """Whether all must come from this version of torch and this kind of device."""
    keep_views: bool = True


@dataclass
class Outcome:
    """What a run did."""

    computed: int = 0
    reused: int = 0
    set_aside: int = 0
    """Folders and files that were not what a run wrote."""
    elsewhere: int = 0
    """Jobs that go on without this command."""
    skipped: list[str] = field(default_factory=list)
    failed: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    """(model, reason, log) -> the cells that failed so."""

    @property
    def failures(self) -> int:
        """Cells that failed."""
        return sum(map(len, self.failed.values()))


def run(
    requests: Sequence[Request], folders: Folders, carrying: Carrying, progress: Display
) -> Outcome:
    """Compute every cell of checked requests that is not finished. EcgbenchError for what a user
    must correct first.
    """
    folders, store = folders.absolute(), Store(folders.out)
    sweep(store.path)
    for request in requests:
        whole = store.add_request(request, plugins())
    before = len(aside.listed(store.path))
    requested = {cell for request in requests for cell in plan_of(request).cells}
    cells = [c for c in whole.cells if c in requested or _known(c, progress)]
    if carrying.pin_environment:
        _demand_same_environment(store, cells, carrying.device)
    for name in dict.fromkeys(all_tasks()[c.task][0] for c in cells):
        _prepare(name, whole, folders, progress)
    command, invocation = secrets.token_hex(6), Invocation(store, carrying.device)
    jobs = [
        Job(
            model=part.cells[0].fit.model,
            dataset=all_tasks()[part.cells[0].task][0],
            plan=part,
            folders=folders,
            device=carrying.device,
            keep_features=carrying.keep_features,
            pin_environment=carrying.pin_environment,
            keep_views=carrying.keep_views,
            command=command,
        )
        for part in group(replace(whole, cells=tuple(cells)), all_tasks())
    ]
    outcome = carry_out(jobs, carrying, store, progress, invocation)
    outcome.set_aside = len(aside.listed(store.path)) - before
    invocation.note(outcome.computed, outcome.reused, ended=not outcome.elsewhere)
    return outcome


def carry_out(
    jobs: Sequence[Job],
    carrying: Carrying,
    store: Store,
    progress: Display,
    invocation: Invocation | None = None,
) -> Outcome:
    """The loop. What a process says of its cells is a hint; whether they are there the store
    says.
    """
    outcome, display, doing = Outcome(), JobDisplay(progress), dict[int, tuple[set[str], bool]]()
    marks = {cell: store.mark(cell) for job in jobs for cell in job.cells}
    waiting = deque(jobs)
    open_jobs = {job.number for job in jobs}

    def show(job: Job, event: Event) -> None:
        if event[0] == "cells":
            doing[job.number] = set(event[1]), event[2]
        else:
            display(job.number, event)

    def died(job: Job, why: Died) -> list[Job]:
        """What is to be tried again, after what was in progress has failed."""
        left = [c for c in job.cells if store.state(c)[0] != "ok" and store.mark(c) == marks[c]]
        names, together = doing.get(job.number, (set[str](), False))
        lost = [c for c in left if c.identity in names]
        if not names:  # it died before its first cell
            lost = left
        rest = [c for c in left if c not in lost]
        if together and len(lost) > 1:
            progress.note(f"{job.model}: {why.reason}; going on cell by cell")
            return [job.of([c]) for c in lost] + ([job.of(rest)] if rest else [])
        for cell in lost:
            store.give_reason(cell, "failed", why.reason, log=why.log or _printed(job))
        return [job.of(rest)] if rest else []

    setup = Setup(
        options=carrying.options, timeout=carrying.timeout, out=store.path, device=carrying.device
    )
    for job, death in _run(carrying.engine, waiting, show, setup):
        display.end(job.number)
        again = died(job, death) if death else []
        open_jobs ^= {job.number, *(one.number for one in again)}
        waiting.extend(again)
        left = {c for one in again for c in one.cells}
        _settle(job, [c for c in job.cells if c not in left], store, outcome, progress)
        if invocation is not None:
            invocation.note(outcome.computed, outcome.reused)
    outcome.elsewhere = len(open_jobs)
    return outcome


def _run(
    engine: str, waiting: deque[Job], show: engines.Show, setup: Setup
) -> Iterator[tuple[Job, Died | None]]:
    """The engine; what the code of one from outside raises is one line."""
    with engines.ROOM.calling(engine):
        yield from engines.get(engine).run(_work, waiting, show, setup)


def _work(job: Job, send: Callable[[Event], None]) -> None:
    from ecgbench.study.work import work  # torch: seconds, which this process need not spend

    work(job, send)


def _settle(
    job: Job, cells: Sequence[Cell], store: Store, outcome: Outcome, progress: Display
) -> None:
    """Count what became of cells, and say what has no number."""
    failed: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells:
        state, reason = store.state(cell)
        if state == "missing":
            reason = "its job ended without it"
            store.give_reason(cell, "failed", reason, log=_printed(job))
        if state == "ok":
            folder = store.folder(cell)
            ours = folder is not None and made_by(folder) == job.command
            outcome.computed += ours
            outcome.reused += not ours
        elif state == "skipped":
            outcome.skipped.append(f"{cell.label}: {shortened(reason, LONGEST_REASON)}")
            progress.note(f"skipped {outcome.skipped[-1]}")
        else:
            log = store.log_of(cell) or _printed(job)
            why = job.model, shortened(reason, LONGEST_REASON), log
            failed.setdefault(why, []).append(cell.label)
    for (model, reason, log), labels in failed.items():
        more = f" (log: {log})" if log else ""
        progress.note(f"failed {len(labels)} cells of {model} on {job.dataset}: {reason}{more}")
        outcome.failed.setdefault((model, reason, log), []).extend(labels)


def _printed(job: Job) -> str:
    return str(job.log) if job.log.exists() and job.log.stat().st_size else ""


def _known(cell: Cell, progress: Display) -> bool:
    """Whether the names of an earlier plan's cell are known to this process; those of a plug-in
    only where its path is given.
    """
    known = (
        cell.fit.model in [*models.names(), *models.ROOM.variants()]
        and cell.policy in (*adapters.names(), NATIVE)
        and cell.task in all_tasks()
    )
    if not known:
        progress.note(
            f"left as it is, this command does not name the file of its plug-in: {cell.label}"
        )
    return known


def _demand_same_environment(store: Store, cells: Sequence[Cell], device: str) -> None:
    """BadSetting where a finished cell comes from another environment."""
    from ecgbench.evaluate.device import choose
    from ecgbench.evaluate.network import environment  # torch: a second

    here = environment(choose(device))
    for folder in filter(None, map(store.folder, cells)):
        try:
            stored = read_json(folder, "cell.json").get("environments", ["an unknown version"])
        except Damaged:  # it is computed again
            continue
        if stored != [here]:
            raise BadSetting(
                f"--set run.same_environment=on: {store.path} holds cells computed with "
                f"{'; '.join(stored)}, and this is {here}; leave the setting out, or choose "
                f"another --out"
            )


def _prepare(name: str, plan: Plan, folders: Folders, progress: Display) -> None:
    where = name, folders.data, folders.prepared
    store = Store(folders.out)
    with counting(f"prepare {name}", progress) as shown:
        prepared = prepare(*where, shown, plan.limit, plan.fix, plan.division)
    selection = Selection(prepared, plan.limit, plan.exclude)
    people.keep(store.path, prepared.name, people_of(prepared, selection.index))
    for one in selection.crossed(plan.folds).values():
        store.add_facts("datasets", dataset_facts(one))


def remove_windows(store: Store) -> None:
    """Remove the features of windows of a run folder, which only resuming needs."""
    for windows in store.path.glob("features/*/*/windows"):
        shutil.rmtree(windows, ignore_errors=True)
