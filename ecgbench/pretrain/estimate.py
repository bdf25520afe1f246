"""What a pre-training or an ablation will take and what it needs that is not here, before a day is
lost.

Its times rest on one step of the recipe's network on noise, and one pass of it, on the device that
will compute.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from ecgbench import datasets, models
from ecgbench.cards.plan import Folders
from ecgbench.core.provenance import command
from ecgbench.core.text import counted, duration, size
from ecgbench.data.counts import count
from ecgbench.data.disk import bytes_of, lacking
from ecgbench.data.source import where
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting
from ecgbench.evaluate.device import demand
from ecgbench.pretrain import masking
from ecgbench.pretrain.ablate import Budget, trainings
from ecgbench.pretrain.assemble import missing_data
from ecgbench.pretrain.corpus import TYPE
from ecgbench.pretrain.objective import MaskedNodes, new_network, node_features
from ecgbench.pretrain.recipe import Recipe
from ecgbench.pretrain.studies import Cell, Study
from ecgbench.profile.clock import ready
from ecgbench.study.estimate import noise_of, seconds_of


class Rates(NamedTuple):
    """Seconds of a recording, and bytes of the network."""

    training: float
    """In a step."""
    probe: float
    """In a pass of twelve leads."""
    network: int


def rates(recipe: Recipe, device: str) -> Rates:
    """BadSetting where the recipe's model cannot be pre-trained."""
    stage, samples = recipe.stages[0], models.ROOM.card(recipe.model).contracts[0].samples
    records = 8 if device == "cpu" else stage.batch  # fewer than that leave a GPU idle
    model = MaskedNodes(new_network(recipe.model, recipe.shape), recipe.codes).to(device)
    signal = torch.from_numpy(np.stack([noise_of(samples)] * records)).to(device)
    drawn = masking.draw(0, 0, range(records), stage.ratio, every=stage.shown == "all")
    hidden = [torch.from_numpy(x).to(device) for x in (drawn.measured, drawn.masked)]
    codes = torch.zeros(len(recipe.codes), *hidden[1].shape, dtype=torch.int64, device=device)

    def step() -> float:
        half = stage.precision == "bf16"
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=half):
            loss = model(signal, *hidden, codes).loss
        loss.backward()
        return sum(float(p.grad.sum()) for p in model.parameters() if p.grad is not None)

    def read() -> float:
        return float(node_features(model.encoder, signal, (model.encoder.depth,))[0].sum())

    network = sum(tensor.nbytes for tensor in model.state_dict().values())
    return Rates(seconds_of(step) / records, seconds_of(read) / records, network)


class Counts(NamedTuple):
    """Recordings that a recipe uses."""

    corpora: dict[str, tuple[str, int]]
    """How it is known, recordings to train on."""
    records: int
    """Those of all corpora."""
    probe: int
    """Those of the development task."""


def counts(recipe: Recipe, folders: Folders) -> Counts:
    """From what is prepared, or published. UnknownName: the development task."""
    dataset = datasets.tasks()[recipe.task][0]
    names = dict.fromkeys([*recipe.datasets, dataset])
    found = {n: count(n, folders.data, folders.prepared, None) for n in names}
    train = {n: split["train"] for n, (_, split) in found.items()}
    check = train[dataset] // recipe.apart if recipe.apart else found[dataset][1]["val"]
    train[dataset] -= check if recipe.apart else 0
    corpora = {n: (found[n][0], train[n]) for n in recipe.datasets}
    learn = min(recipe.probe_records or train[dataset], train[dataset])
    return Counts(corpora, sum(n for _, n in corpora.values()), learn + check)


def lines(recipe: Recipe, folders: Folders, device: str) -> Iterator[str]:
    """Recordings, time and disk of a pre-training into `folders.out`, and all that is missing for
    it. Nothing is written.
    """
    missing = missing_data(recipe, folders)
    try:
        demand(device)
        ready(device)
    except BadSetting as error:
        missing.append(str(error))
        device = "cpu"
    here, of = counts(recipe, folders), rates(recipe, device)
    each = (f"{n} {train:,} ({source})" for n, (source, train) in here.corpora.items())
    yield f"recordings  {here.records:,} to train on; of them {', '.join(each)}"
    yield f"passes      {recipe.passes(here.records)}"
    probes = sum(-(-stage.steps // stage.probe_every) for stage in recipe.stages)
    steps = [stage.steps * stage.records(here.records) for stage in recipe.stages]
    # the codes of a stage 2 are of a pass of the network
    read = 2 * len(steps) * here.records + sum(steps[1:]) + 2 * probes * here.probe
    seconds = sum(steps) * of.training + read * of.probe
    prepared, fs = 0, models.ROOM.card(recipe.model).contracts[0].fs
    for name, (source, train) in here.corpora.items():
        card = datasets.get(name).CARD
        prepared += train * TYPE.itemsize * len(LEADS) * round(card.seconds * fs)
        prepared += bytes_of(card, train) if source != "prepared" else 0
    # a checkpoint holds the network and the two averages of Adam
    needed = {folders.out: of.network * (probes + 2 * 3 + 1)}
    needed[where(folders.prepared, folders.data)] = prepared
    yield f"time        about {duration(seconds)} on {device}, by one step and one pass on noise"
    yield "disk        " + ", ".join(f"{size(n)} in {path}" for path, n in needed.items())
    missing += lacking(needed)
    yield f"{counted(len(missing), 'thing')} missing:" if missing else "nothing is missing"
    yield from (f"  {text}" for text in missing)
    yield f"next: {command().replace(' --dry-run', '')}"


def study_lines(
    study: Study, budget: Budget, cells: Sequence[Cell], folders: Folders, device: str
) -> Iterator[str]:
    """Cells of an ablation, and the time of all; nothing is written. BadSetting: a recipe whose
    data no loader reads; MissingData.
    """
    here = counts(budget.recipe, folders)
    records = min(here.records, budget.records or here.records)
    batch = budget.recipe.stages[0].records(records)
    yield f"{study.name}: {study.summary}"
    yield (
        f"{counted(len(cells), 'cell')}, {counted(budget.seeds, 'seed')}, "
        f"{budget.steps:,} steps of {batch:,} of {records:,} recordings"
    )
    # one kind makes features anew in every epoch, another reads single leads of some besides
    passes = {"frozen": 1, "lead": 2 * budget.epochs, "readings": 3}
    probed, known, seconds = here.probe * len(budget.measured), dict[object, Rates](), 0.0
    for cell in cells:
        yield f"  {cell.name}"
    # cells share trainings
    made = {key: t for cell in cells for key, t in trainings(study, budget, cell).items()}
    for wanted in made.values():
        network = wanted.recipe.model, wanted.recipe.shape, wanted.recipe.stages[0].shown
        of = known[network] = known.get(network) or rates(wanted.recipe, device)
        read = records + probed * sum(passes[kind] for kind in wanted.probes)
        seconds += budget.steps * batch * of.training + read * of.probe
    yield f"time        about {seconds / 3600:.2f} h on {device}, by one step and one pass on noise"
    yield from (f"not reproduced: {name}, for {why}" for name, why in study.not_reproduced.items())
    yield f"next: {command().replace(' --dry-run', '')}"
