"""Slurm: `slurm:partition=gpu,time=4h` submits an array of jobs by submitit, with any option of
sbatch; results go to the run folder, which all nodes must see.

A job that runs out of time or is preempted keeps its finished cells and is queued again. Ctrl-C
stops following, not the jobs; the same command follows them again. Additional options: at_once=8,
jobs at a time; wait=no, return after submission.
"""

import re
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

from ecgbench.core.files import append
from ecgbench.errors import BadSetting
from ecgbench.study.engines import Died, EngineCard, Show, Work
from ecgbench.study.engines._slurm import (
    ENDED,
    ArrayTask,
    accounted,
    largest_array,
    minutes,
    queued,
    submit,
)
from ecgbench.study.jobs import Execution, Job
from ecgbench.study.store import Store

CARD = EngineCard(
    title="Slurm",
    summary="on a cluster, by sbatch: slurm:partition=gpu,time=4h,gpus=1",
    other_machines=True,
)
EVERY = 10.0
"""Seconds between two looks at the queue."""
TRIES = 2
"""How often a job that ended without its cells is submitted again."""
SUBMITTED = "submitted.tsv"
"""In OUT/jobs: id and name of each job."""


def run(
    work: Work, jobs: deque[Job], show: Show, execution: Execution
) -> Iterator[tuple[Job, Died | None]]:
    """Submit jobs, and follow them until they end."""
    options = options_of(execution.options)
    wait, at_once = options.pop("wait", "yes"), int(options.pop("at_once", "256"))
    out = jobs[0].folders.out
    folder, store = out / "jobs", Store(out)
    alive = {name: number for number, (name, *_) in running(out).items()}
    following, tries = dict[str, Job](), Counter[int]()
    while jobs or following:
        new = [jobs.popleft() for _ in range(len(jobs))]
        following |= {alive[job.name]: job for job in new if job.name in alive}
        new = [job for job in new if job.name not in alive]
        for start in range(0, len(new), most := largest_array()):
            part = new[start : start + most]
            ids = submit(ArrayTask(work), part, folder, options, at_once)
            lines = [f"{number}\t{job.name}" for number, job in zip(ids, part, strict=True)]
            append(folder / SUBMITTED, lines)
            following |= dict(zip(ids, part, strict=True))
        alive = {}
        if wait == "no":
            return
        states = queued(following)
        for number in [n for n in following if states.get(n, ("", ""))[0] in ("", *ENDED)]:
            job, (state, _) = following.pop(number), states.get(number) or (accounted(number), "")
            reason = f"its job {number} ended in Slurm{f' ({state})' if state else ''}"
            lacks = any(store.state(cell)[0] == "missing" for cell in job.cells)
            if lacks and state != "CANCELLED" and tries[job.number] < TRIES:
                # the node may be at fault; the model has a process of its own
                tries[job.number] += 1
                show(job, ("note", f"{reason}; submitted again"))
                jobs.append(job)
            else:
                log = next(iter(sorted(folder.glob(f"{number}_*log.out"))), "")
                yield job, Died(reason, str(log))
        if following and not jobs:
            time.sleep(EVERY)


def running(run: Path) -> dict[str, tuple[str, str, str]]:
    """id -> (name, state, reason for waiting) of the jobs of a run that have not ended."""
    file = run / "jobs" / SUBMITTED
    lines = file.read_text().splitlines() if file.exists() else []
    names = {number: name for number, tab, name in (line.partition("\t") for line in lines) if tab}
    states = queued(names) if names else {}
    return {n: (names[n], *of) for n, of in states.items() if of[0] not in ENDED}


def options_of(text: str) -> dict[str, str]:
    """The options after the colon: name -> value; BadSetting."""
    options: dict[str, str] = {}
    allowed = {"at_once": r"[1-9]\d{0,5}", "wait": "yes|no"}
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        known = re.fullmatch(r"[a-z][a-z_-]*", name) and value.isprintable()
        known = known and re.fullmatch(allowed.get(name, ".+"), value) and name not in options
        if not known or (name == "time" and not minutes(value)):
            raise BadSetting(
                f"--engine slurm: {word}: NAME=VALUE of sbatch, each name once, such as "
                f"slurm:partition=gpu,time=4h,gpus=1; ours are at_once=8 and wait=no"
            )
        options[name] = value
    return options
