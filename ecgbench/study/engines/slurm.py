"""Slurm: tasks of an array job on the nodes of a cluster. sbatch submits them, squeue and scontrol
say how they are, and sacct where the cluster has one.

A task is `python -m ecgbench worker BATCH TASK`; its results go to the store, which all nodes must
see. No task is ended for another's failure. What a task has finished when its time is over stays,
and it is queued again.
"""

import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ecgbench.core.files import put
from ecgbench.core.text import counted
from ecgbench.errors import BadSetting
from ecgbench.slurm_queue import RUNNING, Silent, queued, said, there
from ecgbench.study import slurm_script
from ecgbench.study.batch import Batch
from ecgbench.study.engine import EngineCard, Setup
from ecgbench.study.workers import Standing, State, Workers

CARD = EngineCard(
    title="Slurm",
    summary="on the nodes of a cluster, by sbatch; see --slurm and --detach",
    other_machines=True,
)
SCRIPT, PREPARE, EMIT = "tasks.sh", "prepare.sh", "emit_sbatch"
_AFTER = "--dependency=afterok:"
LARGEST = 1001
"""Slurm's own MaxArraySize, where a cluster does not tell."""
OURS = {
    "minutes": "that a task should take; short jobs are put together (30)",
    "at_once": "tasks at once (as many as the cluster gives)",
    "cpus": "cores of a task, and threads of its products (1)",
    "prepare": "job: recordings are prepared by a job before the tasks (by this command)",
}
"""Options of --slurm that are not sbatch's."""
_MINUTES, _CPUS = 30.0, 1
_OVER: Mapping[str, bool] = {
    "COMPLETED": True,
    "FAILED": True,
    "TIMEOUT": True,
    "NODE_FAIL": True,
    "OUT_OF_MEMORY": True,
    "BOOT_FAIL": True,
    "PREEMPTED": True,
    "DEADLINE": False,
    "CANCELLED": False,
    "REVOKED": False,
}
"""State of a task that has ended -> whether it may be submitted once more."""
_TIME = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?")
_OPTION = re.compile(r"[a-z][a-z-]*")
_SHELL = set("\"'`$\\; ")
"""What an option cannot hold: it would be two in a line of options, or another command."""


class Slurm:
    """Submits tasks as array jobs."""

    place = "Slurm"
    settles = 10.0
    """A task that is being queued again counts as failed or completed for a moment."""

    def __init__(self, setup: Setup) -> None:
        self.options = dict(setup.options)
        self.options.pop("", None)
        self.to = Path(self.options.pop(EMIT)) if EMIT in self.options else None
        self.seconds = 60 * _positive(self.options, "minutes", _MINUTES)
        self.cpus = _whole(self.options, "cpus", _CPUS)
        self.at_once = _whole(self.options, "at_once", 0)
        self.prepares = _prepared_by_a_job(self.options)
        self.lines = list(_sbatch_lines(self.options))

    def write(self, batch: Batch) -> str:
        """Leave the scripts of a batch; says the commands that submit them."""
        written = self._script(batch)
        if self.to is not None:
            written = put(self.to, written.read_bytes())
        before, first = "", []
        if self.prepares:
            before = "$prepared"
            first = [f"to submit: prepared=$(sbatch --parsable {self._prepare(batch)})"]
        return "\n".join(
            first
            + [
                f"to submit: {_typed(self._command(*chunk, written, before))}"
                for chunk in _chunks(0, len(batch.tasks), LARGEST)
            ]
        )

    def launch(self, batch: Batch, first: int, count: int) -> None:
        """Submit tasks; BadSetting with sbatch's own words where it refuses."""
        _demand("sbatch")
        script, before = self._script(batch), ""
        if self.prepares and not batch.handed_over():
            job = said(["sbatch", "--parsable", str(self._prepare(batch))])
            before = job.strip().partition(";")[0]
        for start, number in _chunks(first, count, _largest()):
            array = said(self._command(start, number, script, before)).strip()
            batch.hand_over(array.partition(";")[0], start, number)

    def _command(self, first: int, count: int, script: Path, before: str) -> list[str]:
        """Submits tasks. before: the number of a job that must have ended well by then."""
        several = f"0-{count - 1}" + (f"%{self.at_once}" if self.at_once else "")
        after = ["--kill-on-invalid-dep=yes", f"{_AFTER}{before}"] if before else []
        return ["sbatch", "--parsable", *after, f"--array={several}", str(script), str(first)]

    def _prepare(self, batch: Batch) -> Path:
        """The script of the job that prepares recordings, which needs no GPU."""
        lines = [line for line in self.lines if not line.startswith(("--gpu", "--gres"))]
        return put(batch.folder / PREPARE, slurm_script.of_preparing(batch, lines, self.cpus))

    def _script(self, batch: Batch) -> Path:
        return put(batch.folder / SCRIPT, slurm_script.of_tasks(batch, self.lines, self.cpus))

    def states(self, batch: Batch) -> Mapping[int, State]:
        """Of all tasks that were handed over, by squeue; of those that it knows no more, by sacct
        where there is one. A task that nobody knows has ended.
        """
        names = batch.handed_over()
        if not names:
            return {}
        arrays = sorted({name.rpartition("_")[0] for name in names.values()})
        try:
            known = dict(_known(arrays))
        except Silent as error:  # nothing is handed over a second time for that
            return dict.fromkeys(names, State("running", str(error)))
        if lost := [name for name in names.values() if name not in known]:
            known |= dict(_accounted({name.rpartition("_")[0] for name in lost}))
        gone = State("ended", "Slurm does not know it any more")
        return {task: known.get(name, gone) for task, name in names.items()}

    def close(self) -> str:
        """They go on."""
        return "the tasks go on in Slurm; the same command follows them, and scancel ends them"


