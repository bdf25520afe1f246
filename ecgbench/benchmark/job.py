"""One job: the cells of one model on one dataset, or of one fine-tuned fit. Plain data: `work` computes it, `engines` say where."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ecgbench.cells import Cell, Places, Plan

Event = dict[str, Any]
"""What happens in a job, as plain JSON: it comes from another process."""
Tell = Callable[[Event], None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """Cells of one model, one set of weights, one contract and one dataset."""

    plan: Plan
    """The study with these cells only."""
    dataset: str
    places: Places
    device: str = "cpu"
    doors: tuple[tuple[str, str], ...] = ()
    """(room, path) of the strangers that the command named: ("models", "./mine.py"), ("adapters", ...), ("datasets", ...)."""

    @property
    def model(self) -> str:
        """The model of all its cells."""
        return self.plan.cells[0].fit.model

    @property
    def weights(self) -> str:
        """The weights of all its cells, as asked for."""
        return self.plan.cells[0].fit.weights

    @property
    def name(self) -> str:
        """What two processes on one store agree on: who holds this name computes the job."""
        fits = self.plan.fits
        whole = [self.model, self.weights, fits[0].contract, self.dataset]
        return "|".join(whole if self.plan.training.protocol == "linear" else [*whole, *(f"{f.task} {f.policy} {f.seed}" for f in fits)])

    def of(self, cells: Sequence[Cell]) -> "Job":
        """The same job with some of its cells."""
        return replace(self, plan=replace(self.plan, cells=tuple(cells)))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, read back by `from_json`."""
        places = {k: None if v is None else str(v) for k, v in self.places.__dict__.items()}
        return {"plan": self.plan.to_json(), "dataset": self.dataset, "places": places, "device": self.device, "doors": self.doors}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Job":
        """The job that `to_json` wrote."""
        data_, prepared, out = (data["places"][k] for k in ("data", "prepared", "out"))
        places = Places(data=data_ and Path(data_), prepared=prepared and Path(prepared), out=Path(out))
        doors = tuple((room, path) for room, path in data["doors"])
        return cls(plan=Plan.from_json(data["plan"]), dataset=data["dataset"], places=places, device=data["device"], doors=doors)
