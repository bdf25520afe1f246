"""A study at a budget: every training once, every probe once, whatever was interrupted.

    OUT/ablation.json          study, budget, digests of the data, cells: what the table rests on
        records.parquet        recordings that cells are compared on, patients, labels; made again
                               where it is gone
        codebooks/KEY/         codebook_50.npz ...: one set for all cells of a seed
        trainings/KEY/         a recipe as `run` keeps it; a finished one has its checkpoint only
                               where others rest on it
                  training.json   once it is finished
                  frozen.json     scores of a probe after 0, half and all steps
                  frozen_000150.npy   (record, label) probabilities
        cells.json             which training each cell has at each seed
        rates.json             scores of the learning rates that were tried, if several

A key is the hash of a recipe, and of study, budget and data, so that nothing of another study is
taken for its own. Times stand in training.json and in no table.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from ecgbench import datasets
from ecgbench.cards.plan import Folders
from ecgbench.core import files, provenance
from ecgbench.core.files import as_json, as_npy, as_parquet, proved, put, put_proved, read_proved
from ecgbench.core.keys import key
from ecgbench.errors import BadSetting
from ecgbench.evaluate.gates import GateError
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretrain import checkpoint, probes
from ecgbench.pretrain.ablation import (
    CELLS,
    RATES,
    RECORDS,
    STUDY,
    TRAINING,
    probability_file,
    probe_file,
    records_digest,
)
from ecgbench.pretrain.assemble import assemble
from ecgbench.pretrain.objective import MaskedNodes
from ecgbench.pretrain.probes import Development
from ecgbench.pretrain.recipe import Recipe
from ecgbench.pretrain.run import Data, Keeper, Session, Shared, alone, demand_segments, make
from ecgbench.pretrain.stage import Stage
from ecgbench.pretrain.stored import read_file
from ecgbench.pretrain.studies import Cell, Study
from ecgbench.profile.flop import FlopCounter, plain_kernels
from ecgbench.study.progress import Display

SWEPT = 1_000
"""Seed of the trainings that only choose a learning rate: no cell is compared at it."""
CHECKPOINT = 25
"""Steps between two checkpoints of a training: at most these are lost."""
_OF_THE_BUDGET = ("steps", "lr", "seed", "probe_every")
"""Choices of a stage that are no facts of a recipe here."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What every cell of a study is given alike. BadSetting where it is impossible."""

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

    def __post_init__(self) -> None:
        records = 1 if self.records is None else self.records
        for name, value in (
            ("--set steps=", self.steps),
            ("--set probe_epochs=", self.epochs),
            ("--seeds ", self.seeds),
            ("--set records=", records),
        ):
            if value < 1:
                raise BadSetting(f"{name}{value}: 1 or more")

    @property
    def measured(self) -> tuple[int, ...]:
        """Steps after which a network is probed: none, half and all, and those of `parts`."""
        besides = {round(part * self.steps) for part in self.parts}
        return tuple(sorted({0, self.steps // 2, self.steps} | besides))

    def facts(self) -> dict[str, Any]:
        """Everything that decides a cell at a seed, as plain JSON."""
        plain = self.recipe.facts()
        del plain["seed"]
        stages = [
            {k: v for k, v in stage.items() if k not in _OF_THE_BUDGET}
            for stage in plain.pop("stages")
        ]
        own = {"steps": self.steps, "rates": list(self.rates), "epochs": self.epochs}
        if self.parts:
            own["measured"] = list(self.measured)
        return {"recipe": plain, "stages": stages, **own, "records": self.records}


@dataclass(frozen=True, kw_only=True)
class Training:
    """One stage of one network at one seed."""

    recipe: Recipe
    """Of its own choices; its stages have their learning rates."""
    title: str
    """For people: the cell that it was made for first."""
    probes: tuple[probes.Kind, ...]
    """Those that its networks get."""

    @property
    def stage(self) -> int:
        """The one that is trained and probed, 1 or 2."""
        return len(self.recipe.stages)

    @property
    def first(self) -> "Training":
        """The stage 1 that a stage 2 rests on."""
        title = f"stage 1 {self.title[self.title.index('seed') :]}"
        recipe = replace(self.recipe, stages=self.recipe.stages[:1])
        return Training(recipe=recipe, title=title, probes=())

    @property
    def described(self) -> str:
        """Names what its codebooks are fitted on: signals at a seed, or nodes of a stage 1."""
        if self.stage == 1:
            return f"{self.recipe.descriptor} {self.recipe.seed}"
        return f"{self.first.recipe.digest} {self.recipe.block}"


def training(
    study: Study, budget: Budget, cell: Cell, *, seed: int, rates: Sequence[float]
) -> Training:
    """What a cell needs at a seed; rates: of both stages."""
    changes = {
        **cell.changes,
        "seed": seed,
        "steps": (budget.steps, budget.steps),
        "checkpoint_every": CHECKPOINT,
        "elbow": ((), ()),
        "probe_every": math.gcd(*budget.measured[1:-1]) or budget.steps,
    }
    recipe = budget.recipe.changed(changes)
    stages = [replace(stage, lr=lr) for stage, lr in zip(recipe.stages, rates)]
    return Training(
        recipe=replace(recipe, stages=tuple(stages[: study.stage])),
        title=f"{cell.name} seed {seed} lr {rates[study.stage - 1]:g}",
        # of cells that differ in the probe alone the training is one
        probes=tuple(sorted({c.probe for c in study.cells if c.changes == cell.changes})),
    )


def trainings(study: Study, budget: Budget, cell: Cell) -> dict[str, Training]:
    """All trainings of a cell by the digests of their recipes, those that it shares with other
    cells too. Of several learning rates the first stands for the one that will be chosen.
    """
    rate, *more = budget.rates
    points = [(seed, rate, rate) for seed in range(budget.seeds)]
    if more and study.stage == 1:
        points += [(SWEPT, other, other) for other in budget.rates]
    elif more:
        points += [(SWEPT, rate, other) for other in budget.rates]
    made = [training(study, budget, cell, seed=seed, rates=rates) for seed, *rates in points]
    if study.stage == 2:
        made += [wanted.first for wanted in made]
        swept = budget.rates if more else ()
        firsts = (training(study, budget, cell, seed=SWEPT, rates=(r, r)).first for r in swept)
        made += [replace(first, probes=("frozen",)) for first in firsts]
    return {wanted.recipe.digest: wanted for wanted in made}


def assembled(budget: Budget, folders: Folders, progress: Display) -> tuple[Data, Sequence[str]]:
    """The corpora and the development task, and its labels; raises what `assemble` does."""
    data = assemble(budget.recipe, folders, progress, records=budget.records)
    return data, datasets.tasks()[budget.recipe.task][2].labels


def run(
    study: Study,
    budget: Budget,
    found: tuple[Data, Sequence[str]],
    session: Session,
    only: Sequence[Cell] = (),
) -> None:
    """All that is missing of a study in `session.out`, or of some of its cells. found: as
    `assembled`.

    The same study, budget and data give the same scores, however often it was interrupted, on one
    machine with one number of threads. BadSetting: the folder is of another study, budget or data,
    or another process works in it. BadWeights: a damaged file. WriteError.
    """
    demand_segments(max(map(max, _sizes(study, budget))), found[0].corpus)
    with alone(session.out):
        _Making(study, budget, *found, session)(only or study.cells)


def _sizes(study: Study, budget: Budget) -> tuple[Sequence[int], ...]:
    """Of the codebooks of each stage, those of all cells."""
    own = budget.recipe
    every = study.sizes("codes", own.codes), study.sizes("refined", own.refined)
    return every[: study.stage]


class _Making:
    """One study on one corpus."""

    def __init__(
        self, study: Study, budget: Budget, data: Data, labels: Sequence[str], session: Session
    ) -> None:
        self.study, self.budget, self.session = study, budget, session
        self.data, self.labels, self.out = data, labels, session.out

    def __call__(self, cells: Sequence[Cell]) -> None:
        self.work = self._claim()
        rates = dict[str, tuple[float, float]]()
        total, failed = self.budget.seeds * len(cells), list[GateError]()

        def fails(what: str, error: GateError) -> None:  # the other cells are as they would be
            self.session.progress.note(f"{what}: {error}")
            failed.append(error)

        for cell in cells:
            try:
                rates[cell.name] = self._rates(cell)
            except GateError as error:
                fails(cell.name, error)
        with self.session.progress.stage(self.study.name, total, "cells") as advance:
            for seed in range(self.budget.seeds):
                for cell in cells:
                    if cell.name not in rates:
                        continue
                    own = rates[cell.name]
                    wanted = training(self.study, self.budget, cell, seed=seed, rates=own)
                    try:
                        kept = self._made(wanted)
                    except GateError as error:
                        fails(wanted.title, error)
                        continue
                    lr = own[self.study.stage - 1]
                    line = {"training": kept.training, "probe": cell.probe, "lr": lr}
                    self._enter(CELLS, cell.name, {str(seed): line})
                    advance(1)
        if failed:
            raise failed[0]

    def _enter(self, name: str, cell: str, row: dict[str, Any]) -> None:
        """Add to what a file of the study says of a cell."""
        listed = read_proved(self.out / name) or {}
        if (more := {**listed.get(cell, {}), **row}) != listed.get(cell):
            put_proved(self.out / name, {**listed, cell: more})

    def _claim(self) -> str:
        """Write down whose folder it is; the hash of what all trainings and probes rest on beside
        their own choices, not which cells and seeds. BadSetting where it is of something else.
        """
        path, study, data = self.out / STUDY, self.study, self.data
        identity = {
            "study": study.name,
            "budget": self.budget.facts(),
            "datasets": data.prepared,
            "corpus": data.corpus.digest,
            "left_out": data.left_out,
            "trained_on": len(data.corpus),
            "learn": key({"records": data.development.learn.records}),
        }
        about = {
            "title": study.title,
            "published": study.published,
            "stage": study.stage,
            "reference": study.reference,
            "cells": [cell.name for cell in study.cells],
            "not_reproduced": dict(study.not_reproduced),
            "task": data.development.task,
            "probe_records": len(data.development.learn.records),
        }
        files.sweep(self.out)
        before: dict[str, Any] = {}
        if path.is_file():
            kept = read_file(path)
            if other := sorted(k for k in identity if kept.get(k) != identity[k]):
                raise BadSetting(
                    f"{path} is of another study: it differs in {', '.join(other)}; choose "
                    f"another --out"
                )
            before = kept["about"]
        compared = self._compared_on()
        now = {"compared": compared, "seeds": max(self.budget.seeds, before.get("seeds", 0))}
        facts = {**identity, "about": {**(before or about), **now}}
        if before | now != before:
            put(path, as_json(proved(facts)))
        return key({**identity, "compared": compared})

    def _compared_on(self) -> str:
        """Write down the recordings that cells are compared on, where they are not there; their
        digest.
        """
        check, path = self.data.development.check, self.out / RECORDS
        table = pd.DataFrame({"record": check.records, "patient": check.patients})
        for at, label in enumerate(self.labels):
            table[label] = check.target[:, at]
        content = as_parquet(table)
        if files.sha256_of(path) != hashlib.sha256(content).hexdigest():
            put(path, content)
        return records_digest(table)

    def _rates(self, cell: Cell) -> tuple[float, float]:
        """Learning rates of both stages: of several, that with the best probe at a seed of its own,
        stage by stage; of equals the first.
        """
        first, *more = self.budget.rates
        if not more:
            return first, first

        def at(one: float, two: float) -> Training:
            return training(self.study, self.budget, cell, seed=SWEPT, rates=(one, two))

        if self.study.stage == 1:
            best = self._best(cell.name, lambda rate: at(rate, rate), cell.probe)
            return best, best
        shared = self._best(
            "stage 1", lambda rate: replace(at(rate, rate).first, probes=("frozen",)), "frozen"
        )
        return shared, self._best(cell.name, lambda rate: at(shared, rate), cell.probe)

    def _best(self, name: str, of: Callable[[float], Training], kind: probes.Kind) -> float:
        """The rate with the best score, of those at which training does not fail; their scores are
        kept in RATES.
        """
        last, scores = str(self.budget.steps), dict[float, float]()
        failed: GateError | None = None
        for rate in self.budget.rates:
            try:
                scores[rate] = self._made(of(rate)).found(kind)["scores"][last]
            except GateError as error:
                self.session.progress.note(f"{name} lr {rate:g}: {error}")
                failed = error
        if failed and not scores:
            raise failed
        self._enter(RATES, name, {f"{rate:g}": score for rate, score in scores.items()})
        return max(scores, key=lambda rate: scores[rate])

    def _kept(self, wanted: Training) -> "_Probes":
        name = key({"recipe": wanted.recipe.digest, "work": self.work})
        folder, task = self.out / "trainings" / name[:24], self.data.development
        return _Probes(folder, name, wanted.probes, self.budget, task)

    def _made(self, wanted: Training) -> "_Probes":
        """What is kept of a training, which is trained and probed where that is missing."""
        kept, rested_on = self._kept(wanted), wanted.stage < self.study.stage
        path = kept.folder / f"stage{wanted.stage}" / checkpoint.FILE
        if not kept.finished or (rested_on and not path.is_file()):
            if not kept.sound(path):
                files.quarantine(kept.folder)
            self._train(wanted, kept)
        if not rested_on:  # of megabytes
            path.unlink(missing_ok=True)
        return kept

    def _train(self, wanted: Training, kept: "_Probes") -> None:
        """What is missing of a training."""
        if wanted.stage == 2:
            self._made(wanted.first)

        def keep(number: int, folder: Path, model: MaskedNodes) -> Keeper:
            if number < wanted.stage:
                return replace(kept, kinds=())
            if not (folder / checkpoint.FILE).is_file():
                kept(0, model)
            return kept

        # a cell that collapses is a result
        session = replace(self.session, out=kept.folder, alarm=False)
        shared = Shared(
            title=wanted.title,
            first=self._kept(wanted.first).folder,
            books=self.out / "codebooks",
            sizes=_sizes(self.study, self.budget),
        )
        last = make(wanted.recipe, self.data, session, keep, shared)[-1]
        if kept.finished:
            return
        finished = {
            "training": kept.training,
            "title": wanted.title,
            **_size(last.encoder, self.data.corpus.samples),
            "loss": last.points[-1].loss,
            "accuracy": last.points[-1].accuracy,
            "seconds": last.seconds,
            "device": last.devices,
            "made_with": provenance.here(),
        }
        put_proved(kept.folder / TRAINING, finished)
        for kind in wanted.probes:
            scores = kept.found(kind)["scores"]
            before, after = scores["0"], scores[str(self.budget.steps)]
            self.session.progress.note(
                f"{wanted.title}, {kind} probe: {before:.4f} before, {after:.4f} after"
            )


@dataclass(frozen=True)
class _Probes:
    """The probes of a training, in its folder; the `Keeper` of its last stage."""

    folder: Path
    training: str
    """Its key."""
    kinds: tuple[probes.Kind, ...]
    budget: Budget
    development: Development

    def __call__(self, step: int, model: MaskedNodes) -> None:
        """Probe a network, after the steps that are measured."""
        for kind in self.kinds if step in self.budget.measured else ():
            found = self.found(kind)
            result = probes.measured(kind, model.encoder, self.development, self.budget.epochs)
            content = as_npy(result.probability)
            put(self.folder / probability_file(kind, step), content)
            found["scores"][str(step)] = result.score
            found["probabilities"][str(step)] = hashlib.sha256(content).hexdigest()
            put_proved(self.folder / probe_file(kind), found)

    def end(self, _stage: Stage, model: MaskedNodes) -> tuple[NodeEncoder, Tensor]:
        """The network of the last step, and its mask vector."""
        return model.encoder, model.mask

    def found(self, kind: probes.Kind) -> dict[str, Any]:
        """What a probe has found so far."""
        usual = {"training": self.training, "probe": kind, "scores": {}, "probabilities": {}}
        return read_proved(self.folder / probe_file(kind)) or usual

    @property
    def finished(self) -> bool:
        """Whether it is, and all that it wrote is as it was written."""
        trained = read_proved(self.folder / TRAINING) or {}
        return trained.get("training") == self.training and self._whole(self.budget.measured)

    def sound(self, path: Path) -> bool:
        """Whether it can go on from a checkpoint, or begin: what is there is of this training, and
        probes until then are as they were written.
        """
        done = checkpoint.header_of(path.read_bytes(), path)["step"] if path.is_file() else -1
        return self._whole([step for step in self.budget.measured if step <= done])

    def _whole(self, steps: Iterable[int]) -> bool:
        """Whether all that probes wrote after these steps is there, as it was written."""
        found = {kind: self.found(kind) for kind in self.kinds}
        return all(
            of["training"] == self.training
            and all(
                files.sha256_of(self.folder / probability_file(kind, step))
                == of["probabilities"].get(str(step), "none")
                for step in steps
            )
            for kind, of in found.items()
        )


@torch.no_grad()
def _size(network: NodeEncoder, samples: int) -> dict[str, Any]:
    """Parameters, those behind the embedder, and FLOP of one window of twelve leads."""
    embedder: Any = getattr(network, "embedder", None)
    every, own = (
        sum(p.numel() for p in module.parameters()) if module is not None else 0
        for module in (network, embedder)
    )
    device = probes.device_of(network)
    window, measured = torch.zeros(12, samples), torch.ones(1, 12, dtype=torch.bool)
    with plain_kernels(), FlopCounter() as counter:
        tokens = network.eval().embed_leads(window.to(device))
        network.outputs(tokens, measured.to(device), (network.depth,))
    return {"parameters": every, "encoder_parameters": every - own, "flop": counter.total}
