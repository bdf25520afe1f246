"""The scripts that sbatch is given: of an array of tasks, and of the job that prepares for it."""

import os
import shlex
import sys
from pathlib import Path

from ecgbench.core.registry import folder_name
from ecgbench.errors import BadSetting
from ecgbench.study.batch import Batch

NOTICE = 120
"""Seconds before its end that a task is asked to stop."""


def of_tasks(batch: Batch, lines: list[str], cpus: int) -> str:
    """The array script of a batch: task $1 + $SLURM_ARRAY_TASK_ID of its file."""
    python, place, logs = (
        shlex.quote(str(path)) for path in (sys.executable, batch.file, batch.log_file(0).parent)
    )
    name = folder_name(batch.folder.parents[1].name)[:40]
    # a short time would be over before it began
    limits = [_seconds(line.partition("=")[2]) for line in lines if line.startswith("--time=")]
    notice = min([NOTICE, *(max(10, limit // 4) for limit in limits)])
    head = [
        f"--job-name=ecgbench-{name}",
        f"--output={_quoted(batch.folder, 'logs/slurm-%A_%a.log')}",
        "--open-mode=append",
        "--requeue",
        f"--signal=B:USR1@{notice}",
        f"--cpus-per-task={cpus}",
        *lines,
    ]
    return "\n".join(
        [
            "#!/bin/bash",
            "# Written by `ecgbench run`; each task of the array is one task of batch.json.",
            *(f"#SBATCH {line}" for line in head),
            *_environment(cpus),
            "task=$(( ${1:-0} + SLURM_ARRAY_TASK_ID ))",
            f'{python} -m ecgbench worker {place} "$task" >> {logs}/"$task".log 2>&1 &',
            "worker=$!",
            "# the notice before the end of its time goes to the worker, which queues itself again",
            "trap 'kill -USR1 \"$worker\" 2>/dev/null' USR1",
            "trap 'kill -TERM \"$worker\" 2>/dev/null' TERM",
            'wait "$worker"; code=$?',
            'while kill -0 "$worker" 2>/dev/null; do wait "$worker"; code=$?; done',
            'exit "$code"',
            "",
        ]
    )


def of_preparing(batch: Batch, lines: list[str], cpus: int) -> str:
    """The script of the job that prepares the recordings of a batch."""
    python, place = (shlex.quote(str(path)) for path in (sys.executable, batch.file))
    head = [
        "--job-name=ecgbench-prepare",
        f"--output={_quoted(batch.folder, 'logs/prepare.log')}",
        f"--cpus-per-task={cpus}",
        *lines,
    ]
    return "\n".join(
        [
            "#!/bin/bash",
            "# Written by `ecgbench run`; prepares the recordings of batch.json.",
            *(f"#SBATCH {line}" for line in head),
            *_environment(cpus),
            f"exec {python} -m ecgbench worker {place} prepare",
            "",
        ]
    )


def _quoted(folder: Path, file: str) -> str:
    """A file in a line of options, where % and spaces of its folder mean something. BadSetting
    where both kinds of quotes are in it: sbatch reads no escaped one.
    """
    path = f"{str(folder).replace('%', '%%')}/{file}"
    for mark in "\"'":
        if mark not in path:
            return f"{mark}{path}{mark}"
    raise BadSetting(
        f"--out {folder}: sbatch reads no folder with both kinds of quotes in its name; choose "
        f"another --out"
    )


def _environment(cpus: int) -> list[str]:
    searched = os.environ.get("PYTHONPATH", "")
    return [
        f"export OMP_NUM_THREADS={cpus} MKL_NUM_THREADS={cpus} OPENBLAS_NUM_THREADS={cpus}",
        *([f"export PYTHONPATH={shlex.quote(searched)}"] if searched else []),
    ]


def _seconds(text: str) -> int:
    """Of a time as Slurm spells it: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
    days-hours:minutes, days-hours:minutes:seconds. NOTICE * 4 where it is none.

    >>> [_seconds(t) for t in ("90", "1:30", "04:00:00", "1-12", "1-0:30")]
    [5400, 90, 14400, 129600, 88200]
    """
    days, dash, rest = text.rpartition("-")
    try:
        parts = [int(part) for part in rest.split(":")]
        if dash:
            hours, minutes, seconds = [*parts, 0, 0][:3]
        elif len(parts) == 3:
            hours, minutes, seconds = parts
        else:
            (minutes, seconds), hours = [*parts, 0][:2], 0
        return 86_400 * int(days or 0) + 3600 * hours + 60 * minutes + seconds
    except ValueError:
        return 4 * NOTICE
