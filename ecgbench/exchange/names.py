"""The one rule of what goes along when results are given away.

Records of published data sets keep their published names. Own recordings and their patients get
numbers in an order by chance, own data sets and their tasks general names. Predictions on data
sets that not everybody can have stay where they are.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from secrets import SystemRandom
from typing import Any

import pandas as pd

from ecgbench import datasets
from ecgbench.cards.cell import Cell
from ecgbench.cards.plan import Request
from ecgbench.results.study import Run
from ecgbench.study.scores import WINS

LEFT_OUT = (
    "left out: signals, features and weights; ages, sexes, devices and sites; folders; names of "
    "own records, patients and data sets (numbers instead); predictions on data sets that not "
    "everybody can have; why a cell has no number; perturbed recordings, controls, other heads and "
    "fewer labels (`--perturb`, `--controls`, `--train-leads`, `--labels-used`)"
)
WITHHELD = "the reason is not exported"
OWN_WEIGHTS = "own"
_WORD = re.compile(r"\w[\w-]*")
"""Weights by name; a path holds other signs."""
_ABSENT = "not among its labels"
"""What the card of an import says of 0 where nobody has edited it."""


@dataclass(frozen=True, kw_only=True)
class Names:
    """What stands in place of names."""

    datasets: Mapping[str, str]
    tasks: Mapping[str, str]
    numbers: Mapping[tuple[str, str, str], str]
    """Data set (as it was called), record or patient, its name -> its number."""

    @classmethod
    def of(cls, study: Run) -> "Names":
        """Of all that a study holds."""
        sets = {d.name: "" for d in study.datasets if not datasets.ROOM.built_in(d.name)}
        sets = {name: f"own_{at}" for at, name in enumerate(sets, 1)}
        tasks = [t.name for t in study.tasks if t.dataset in sets]
        found: set[tuple[str, str, str]] = set()
        for r in (r for r in study.results if r.dataset in sets):
            one = r.predicted()
            found |= {(r.dataset, "record", name) for name in one.records}
            found |= {(r.dataset, "patient", str(name)) for name in one.patients}
        for d in (d for d in study.datasets if d.name in sets):
            found |= {(d.name, "patient", str(name)) for name in d.patients}
        order = sorted(found)
        SystemRandom().shuffle(order)
        width = len(str(len(order)))
        return cls(
            datasets=sets,
            tasks={name: f"own_task_{at}" for at, name in enumerate(tasks, 1)},
            numbers={name: f"{at:0{width}}" for at, name in enumerate(order, 1)},
        )

    def weights(self, word: str) -> str:
        """A word of `--weights` without a path."""
        return word if _WORD.fullmatch(word) else OWN_WEIGHTS

    def cell(self, cell: Cell) -> Cell:
        """A cell under other names."""
        task, weights = self.tasks.get(cell.fit.task, cell.fit.task), self.weights(cell.fit.weights)
        fit = replace(cell.fit, task=task, weights=weights)
        return replace(cell, fit=fit, task=self.tasks.get(cell.task, cell.task))

    def request(self, request: Request) -> Request:
        """A study as typed, under other names."""
        weights = {m: self.weights(word) for m, word in request.weights_of().items()}
        pairs = ",".join(f"{model}={word}" for model, word in weights.items())
        own = tuple((self.datasets.get(name, name), n) for name, n in request.division.own)
        return replace(
            request,
            name="",
            tasks=tuple(self.tasks.get(task, task) for task in request.tasks),
            parents={
                self.tasks.get(a, a): self.tasks.get(b, b) for a, b in request.parents.items()
            },
            weights=next(iter(weights.values())) if len(set(weights.values())) == 1 else pairs,
            division=replace(request.division, own=own),
        )

    def predictions(self, table: pd.DataFrame, dataset: str) -> pd.DataFrame:
        """Predictions of a cell, and nothing that follows from them; those of own recordings in the
        order of their numbers.
        """
        table = table[[column for column in table if not str(column).startswith(WINS)]]
        if dataset not in self.datasets:
            return table
        made = {
            kind: [self.numbers[dataset, kind, str(name)] for name in table[kind]]
            for kind in ("record", "patient")
        }
        return table.assign(**made).sort_values("record", kind="stable", ignore_index=True)

    def data(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Facts of a data set."""
        old = str(facts["name"])
        made = {**facts, "quarantined": []}
        if old not in self.datasets:
            return made
        number = self.datasets[old].rpartition("_")[2]
        tasks = {
            self.tasks.get(name, name): {
                **task,
                "dataset": self.datasets[old],
                "title": f"Own task {self.tasks.get(name, name).rpartition('_')[2]}",
                "absent": task.get("absent") if task.get("absent") == _ABSENT else "",
            }
            for name, task in facts["tasks"].items()
        }
        whose = sorted(self.numbers.get((old, "patient", p), "") for p in facts["patients"])
        hidden: dict[str, Any] = {
            "cautions": [],
            "digest": "",
            "patients": [one for one in whose if one],
        }
        if "division" in facts:  # behind a colon it names recorders
            hidden["division"] = facts["division"].partition(":")[0]
        called = {"name": self.datasets[old], "title": f"Own recordings {number}", "tasks": tasks}
        return made | called | hidden

    def model(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Facts of a network; of a file of one's own nothing but that it is one."""
        source = facts.get("weights_source") or {}
        weights = self.weights(str(facts["weights"]))
        kept = source if weights == facts["weights"] else {}
        kept = {k: v for k, v in kept.items() if k not in ("file", "url")}
        return {**facts, "weights": weights, "weights_source": kept}


def may_go(dataset: str) -> bool:
    """Whether predictions on a data set go along: on own recordings, which their owner decides, and
    on those that everybody can have and change.
    """
    if not datasets.ROOM.built_in(dataset):
        return True
    card = datasets.ROOM.card(dataset)
    return card.access == "open" and "ND" not in card.licence
