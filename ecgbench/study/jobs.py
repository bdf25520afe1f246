"""Jobs: what a run gives to an engine. Plain data that can be sent to other processes."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Self

from ecgbench import datasets, metrics, models, perturbations, policies
from ecgbench.cards.cell import Cell
from ecgbench.cards.plan import Folders, Plan
from ecgbench.core.keys import grouped
from ecgbench.core.registry import folder_name
from ecgbench.evaluate import protocols
from ecgbench.study.plan_file import RunSettings

ROOMS: Mapping[str, Any] = {
    "models": models,
    "policies": policies,
    "datasets": datasets,
    "metrics": metrics,
    "protocols": protocols,
    "perturbations": perturbations,
}
"""The rooms whose plug-ins a command may name by path."""
_number = count(1)


def plugins() -> tuple[tuple[str, str], ...]:
    """(room, path) of the plug-ins that were given by path."""
    return tuple((name, str(path)) for name, room in ROOMS.items() for path in room.ROOM.paths())


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How jobs run; nothing here changes a number."""

    engine: str = "local"
    options: str = ""
    """Of the engine: 4 in local:4."""
    device: str = "auto"
    settings: RunSettings = field(default_factory=RunSettings)
    command: str = ""
    """The command line that repeats it; "": that of this process."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Cells of one model, one set of weights, one contract and one dataset, or of one fine-tuned
    fit.
    """

    model: str
    dataset: str
    plan: Plan
    """The study with these cells only."""
    folders: Folders
    device: str = "auto"
    """As requested; auto is decided where the job runs."""
    settings: RunSettings = field(default_factory=RunSettings)
    command: str = ""
    """Id of the command that started it, in every cell that it computes."""
    plugins: tuple[tuple[str, str], ...] = field(default_factory=plugins)
    """(room, path) of the plug-ins that the command named: ("models", "/home/x/mine.py")."""
    directory: str = field(default_factory=os.getcwd)
    """Where the command was typed; paths of weights are relative to it."""
    number: int = field(default_factory=_number.__next__)
    """A new number for every job of a process."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells to compute."""
        return self.plan.cells

    @property
    def weights(self) -> str:
        """The weights of all its cells, as requested."""
        return self.cells[0].fit.weights

    @property
    def name(self) -> str:
        """Equal for the same job in two runs on one store; one process at a time computes it."""
        fits = self.plan.fits
        whole = [self.model, self.weights, fits[0].contract, self.dataset]
        if not protocols.get(self.plan.training.protocol).frozen:
            whole += [f"{f.task} {f.policy} {f.seed} {f.fold}" for f in fits]
        return "|".join(whole)

    @property
    def log(self) -> Path:
        """File with the output of its model."""
        return self.folders.out / "logs" / f"{folder_name(self.model)}.log"

    @property
    def foreign(self) -> bool:
        """Whether it may run a plug-in from outside; its process then serves no other job."""
        rooms = [room.ROOM for room in ROOMS.values()]
        return any(r.paths() or not all(map(r.built_in, r.names())) for r in rooms)

    def of(self, cells: Sequence[Cell]) -> Self:
        """The same job with some of its cells."""
        plan = replace(self.plan, cells=tuple(cells))
        return replace(self, plan=plan, number=next(_number))


def enter(job: Job) -> None:
    """Change to the directory of its command, and register the plug-ins that it named; nothing is
    imported yet.
    """
    with suppress(OSError):  # of a command that was typed on another machine
        os.chdir(job.directory)
    for room, path in job.plugins:
        ROOMS[room].resolve(path)


def group(plan: Plan, dataset_of: Mapping[str, Any]) -> Iterator[Plan]:
    """Parts of a plan that are computed together: cells of one model on one dataset, or of one
    fine-tuned fit. The first part of each model comes first, so that a model that cannot run shows
    this soon.

    dataset_of: task -> (dataset, ...).
    """
    frozen = protocols.get(plan.training.protocol).frozen

    def together(cell: Cell) -> tuple[Any, ...]:
        fit = cell.fit
        return fit.model, dataset_of[cell.task][0], fit.weights, fit.contract, frozen or fit

    parts = grouped(plan.cells, together)
    of_model = grouped(parts, lambda part: part[0])
    first = [parts[0] for parts in of_model.values()]
    rest = [part for own in of_model.values() for part in own[1:]]
    for part in [*first, *rest]:
        yield replace(plan, cells=tuple(parts[part]))
