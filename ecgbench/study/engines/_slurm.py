"""Jobs on Slurm: submitted by submitit, whose pickles carry only the job, while results are files;
and their state from squeue and sacct.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.core.text import shortened
from ecgbench.errors import BadSetting, EcgbenchError
from ecgbench.study.engines import Work
from ecgbench.study.jobs import Execution, Job
from ecgbench.study.outcome import Outcome
from ecgbench.study.store import Store

REQUEUES = 1000
"""How often a job may run out of time; each time it finishes some cells."""


ENDED = {
    *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"),
    *("DEADLINE", "REVOKED"),
}
UNKNOWN = "UNKNOWN", "squeue gives no answer"
TIMEOUT = 120.0
"""Seconds that a command of Slurm may take: controllers of large clusters are slow at times."""
LARGEST = 1001
"""Default of Slurm's MaxArraySize, for clusters that do not state it."""


@dataclass(frozen=True)
class ArrayTask:
    """The work of a job of Slurm on its node: it computes cells in a separate process."""

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
        """What submitit submits again when its time is over or it is preempted: the same task."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, job)


def submit(
    task: ArrayTask, jobs: Sequence[Job], folder: Path, options: dict[str, str], at_once: int
) -> list[str]:
    """The ids of jobs in Slurm; BadSetting with the message of sbatch where it refuses."""
    if not shutil.which("sbatch"):
        raise BadSetting(
            "--engine slurm: there is no sbatch here; give the command on a login node of the "
            "cluster, or choose --engine local:N"
        )
    import submitit  # half a second

    places = shlex.quote(os.pathsep.join(map(os.path.abspath, sys.path)))
    python = f"env PYTHONPATH={places} {shlex.quote(sys.executable)} -P"
    executor = submitit.SlurmExecutor(folder, max_num_timeout=REQUEUES, python=python)
    own = {name.replace("_", "-"): value for name, value in options.items() if name != "time"}
    executor.update_parameters(
        job_name="ecgbench",
        time=minutes(options.get("time", "1h")),
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


def minutes(text: str) -> int:
    """4h, 90m, 1d12h, minutes alone or Slurm's own D-HH:MM:SS in minutes; 0 for anything else.

    >>> [minutes(text) for text in ("4h", "1d12h", "02:00:00", "1-06:00:00", "30", "soon")]
    [240, 2160, 120, 1800, 30, 0]
    """
    if text.isdecimal():
        return int(text)
    try:
        length = pd.Timedelta(text.replace("-", "d").replace("d", " days "))
        return max(1, int(length.total_seconds()) // 60)
    except ValueError:
        return 0


def queued(ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """id -> (state, reason for waiting) of jobs that squeue knows; UNKNOWN for all where it gives
    no answer.
    """
    ids = list(ids)
    arrays = ",".join(dict.fromkeys(name.partition("_")[0] for name in ids))
    try:
        done = _output("squeue", "-h", "-r", "--states=all", "-o", "%F_%K|%T|%r", "-j", arrays)
    except (OSError, subprocess.SubprocessError) as error:
        gone = "Invalid job id" in str(getattr(error, "stderr", ""))
        return {} if gone else dict.fromkeys(ids, UNKNOWN)
    rows = [line.strip().removesuffix("|None").split("|") for line in done.splitlines()]
    known = {row[0].removesuffix("_N/A"): (row[1], "".join(row[2:])) for row in rows}
    return {name: known[name] for name in ids if name in known}


def accounted(name: str) -> str:
    """The state of a job that squeue has forgotten; "" where the cluster keeps no accounts."""
    with suppress(OSError, subprocess.SubprocessError):
        words = _output("sacct", "-n", "-X", "-P", "-o", "State", "-j", name).split()
        return words[0] if words else ""  # of "CANCELLED by 1000"
    return ""


def largest_array() -> int:
    """Jobs that one array may have."""
    with suppress(OSError, subprocess.SubprocessError):
        if found := re.search(r"MaxArraySize\s*=\s*(\d+)", _output("scontrol", "show", "config")):
            return max(1, int(found[1]))
    return LARGEST


def _output(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=TIMEOUT)
    return done.stdout
