"""Slurm: `slurm:partition=gpu,time=4h` submits an array of jobs by submitit, with any option of
sbatch; results go to the run folder, which all nodes must see.

What a job has finished when its time is over, or when it is preempted, stays, and it is queued
again. Ctrl-C ends following and not the jobs; the same command follows them again. Our own options:
at_once=8, jobs at a time; wait=no, return after submission.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecgbench.core.files import append
from ecgbench.core.text import shortened
from ecgbench.errors import BadSetting, EcgbenchError
from ecgbench.study.engines import Died, EngineCard, Setup, Show, Work
from ecgbench.study.jobs import Execution, Job
from ecgbench.study.outcome import Outcome
from ecgbench.study.store import Store

CARD = EngineCard(
    title="Slurm",
    summary="on a cluster, by sbatch: slurm:partition=gpu,time=4h,gpus=1",
    other_machines=True,
)
EVERY = 10.0
"""Seconds between two looks at the queue."""
TIMEOUT = 120.0
"""Seconds that a command of Slurm may take: a controller of a large cluster is slow at times."""
LARGEST = 1001
"""Slurm's own MaxArraySize, where a cluster does not tell."""
TRIES = 2
"""How often a job is submitted again that ended before its cells were there."""
REQUEUES = 1000
"""How often a job may run out of time; each time it has finished some cells."""
MINUTES = 60
"""Of a job where `time` is not given."""
ENDED = {
    *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"),
    *("DEADLINE", "REVOKED"),
}
SUBMITTED = "submitted.jsonl"
_TIME = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?")
_OPTION = re.compile(r"[a-z][a-z_-]*")


def run(
    work: Work, jobs: deque[Job], show: Show, setup: Setup
) -> Iterator[tuple[Job, Died | None]]:
    """Submit jobs, and follow them until they have ended."""
    options = options_of(setup.options)
    wait, at_once = options.pop("wait", "yes"), int(options.pop("at_once", "256"))
    folder = setup.out / "jobs"
    earlier = submitted(setup.out)
    states = queued([one.id for one in earlier])
    alive = {e.name: e.id for e in earlier if states.get(e.id, ("REVOKED",))[0] not in ENDED}
    following, tries = dict[str, Job](), Counter[int]()
    while jobs or following:
        new = [jobs.popleft() for _ in range(len(jobs))]
        following |= {alive[job.name]: job for job in new if job.name in alive}
        new = [job for job in new if job.name not in alive]
        for start in range(0, len(new), most := _largest()):
            part = new[start : start + most]
            ids = _submit(Task(work), part, folder, options, at_once)
            lines = [json.dumps({"id": i, "name": j.name}) for i, j in zip(ids, part, strict=True)]
            append(folder / SUBMITTED, lines)
            following |= dict(zip(ids, part, strict=True))
        alive = {}
        if wait == "no":
            return
        states = queued(list(following))
        for name in [n for n in following if states.get(n, ("", ""))[0] in ("", *ENDED)]:
            state = states.get(name) or (_accounted(name), "")
            log = next(iter(sorted(folder.glob(f"{name}_*log.out"))), None)
            reason = f"its job {name} ended in Slurm{f' ({state[0]})' if state[0] else ''}"
            job = following.pop(name)
            lacks = any(Store(setup.out).state(cell)[0] == "missing" for cell in job.cells)
            if lacks and state[0] != "CANCELLED" and tries[job.number] < TRIES:
                tries[job.number] += (
                    1  # the node may be at fault; the model has a process of its own
                )
                show(job, ("note", f"{reason}; submitted again"))
                jobs.append(job)
            else:
                yield job, Died(reason, str(log) if log else "")
        if following and not jobs:
            time.sleep(EVERY)


@dataclass(frozen=True)
class Task:
    """What a job of Slurm does on its node: it carries cells out in a process of their own."""

    work: Work

    def __call__(self, job: Job) -> None:
        """Compute a job; a reason is left for each cell without a number."""
        from ecgbench.study.progress import display
        from ecgbench.study.run import carry_out

        store = Store(job.folders.out)
        execution = Execution(device=job.device, settings=job.settings)
        try:
            carry_out([job], execution, store, display(), Outcome())
        except EcgbenchError as error:
            for cell in job.cells:
                if store.folder(cell) is None:
                    store.give_reason(cell, "failed", str(error))

    def checkpoint(self, job: Job) -> Any:
        """What submitit submits again where its time is over, or it is preempted: the same."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, job)


def _submit(
    task: Task, jobs: Sequence[Job], folder: Path, options: dict[str, str], at_once: int
) -> list[str]:
    """The ids of jobs in Slurm; BadSetting with sbatch's own words where it refuses."""
    if not shutil.which("sbatch"):
        raise BadSetting(
            "--engine slurm: there is no sbatch here; give the command on a login node of the "
            "cluster, or choose --engine local:N"
        )
    import submitit  # half a second

    places = shlex.quote(os.pathsep.join(map(os.path.abspath, sys.path)))
    python = f"env PYTHONPATH={places} {shlex.quote(sys.executable)} -P"
    executor = submitit.SlurmExecutor(folder, max_num_timeout=REQUEUES, python=python)
    own = {name.replace("_", "-"): value for name, value in options.items()}
    minutes = _minutes(own.pop("time", str(MINUTES)))
    executor.update_parameters(
        job_name="ecgbench",
        time=minutes,
        stderr_to_stdout=True,
        array_parallelism=at_once,
        additional_parameters=own,
    )
    try:
        with executor.batch():
            sent = [executor.submit(task, job) for job in jobs]
    except (submitit.core.utils.FailedJobError, RuntimeError) as error:
        raise BadSetting(f"--engine slurm: {shortened(str(error), 300)}") from error
    return [one.job_id for one in sent]


