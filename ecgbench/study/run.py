"""Compute what a study lacks: jobs go to an engine, and the store shows their results.

A failing cell leaves a reason, and the others go on.
"""

import itertools
import secrets
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ecgbench import datasets, models, policies
from ecgbench.cards.cell import Cell
from ecgbench.cards.plan import Folders, Plan, Request, plan_of
from ecgbench.core.files import sweep
from ecgbench.core.text import counted
from ecgbench.data.counts import in_words, per_fold, sizes_of
from ecgbench.data.people import people as people_of
from ecgbench.data.prepare import prepare
from ecgbench.data.select import Selection
from ecgbench.policies.hide import NATIVE
from ecgbench.study import engines, people, receipts
from ecgbench.study.engines import Died, Event
from ecgbench.study.facts import dataset_facts
from ecgbench.study.invocation import Invocation
from ecgbench.study.jobs import Execution, Job, group, plugins
from ecgbench.study.outcome import Outcome
from ecgbench.study.progress import Display, JobDisplay, TimeLeft, counting
from ecgbench.study.store import Store, noted


def run(
    requests: Sequence[Request],
    folders: Folders,
    execution: Execution,
    progress: Display,
    outcome: Outcome | None = None,
) -> Outcome:
    """Compute every unfinished cell of checked requests, and of earlier requests in the run folder.
    EcgbenchError for what a user must correct first.

    outcome: of earlier studies, to which this one is added.
    """
    folders, store = folders.absolute(), Store(folders.out)
    sweep(store.path)
    for request in requests:
        whole = store.add_request(request, plugins())
    requested = {cell for request in requests for cell in plan_of(request).cells}
    cells = [c for c in whole.cells if c in requested or _is_known(c, progress)]
    data = {
        name: _prepare(name, whole, folders, progress)
        for name in dict.fromkeys(datasets.tasks()[c.task][0] for c in cells)
    }
    missing = [c for c in cells if store.state(c)[0] not in ("ok", "skipped")]
    if missing and not requests[0].control:
        records = [text for text, _ in data.values()]
        for text in (*records, f"{counted(len(missing), 'cell')} to compute of {len(cells)}"):
            progress.note(text)
    command = secrets.token_hex(6)
    jobs = [
        Job(
            model=part.cells[0].fit.model,
            dataset=datasets.tasks()[part.cells[0].task][0],
            plan=part,
            folders=folders,
            device=execution.device,
            settings=execution.settings,
            command=command,
        )
        for part in group(replace(whole, cells=tuple(cells)), datasets.tasks())
    ]
    outcome, time_left = outcome or Outcome(), TimeLeft(len(missing), progress)
    before, rest_on = outcome.computed, [receipts.rests_on(j, data[j.dataset][1]) for j in jobs]
    over = [receipts.complete(*pair, store) for pair in zip(jobs, rest_on)]
    for job in itertools.compress(jobs, over):
        outcome.settle(job, job.cells, store, progress)
    if all(over) and store.files_of("invocations"):
        return outcome
    invocation = Invocation(store, execution)

    def settled() -> None:
        invocation.note(outcome.computed, outcome.reused)
        time_left(outcome.computed - before)

    left = [(job, on) for job, on, done in zip(jobs, rest_on, over) if not done]
    carry_out([job for job, _ in left], execution, store, progress, outcome, settled)
    for job, on in left:
        receipts.keep(job, on, store)
    new = [folder for cell in missing if (folder := store.folder(cell))]
    outcome.meanwhile += sum(noted(folder).get("command") != command for folder in new)
    invocation.note(outcome.computed, outcome.reused, ended=not outcome.elsewhere)
    return outcome