def begun(batch: Batch, task: int) -> None:
    """A task of an array that a person has submitted is known by its name from now on. Numbers of
    arrays grow: one that is queued again does not take the place of what was submitted since.
    """
    array, index, count = (
        os.environ.get(f"SLURM_ARRAY_{name}", "") for name in ("JOB_ID", "TASK_ID", "TASK_COUNT")
    )
    if not all(word.isdecimal() for word in (array, index, count)):
        return
    known = batch.handed_over().get(task, "0_0").partition("_")[0]
    if not known.isdecimal() or int(known) < int(array):
        batch.hand_over(array, task - int(index), int(count))


def requeue() -> bool:
    """Whether the task of Slurm that this process is was queued again."""
    job = os.environ.get("SLURM_JOB_ID")
    if not job or not there("scontrol"):
        return False
    with suppress(BadSetting):
        said(["scontrol", "requeue", job])
        return True
    return False


def _chunks(first: int, count: int, largest: int) -> Iterator[tuple[int, int]]:
    """(first, count) of arrays that a cluster takes, whose indices are below MaxArraySize."""
    for start in range(first, first + count, largest):
        yield start, min(largest, first + count - start)


def _largest() -> int:
    with suppress(BadSetting):
        if found := re.search(r"MaxArraySize\s*=\s*(\d+)", said(["scontrol", "show", "config"])):
            return max(1, int(found[1]))
    return LARGEST


def _known(arrays: list[str]) -> Iterator[tuple[str, State]]:
    """Name of a task -> its state, of those that squeue knows."""
    _demand("squeue")
    for array in arrays:
        for task in queued(array):
            yield task.name, _state(task.state, task.why)


def _accounted(arrays: set[str]) -> Iterator[tuple[str, State]]:
    if not there("sacct"):
        return
    words = ["--noheader", "--parsable2", "--allocations", "--format=JobID,State"]
    for array in sorted(arrays):
        with suppress(BadSetting):  # a cluster without accounting
            for line in said(["sacct", f"--jobs={array}", *words]).splitlines():
                name, _, state = line.strip().partition("|")
                yield name, _state(state.split(" ")[0], "")


def _state(state: str, why: str) -> State:
    standing: Standing = "waiting"
    if state in RUNNING:
        standing = "running"
    elif state in _OVER:
        standing = "ended"
    reason = "" if why in ("", "None") else f" ({why})"
    return State(standing, f"Slurm says {state}{reason}", _OVER.get(state, True))


def _demand(program: str) -> None:
    if not there(program):
        raise BadSetting(
            f"--engine slurm: there is no {program} here; give the command on a login node of the "
            f"cluster, or write the script for it with --emit-sbatch"
        )


def _positive(options: dict[str, str], name: str, usual: float) -> float:
    """A number of our own options, which is taken out of them."""
    text = options.pop(name, None)
    if text is None:
        return usual
    with suppress(ValueError):
        if 0 < (value := float(text)) < math.inf:
            return value
    raise BadSetting(f"--slurm {name}={text}: a number above 0 ({OURS[name]})")


def _whole(options: dict[str, str], name: str, usual: int) -> int:
    """A count of our own options, which is taken out of them."""
    text = options.pop(name, None)
    if text is None:
        return usual
    if not (text.isdecimal() and len(text) < 7 and int(text)):
        raise BadSetting(f"--slurm {name}={text}: a whole number from 1 ({OURS[name]})")
    return int(text)


def _prepared_by_a_job(options: dict[str, str]) -> bool:
    """Our option `prepare`, which is taken out."""
    who = options.pop("prepare", "")
    if who not in ("", "job"):
        raise BadSetting(
            f"--slurm prepare={who}: job, or leave it out: then this command prepares recordings"
        )
    return who == "job"


def _typed(command: list[str]) -> str:
    """A command as a shell reads it, with the number of the job before it in a variable."""
    return shlex.join(command).replace(f"'{_AFTER}$prepared'", f'"{_AFTER}$prepared"')


def _sbatch_lines(options: Mapping[str, str]) -> Iterator[str]:
    """What is left of --slurm, as options of sbatch."""
    for name, value in options.items():
        option = name.replace("_", "-")
        if not _OPTION.fullmatch(option) or not value.isprintable() or set(value) & _SHELL:
            raise BadSetting(
                f"--slurm {name}={value}: no option of sbatch; they are spelled partition=gpu,"
                f"time=4h,gpus=1, and {counted(len(OURS), 'option')} are ours: {', '.join(OURS)}"
            )
        yield f"--{option}={_minutes(value) if option == 'time' else value}"


def _minutes(text: str) -> str:
    """4h, 90m, 1d12h as Slurm spells them; its own way of writing stays.

    >>> _minutes("4h"), _minutes("1d12h"), _minutes("02:00:00")
    ('04:00:00', '36:00:00', '02:00:00')
    """
    found = _TIME.fullmatch(text)
    if not found or not text:
        return text
    days, hours, minutes = (int(part or 0) for part in found.groups())
    return f"{24 * days + hours:02}:{minutes:02}:00"


def start(setup: Setup) -> Workers:
    """The engine."""
    return Workers(setup, Slurm(setup), "slurm")