# what Slurm says


@dataclass(frozen=True)
class Submitted:
    """A job that was submitted."""

    id: str
    name: str
    """As `Job.name` has it."""


def submitted(run: Path) -> list[Submitted]:
    """The jobs of a run that were submitted, oldest first."""
    found, file = [], run / "jobs" / SUBMITTED
    for line in file.read_text().splitlines() if file.exists() else ():
        with suppress(ValueError, KeyError, TypeError):  # of a writer that died
            told = json.loads(line)
            found.append(Submitted(str(told["id"]), str(told["name"])))
    return found


def queued(ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """id -> (state, why it waits) of jobs that squeue knows and that have not ended long ago; of
    all, "UNKNOWN", where it gives no answer.
    """
    if not ids:
        return {}
    arrays = ",".join(dict.fromkeys(name.partition("_")[0] for name in ids))
    words = ["squeue", "-h", "-r", "--states=all", "-o", "%F_%K|%T|%r", "-j", arrays]
    try:
        done = _said(words)
    except (OSError, subprocess.SubprocessError) as error:
        if "Invalid job id" in str(getattr(error, "stderr", "")):
            return {}
        return dict.fromkeys(ids, ("UNKNOWN", "squeue gives no answer"))
    rows = [line.strip().removesuffix("|None").split("|") for line in done.splitlines()]
    known = {row[0].removesuffix("_N/A"): (row[1], "".join(row[2:])) for row in rows}
    return {name: known[name] for name in ids if name in known}


def _accounted(name: str) -> str:
    """The state of a job that squeue has forgotten; "" where the cluster keeps no accounts."""
    with suppress(OSError, subprocess.SubprocessError):
        return _said(["sacct", "-n", "-X", "-P", "-o", "State", "-j", name]).strip()
    return ""


def _largest() -> int:
    with suppress(OSError, subprocess.SubprocessError):
        if found := re.search(r"MaxArraySize\s*=\s*(\d+)", _said(["scontrol", "show", "config"])):
            return max(1, int(found[1]))
    return LARGEST


def _said(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=TIMEOUT).stdout


def options_of(text: str) -> dict[str, str]:
    """What stood behind the colon: name -> value; BadSetting."""
    options: dict[str, str] = {}
    for word in filter(None, text.split(",")):
        name, equals, value = word.partition("=")
        known = bool(_OPTION.fullmatch(name)) and value.isprintable() and bool(value)
        if name == "at_once":
            known &= value.isdecimal() and 0 < int(value) < 10**6
        if name == "wait":
            known &= value in ("yes", "no")
        if name == "time":
            known &= _minutes(value) > 0
        if not equals or not known or name in options:
            raise BadSetting(
                f"--engine slurm: {word}: NAME=VALUE of sbatch, each name once, such as "
                f"slurm:partition=gpu,time=4h,gpus=1; ours are at_once=8 and wait=no"
            )
        options[name] = value
    return options


def _minutes(text: str) -> int:
    """4h, 90m, 1d12h, minutes alone or Slurm's own D-HH:MM:SS in minutes; 0 for anything else.

    >>> _minutes("4h"), _minutes("1d12h"), _minutes("02:00:00"), _minutes("30"), _minutes("soon")
    (240, 2160, 120, 30, 0)
    """
    if text.isdecimal():
        return int(text)
    if text and (found := _TIME.fullmatch(text)):
        days, hours, minutes = (int(part or 0) for part in found.groups())
        return 60 * (24 * days + hours) + minutes
    days_, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdecimal() for part in [*parts, days_ or "0"]) or len(parts) not in (2, 3):
        return 0
    hours, minutes, *_ = (int(part) for part in (parts if len(parts) == 3 else ["0", *parts]))
    return max(1, 60 * (24 * int(days_ or 0) + hours) + minutes)
