"""Jobs: what a run gives to an engine. Plain data; `carry_out` does them, `engines` decide
where.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from ecgbench import adapters, datasets, metrics, models
from ecgbench.adapters.hide import NATIVE
from ecgbench.core.cells import Cell, Folders, Plan
from ecgbench.errors import BadSetting
from ecgbench.evaluate import protocols


@dataclass(frozen=True, kw_only=True)
class Job:
    """A piece of work that concerns one model."""

    kind: ClassVar[str]
    model: str
    id: str = ""
    """Different for every job of a run; its events carry it."""
    plugins: tuple[tuple[str, str], ...] = ()
    """(room, path) of the plug-ins that the command named: ("models", "/home/x/mine.py"),
    ("adapters", ...).
    """
    directory: str = field(default_factory=os.getcwd)
    """Where the command was typed; weights that it names by path are found from there."""

    @property
    def foreign(self) -> tuple[tuple[str, str], ...]:
        """(room, name) of the plug-ins from outside whose code the job runs. A process that runs
        such code must serve no job of another model, nor one that does without.
        """
        return tuple(
            (room, name)
            for room, names in self._used.items()
            for name in dict.fromkeys(names)
            if name not in ("", NATIVE) and not _ROOMS[room].ROOM.built_in(name)
        )

    @property
    def _used(self) -> dict[str, Sequence[str]]:
        """Room -> names of its plug-ins that the job uses."""
        return {"models": (self.model,)}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, read back by `from_json`."""
        return {"kind": self.kind, **self.__dict__}

    @staticmethod
    def from_json(data: dict[str, Any]) -> "Job":
        """The job that `to_json` wrote; BadSetting for anything else."""
        try:
            kind = {k.kind: k for k in (Look, Locate, Compute)}[data["kind"]]
            values = {**data, "plugins": tuple((room, path) for room, path in data["plugins"])}
            del values["kind"]
            return kind(**kind._read(values))
        except (KeyError, TypeError, ValueError) as error:
            raise BadSetting(
                f"this is no job that a run wrote: {type(error).__name__}: {error}"
            ) from error

    @classmethod
    def _read(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields of this kind, from plain JSON."""
        return values


@dataclass(frozen=True, kw_only=True)
class Look(Job):
    """Import a model and read its card; load its weights too where they are named."""

    kind = "look"
    weights: str | None
    contract: str


@dataclass(frozen=True, kw_only=True)
class Locate(Job):
    """Say whether weights are on this machine; nothing is loaded."""

    kind = "locate"
    weights: str


@dataclass(frozen=True, kw_only=True)
class Compute(Job):
    """Compute cells of one model, one set of weights, one contract and one dataset, or of one
    fine-tuned fit.
    """

    kind = "compute"
    plan: Plan
    """The study with these cells only."""
    dataset: str
    folders: Folders
    device: str = "cpu"
    keep_features: bool = True
    """Whether cells keep the features of their test records."""
    pin_environment: bool = False
    """Whether a cell must be computed from end to end with this version of torch and this kind of
    device.
    """
    keep_views: bool = True
    """Whether filtered and resampled recordings are kept on disk, or computed while reading."""
    recompute: bool = True
    """Whether some features of plug-ins are computed again in a process of their own."""

    @property
    def weights(self) -> str:
        """The weights of all its cells, as asked for."""
        return self.plan.cells[0].fit.weights

    @property
    def name(self) -> str:
        """The same in two runs on one store: only one process at a time computes the job of a
        name.
        """
        fits = self.plan.fits
        whole = [self.model, self.weights, fits[0].contract, self.dataset]
        if not protocols.get(self.plan.training.protocol).frozen:
            whole += [f"{f.task} {f.policy} {f.seed} {f.fold}" for f in fits]
        return "|".join(whole)

    @property
    def _used(self) -> dict[str, Sequence[str]]:
        policies = [name for c in self.plan.cells for name in (c.policy, c.fit.policy)]
        # metrics have processes of their own wherever they are called
        return {
            **super()._used,
            "adapters": policies,
            "datasets": (self.dataset,),
            "protocols": (self.plan.training.protocol,),
        }

    def of(self, cells: Sequence[Cell]) -> Self:
        """The same job with some of its cells."""
        return replace(self, plan=replace(self.plan, cells=tuple(cells)))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, read back by `from_json`."""
        folders = {k: None if v is None else str(v) for k, v in self.folders.__dict__.items()}
        return {**super().to_json(), "plan": self.plan.to_json(), "folders": folders}

    @classmethod
    def _read(cls, values: dict[str, Any]) -> dict[str, Any]:
        folders = Folders(**{name: path and Path(path) for name, path in values["folders"].items()})
        return {**values, "plan": Plan.from_json(values["plan"]), "folders": folders}


_ROOMS = {
    "models": models,
    "adapters": adapters,
    "datasets": datasets,
    "metrics": metrics,
    "protocols": protocols,
}


def plugins() -> tuple[tuple[str, str], ...]:
    """(room, path) of the plug-ins that were given by path, for `enter` in another process."""
    return tuple((name, str(path)) for name, room in _ROOMS.items() for path in room.ROOM.paths())


def enter(job: Job) -> None:
    """Be where its command was typed, and know the plug-ins that it named; nothing of them is
    imported yet.
    """
    with suppress(OSError):  # of a command that was typed on another machine
        os.chdir(job.directory)
    for room, path in job.plugins:
        _ROOMS[room].resolve(path)