def carry_out(
    jobs: Sequence[Job],
    execution: Execution,
    store: Store,
    progress: Display,
    outcome: Outcome,
    settled: Callable[[], None] = lambda: None,
) -> None:
    """The loop, which adds to `outcome`. Reports of a process are hints; the store decides whether
    cells are finished. settled: called after each job.
    """
    display, doing = JobDisplay(progress), dict[int, tuple[set[str], bool]]()
    store.forget_reasons(cell for job in jobs for cell in job.cells)
    waiting, open_jobs = deque(jobs), {job.number for job in jobs}

    def show(job: Job, event: Event) -> None:
        if event[0] == "cells":
            doing[job.number] = set(event[1]), event[2]
        elif event[0] == "uncompared":
            outcome.uncompared = True
            progress.note(event[1])
        else:
            display(job.number, event)

    def try_again(job: Job, death: Died) -> list[Job]:
        """Jobs of what is left, after what was in progress has failed, or alone where one of
        several is at fault.
        """
        log = death.log or job.log  # named also where nothing was printed
        missing = [c for c in job.cells if store.state(c)[0] == "missing"]
        names, together = doing.get(job.number, ({c.identity for c in missing}, False))
        lost = [c for c in missing if c.identity in names]
        rest = [c for c in missing if c not in lost]
        others = [job.of(rest)] if rest else []
        if together and len(lost) > 1:
            progress.note(f"{job.model}: {death.reason}; going on cell by cell (log: {log})")
            return [job.of([c]) for c in lost] + others
        for cell in lost:
            store.give_reason(cell, "failed", death.reason, log=str(log))
        return others

    for job, death in _run(execution, waiting, show):
        display.end(job.number)
        again = try_again(job, death) if death else []
        open_jobs ^= {job.number, *(one.number for one in again)}
        waiting.extend(again)
        missing = {c for one in again for c in one.cells}
        outcome.settle(job, [c for c in job.cells if c not in missing], store, progress)
        settled()
    outcome.elsewhere += len(open_jobs)


def _run(
    execution: Execution, waiting: deque[Job], show: engines.Show
) -> Iterator[tuple[Job, Died | None]]:
    """The engine; what the code of one from outside raises is one line."""
    if waiting:
        with engines.ROOM.calling(execution.engine):
            yield from engines.get(execution.engine).run(_work, waiting, show, execution)


def _work(job: Job, send: Callable[[Event], None]) -> None:
    from ecgbench.study.work import work  # torch: seconds, which this process need not spend

    send(("imported",))  # from here on the time limit of the model holds
    work(job, send)


def _is_known(cell: Cell, progress: Display) -> bool:
    """Whether this process knows the names in a cell of an earlier command; those of a plug-in
    only where its path is given.
    """
    known = (
        models.ROOM.known(cell.fit.model)
        and cell.policy in (*policies.names(), NATIVE)
        and cell.task in datasets.tasks()
    )
    if not known:
        progress.note(
            f"left as it is, this command does not name the file of its plug-in: {cell.label}"
        )
    return known


def _prepare(name: str, plan: Plan, folders: Folders, progress: Display) -> tuple[str, list[str]]:
    """Prepare a dataset, and keep its facts with the run; its records, in words, and the hash of
    its records and labels in each fold.
    """
    where = name, folders.data, folders.prepared
    store = Store(folders.out)
    with counting(f"prepare {name}", progress) as shown:
        prepared = prepare(*where, shown, plan.limit, plan.fix, plan.division)
        selection = Selection(prepared, plan.limit, plan.exclude)
        people.keep(store.path, prepared.name, people_of(prepared, selection.index))
        crossed = selection.crossed(plan.folds).values()
        for one in crossed:
            store.add_facts("datasets", dataset_facts(one))
    sizes = per_fold(sizes_of(selection.index["split"]), plan.division)
    return in_words(name, sizes, plan.division), [one.digest for one in crossed]


def remove_windows(store: Store) -> None:
    """Remove the window features of a run folder, which are only needed to resume."""
    for windows in store.path.glob("features/*/*/windows"):
        shutil.rmtree(windows, ignore_errors=True)
