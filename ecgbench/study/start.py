"""What a run says first: what difference its test records can show, and how long it takes."""

from collections import deque
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from io import StringIO

from ecgbench import datasets
from ecgbench.core.cells import Folders, Plan, grouped
from ecgbench.core.text import duration
from ecgbench.evaluate import torchrun
from ecgbench.evaluate.device import choose
from ecgbench.study import engines
from ecgbench.study.differences import differences
from ecgbench.study.engines import Event
from ecgbench.study.jobs import Execution, Job, enter
from ecgbench.study.progress import Display

LONGEST = 60.0
"""Seconds after which a model that is tried is given up."""


def show(plan: Plan, folders: Folders, execution: Execution, progress: Display) -> None:
    """The two lines of `ecgbench run --dry-run` that a reader needs, of the missing cells of a
    plan, of prepared datasets. Models are tried by the engine, so that a crash costs no more than
    the line; not on other machines, and not under torchrun.
    """
    tasks = datasets.tasks()
    parts = grouped(plan.cells, lambda cell: (cell.fit.model, tasks[cell.task][0]))
    for name in dict.fromkeys(name for _, name in parts):
        for text in differences(plan, name, folders):
            progress.note(text)
    if engines.get(execution.engine).CARD.other_machines or torchrun.world() > 1:
        return
    settings = replace(execution.settings, timeout=min(execution.settings.timeout, LONGEST))
    jobs = [
        Job(
            model=model,
            dataset=name,
            plan=replace(plan, cells=tuple(cells)),
            folders=folders,
            device=execution.device,
        )
        for (model, name), cells in parts.items()
    ]
    found: list[float] = []

    def keep(_: Job, event: Event) -> None:
        found.extend(event[1:])

    run = engines.get(execution.engine).run
    with engines.ROOM.calling(execution.engine):
        list(run(_try, deque(jobs), keep, replace(execution, settings=settings)))
    if found:
        less = "" if len(found) == len(jobs) else ", without what could not be tried"
        progress.note(
            f"time: about {duration(sum(found))} on {choose(execution.device)}{less} (one record "
            f"of each model times the records)"
        )


def _try(job: Job, send: Callable[[Event], None]) -> None:
    enter(job)
    from ecgbench.study.estimate import seconds  # torch

    send(("imported",))
    unseen = StringIO()  # the run says which cells fail, and keeps what a model prints
    with suppress(Exception), redirect_stdout(unseen), redirect_stderr(unseen):
        send(("seconds", seconds(job)))
