"""What a study of `ecgbench ablate` will take, before a day is lost: the rates of each network in
small, times what its cells ask for.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ecgbench.ablation.budget import SWEPT, Budget, Training, training
from ecgbench.ablation.studies import FROZEN, READINGS, Cell, Study
from ecgbench.core.cells import Folders
from ecgbench.core.provenance import command
from ecgbench.core.text import counted, duration
from ecgbench.ecg.leads import LEADS
from ecgbench.pretraining.estimate import Rates, counts, rates
from ecgbench.pretraining.network import new_network
from ecgbench.pretraining.recipe import Recipe


def lines(
    study: Study, budget: Budget, cells: Sequence[Cell], folders: Folders, device: str
) -> Iterator[str]:
    """Cells with their parameters and time, and the time of all; nothing is written. BadSetting:
    a recipe whose data no loader reads; MissingData.
    """
    recipe = budget.recipe
    here = counts(recipe, folders)
    records = sum(train for _, train in here.corpora.values())
    records = min(records, budget.records or records)
    yield f"{study.name}: {study.summary}"
    yield (
        f"{counted(len(cells), 'cell')}, {counted(len(budget.numbers), 'seed')}, "
        f"{budget.steps:,} steps of {min(recipe.stages[0].batch, records):,} of {records:,} "
        f"recordings"
    )
    sizes = {c.name: _size(c, recipe) for c in (*cells, study.cell(study.reference))}
    _, compared = sizes[study.reference]
    known: dict[tuple[str, Any, str], Rates] = {}
    done: set[str] = set()
    wide = max(len(cell.name) for cell in cells)
    total, trained = 0.0, len(list(_seeds(budget)))
    for cell in cells:
        wanted = training(study, budget, cell, seed=0, rates=budget.rates[:1] * 2)
        of = (wanted.recipe.model, wanted.recipe.shape, wanted.recipe.stages[0].shown)
        if of not in known:
            known[of] = rates(wanted.recipe, device)
        new = {one.key: one for one in _trainings(study, budget, cell) if one.key not in done}
        done |= {*new}
        seconds = sum(_seconds(one, budget, known[of], records) for one in new.values())
        probing = _probing(cell, budget, known[of], here.learn, here.check)
        seconds += trained * len(budget.measured) * probing
        total += seconds
        parameters, own = sizes[cell.name]
        yield (
            f"  {cell.name:{wide}} {parameters:10,} parameters, {own:10,} behind the embedder "
            f"({100 * (own / compared - 1):+5.1f} % of {study.reference}), {duration(seconds)}"
        )
    codebooks = max(of.codebooks for of in known.values()) * records * trained
    total += codebooks
    yield (
        f"time        about {total / 3600:.2f} h on {device}, of it codebooks at most "
        f"{duration(codebooks)}"
    )
    yield from (f"not reproduced: {name}, for {why}" for name, why in study.not_reproduced.items())
    yield f"next: {command().replace(' --dry-run', '')}"


def _size(cell: Cell, recipe: Recipe) -> tuple[int, int]:
    """Parameters, and those behind the embedder."""
    changed = recipe.changed(cell.changes)
    with torch.random.fork_rng(devices=[]):
        network = new_network(changed.model, changed.shape)
    every = sum(p.numel() for p in network.parameters())
    embedder: Any = network.embedder
    return every, every - sum(p.numel() for p in embedder.parameters())


def _seeds(budget: Budget) -> Iterator[tuple[int, float]]:
    """Seed and learning rate of every training of a cell; which rate wins is not known yet."""
    if len(budget.rates) > 1:
        yield from ((SWEPT, rate) for rate in budget.rates)
    yield from ((seed, budget.rates[0]) for seed in budget.numbers)


def _trainings(study: Study, budget: Budget, cell: Cell) -> Iterator[Training]:
    for seed, rate in _seeds(budget):
        wanted = training(study, budget, cell, seed=seed, rates=(rate, rate))
        if study.stage == 2:
            yield wanted.first
        yield wanted


def _seconds(wanted: Training, budget: Budget, of: Rates, records: int) -> float:
    stage = wanted.recipe.stages[wanted.stage - 1]
    return of.training[wanted.stage - 1] * budget.steps * stage.records(records)


def _probing(cell: Cell, budget: Budget, of: Rates, learn: int, check: int) -> float:
    """Of one probe. One that learns the vectors of the leads makes features of twelve leads anew in
    every epoch, where a step of training has half as many on average.
    """
    once = of.probe * (learn + check)
    if cell.probe == FROZEN:
        return once
    if cell.probe == READINGS:
        # each of twelve leads alone, and among eleven that are absent
        return once + of.probe * check * (1 + len(LEADS))
    shown = len(LEADS) / ((1 + len(LEADS)) / 2)
    return once + budget.epochs * (learn + check) * of.training[0] * shown
