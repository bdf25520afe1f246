"""Jobs of a run cut into tasks, which processes elsewhere carry out: on this machine or on the
nodes of a cluster. Plain files below the run:

<run>/batches/<time>-<id>/batch.json           engine, device, patience, the jobs of each task
                          submitted.jsonl      what was handed over, and under which name
                          events/<task>.jsonl  what a task shows of its progress
                          logs/<task>.log      what its process printed
"""

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecgbench.core.files import append, as_json, put
from ecgbench.errors import BadSetting
from ecgbench.study.events import BadEvent, EventFile, Over
from ecgbench.study.job import Compute, Job

FOLDER, FILE = "batches", "batch.json"
FORMAT = 1
HANDED_OVER = "submitted.jsonl"
TASK = "ECGBENCH_TASK"
"""Variable that tells the processes of a task which one they belong to; each cell says so."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Tasks of one command, and where their files lie."""

    folder: Path
    engine: str
    device: str
    """As it was asked for; auto is decided where a task runs."""
    patience: float
    tasks: tuple[tuple[Compute, ...], ...]
    options: Mapping[str, str]
    """Of the engine."""

    @staticmethod
    def read(file: Path) -> "Batch":
        """What `write` wrote; BadSetting for any other file."""
        try:
            told = json.loads(file.read_bytes())
            if told["format"] != FORMAT:
                raise BadSetting(f"{file} has format {told['format']}, and this reads {FORMAT}")
            return Batch(
                folder=file.absolute().parent,
                engine=str(told["engine"]),
                device=str(told["device"]),
                patience=float(told["patience"]),
                tasks=tuple(tuple(map(_job, jobs)) for jobs in told["tasks"]),
                options={str(k): str(v) for k, v in told["options"].items()},
            )
        except OSError as error:
            raise BadSetting(f"cannot read {file}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadSetting(
                f"{file} is no batch that `ecgbench run` wrote ({type(error).__name__}: {error})"
            ) from error

    def write(self) -> "Batch":
        """Leave it for the processes that carry out its tasks."""
        tasks = [[job.to_json() for job in jobs] for jobs in self.tasks]
        facts = {"engine": self.engine, "device": self.device, "patience": self.patience}
        told = {"format": FORMAT, **facts, "options": dict(self.options), "tasks": tasks}
        for file in (self.events_file(0), self.log_file(0)):
            file.parent.mkdir(parents=True, exist_ok=True)
        put(self.file, as_json(told))
        return self

    @property
    def file(self) -> Path:
        """What a task's process reads."""
        return self.folder / FILE

    def name_of(self, task: int) -> str:
        """How cells name the task that computed them."""
        return f"{self.folder.name}/{task}"

    def has_made(self, name: str) -> bool:
        """Whether a task of this name is one of the batch."""
        return name.rpartition("/")[0] == self.folder.name

    def events_file(self, task: int) -> Path:
        """What a task shows of its progress."""
        return self.folder / "events" / f"{task}.jsonl"

    def log_file(self, task: int) -> Path:
        """What its process printed."""
        return self.folder / "logs" / f"{task}.log"

    def hand_over(self, submission: str, first: int, count: int) -> None:
        """Note that tasks `first` to `first` + `count` - 1 were handed over under a name."""
        line = json.dumps({"id": submission, "first": first, "count": count})
        append(self.folder / HANDED_OVER, [line])

    def handed_over(self) -> dict[int, str]:
        """Task -> the name under which it was handed over last: "4711_3" of the array 4711."""
        names: dict[int, str] = {}
        file = self.folder / HANDED_OVER
        for line in file.read_text().splitlines() if file.exists() else ():
            try:
                told = json.loads(line)
                first, count, name = int(told["first"]), int(told["count"]), str(told["id"])
            except (ValueError, KeyError, TypeError):  # of a writer that died
                continue
            names |= {first + i: f"{name}_{i}" for i in range(count)}
        return names


def _job(told: dict[str, Any]) -> Compute:
    job = Job.from_json(told)
    if not isinstance(job, Compute):
        raise TypeError(f"a job of kind {job.kind}")
    return job


def fresh(run: Path) -> Path:
    """The folder of a new batch of a run."""
    return run / FOLDER / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def of_run(run: Path) -> Iterator[Batch]:
    """The batches of a run, oldest first; what is none is passed over."""
    for file in sorted((run / FOLDER).glob(f"[!.]*/{FILE}")):
        try:
            yield Batch.read(file)
        except BadSetting:
            continue


def seconds_of_a_cell(run: Path) -> dict[str, float]:
    """Model -> seconds that a cell of it took, of the jobs of earlier batches that are over."""
    taken: dict[str, list[float]] = {}
    for batch in of_run(run):
        for number, jobs in enumerate(batch.tasks):
            models = {job.id: job.model for job in jobs}
            with suppress(BadEvent):
                for event in EventFile(batch.events_file(number)).events():
                    if isinstance(event, Over) and event.job in models:
                        seconds, cells = (event.answer.get(k) for k in ("seconds", "computed"))
                        if isinstance(seconds, float) and isinstance(cells, int) and cells > 0:
                            taken.setdefault(models[event.job], []).append(seconds / cells)
    return {model: sum(each) / len(each) for model, each in taken.items()}


def cut(
    jobs: Sequence[Compute], seconds: Mapping[str, float], most: float
) -> list[tuple[Compute, ...]]:
    """Whole jobs put together to tasks of about `most` seconds, in their order. `seconds`: of a
    cell, by model; a job of a model that is in it not, or `most` 0, is a task of its own.

    Jobs of one dataset stay neighbours, so that a task reads few datasets.
    """
    tasks: list[list[Compute]] = []
    left = 0.0
    for job in sorted(jobs, key=lambda job: job.dataset):  # stable: else as they came
        rate = seconds.get(job.model)
        needs = most if rate is None else rate * len(job.plan.cells)
        if not tasks or not most or needs > left:
            tasks.append([])
            left = most
        tasks[-1].append(job)
        left -= needs
    return [tuple(task) for task in tasks]
