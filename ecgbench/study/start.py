"""What a run says first: what difference its test records can show, and how long it takes."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ecgbench import datasets
from ecgbench.core.cells import Folders, Plan, grouped
from ecgbench.core.text import duration
from ecgbench.data.prepare import find
from ecgbench.data.select import Selection
from ecgbench.evaluate import torchrun
from ecgbench.evaluate.device import choose
from ecgbench.stats.detectable import expected
from ecgbench.study import engines
from ecgbench.study.engines import Event
from ecgbench.study.jobs import Execution, Job, enter
from ecgbench.study.progress import Display

ASSUMED = 0.85, 0.5
"""AUROC of two models, and the correlation of their errors, for the smallest detectable difference.
"""
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
    of = {"folders": folders, "device": execution.device, "settings": settings}
    jobs = [
        Job(model=model, dataset=name, plan=replace(plan, cells=tuple(cells)), **of)
        for (model, name), cells in parts.items()
    ]
    found: list[float] = []
    run = engines.get(execution.engine).run
    with engines.ROOM.calling(execution.engine):
        list(run(_try, deque(jobs), lambda _, event: found.append(event[1]), execution))
    if found:
        less = "" if len(found) == len(jobs) else ", without what could not be tried"
        progress.note(
            f"time: about {duration(sum(found))} on {choose(execution.device)}{less} (one record "
            f"of each model times the records)"
        )


def _try(job: Job, send: Callable[[Event], None]) -> None:
    enter(job)
    with suppress(Exception):  # the run says which cells fail, and why
        from ecgbench.study.estimate import seconds

        send(("seconds", seconds(job)))


def differences(plan: Plan, name: str, folders: Folders) -> Iterator[str]:
    """From how large a difference on the test records of a prepared dataset tell two models apart,
    for each task of a plan.
    """
    there = find(name, folders.data, folders.prepared, plan.limit, division=plan.division)
    chosen, (auroc, shared) = Selection(there, plan.limit), ASSUMED
    table = chosen.index if plan.division.cross else chosen.of("test")
    for task in there.tasks:
        target = table[task.columns].to_numpy(np.int8)
        positives, negatives = ((target == value).sum(axis=0) for value in (1, 0))
        least = expected(positives, negatives, auroc, shared)
        if np.isfinite(least) and task.name in {c.task for c in plan.cells}:
            yield (
                f"{task.name}: two models can be told apart from {100 * least:.1f} points on "
                f"(in 4 of 5 studies, near AUROC {auroc:g} with {shared:.0%} of their error in "
                f"common)"
            )
