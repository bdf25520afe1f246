"""What every cell of a study is given alike, and the trainings that follow from it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ecgbench.ablation.studies import Cell, Study
from ecgbench.core.cells import key
from ecgbench.errors import BadSetting
from ecgbench.pretraining.recipe import Recipe

SWEPT = 1_000
"""Seed of the trainings that only choose a learning rate: no cell is compared at it."""
CHECKPOINT = 25
"""Steps between two checkpoints of a training: at most these are lost."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The same for all cells. BadSetting where it is impossible."""

    recipe: Recipe
    """Corpora, development task, descriptor and precision; batch and probe records."""
    steps: int
    """Of each stage."""
    rates: tuple[float, ...]
    """Learning rates; of several each cell takes the one with the best probe at the seed SWEPT."""
    seeds: int
    records: int | None
    """Recordings to train on at most; None: all."""
    epochs: int
    """Of a probe."""
    parts: tuple[Fraction, ...] = ()
    """Of the steps, after which networks are probed besides."""
    only: tuple[int, ...] = ()
    """Seeds that are trained now; none: all."""

    def __post_init__(self) -> None:
        least = {"--set steps=": self.steps, "--set probe_epochs=": self.epochs}
        least |= {
            "--seeds ": self.seeds,
            "--set records=": 1 if self.records is None else self.records,
        }
        for name, value in least.items():
            if value < 1:
                raise BadSetting(f"{name}{value}: 1 or more")
        if self.seeds > SWEPT:
            raise BadSetting(f"--seeds {self.seeds}: at most {SWEPT}")
        if beyond := [seed for seed in self.only if not 0 <= seed < self.seeds]:
            last = self.seeds - 1
            raise BadSetting(
                f"--set only_seeds={beyond[0]}: --seeds {self.seeds} are 0 to {last}; raise --seeds"
            )
        if len({*self.rates}) < len(self.rates):
            raise BadSetting(f"--set lr={', '.join(map(str, self.rates))}: a rate is there twice")

    @property
    def numbers(self) -> tuple[int, ...]:
        """The seeds that are trained now."""
        return tuple(sorted({*self.only})) or tuple(range(self.seeds))

    @property
    def half(self) -> int:
        """Steps of half the budget; 0 where there is no half."""
        return self.steps // 2

    @property
    def measured(self) -> tuple[int, ...]:
        """Steps after which a network is probed."""
        besides = {round(part * self.steps) for part in self.parts}
        return tuple(sorted({0, self.half, self.steps} | besides))

    def facts(self) -> dict[str, Any]:
        """Everything that decides a cell at a seed, as plain JSON."""
        plain = self.recipe.facts()
        del plain["seed"]
        stages = [{k: v for k, v in s.items() if k not in _OURS} for s in plain.pop("stages")]
        own = {"steps": self.steps, "rates": list(self.rates), "epochs": self.epochs}
        if self.parts:
            own["measured"] = list(self.measured)
        return {"recipe": plain, "stages": stages, **own, "records": self.records}


_OURS = ("steps", "lr", "seed", "probe_every")


@dataclass(frozen=True, kw_only=True)
class Training:
    """One stage of one network at one seed."""

    recipe: Recipe
    """Of its own choices; its stages have their learning rates."""
    stage: int
    """1 or 2."""
    title: str
    """For people: the cell that asked for it first."""

    @property
    def first(self) -> "Training":
        """The stage 1 that a stage 2 rests on."""
        return replace(self, stage=1, title=_shared(self.title))

    @property
    def key(self) -> str:
        """sha256 (hex) of what decides it; of stage 1, not what only stage 2 uses."""
        facts = self.recipe.facts()
        if self.stage == 1:
            facts = {k: v for k, v in facts.items() if k not in ("refined", "block", "init")}
            facts["stages"] = facts["stages"][:1]
        return key({"stage": self.stage, **facts})


def _shared(title: str) -> str:
    return f"stage 1 {title[title.index('seed') :]}"


def training(
    study: Study, budget: Budget, cell: Cell, *, seed: int, rates: Sequence[float]
) -> Training:
    """What a cell needs at a seed; rates: of both stages."""
    changes = {
        **cell.changes,
        "seed": seed,
        "steps": (budget.steps, budget.steps),
        "checkpoint_every": CHECKPOINT,
        "probe_every": math.gcd(*budget.measured[1:-1]) or budget.steps,
    }
    recipe = budget.recipe.changed(changes)
    stages = [replace(stage, lr=lr) for stage, lr in zip(recipe.stages, rates)]
    return Training(
        recipe=replace(recipe, stages=(stages[0], stages[1])),
        stage=study.stage,
        title=f"{cell.name} seed {seed} lr {rates[study.stage - 1]:g}",
    )
