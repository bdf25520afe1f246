"""What a pre-training or an ablation will take and what it needs that is not here, before a day is
lost.

Its rates are those of the same recipe in small: a few steps of each stage on noise, in a temporary
folder, on the device that will compute.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench import datasets, models
from ecgbench.cards.plan import Folders
from ecgbench.core.provenance import command
from ecgbench.core.text import counted, duration, size
from ecgbench.data.counts import count
from ecgbench.data.disk import free_bytes
from ecgbench.data.source import where
from ecgbench.ecg import preprocess
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting
from ecgbench.evaluate.device import demand
from ecgbench.pretrain import curve
from ecgbench.pretrain.ablate import Budget, Training, trainings
from ecgbench.pretrain.assemble import missing_data
from ecgbench.pretrain.corpus import TYPE, Corpus
from ecgbench.pretrain.exclusion import LeakCheck, Name
from ecgbench.pretrain.objective import new_network
from ecgbench.pretrain.probes import Development, Half, Kind
from ecgbench.pretrain.recipe import Recipe
from ecgbench.pretrain.run import ENCODER, Data, Session, run
from ecgbench.pretrain.studies import Cell, Study
from ecgbench.profile.clock import ready
from ecgbench.study.estimate import noise_of, seconds_of
from ecgbench.study.progress import SILENT

STEPS, SMALL = 2, 8
"""Steps of a stage in small, and its recordings on a CPU: one batch, of at least as many segments
as a codebook has codes. On a GPU they are the recipe's batch, without which it would idle.
"""
SECONDS = 10
"""Length of a recording, as the paper's corpora mostly have."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What a recipe in small took, in seconds, and its network's bytes."""

    codebooks: tuple[float, ...]
    """Of a recording in each stage: description and clustering."""
    training: tuple[float, ...]
    """Of a recording in a step of each stage."""
    probe: float
    """Of a window in a probe."""
    network: int


def rates(recipe: Recipe, device: str) -> Rates:
    """BadSetting where the recipe's model cannot be pre-trained."""
    records = SMALL if device == "cpu" else recipe.stages[0].batch
    short: dict[str, Any] = {"steps": STEPS, "warmup": 0, "probe_every": STEPS, "batch": records}
    stages = tuple(replace(stage, **short) for stage in recipe.stages)
    small = replace(recipe, stages=stages, elbow=((), ()))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        session = Session(
            out=out,
            device=device,
            name=device,
            progress=SILENT,
            listener=lambda stage: lambda report: None,
            alarm=False,  # noise teaches nothing
        )
        found = run(small, _noise(recipe, records), session)
        steps = [pd.read_csv(path)["seconds"].min() for path in sorted(out.glob(f"*/{curve.FILE}"))]
        network = (out / ENCODER).stat().st_size
    probes = [c["seconds"] for stage in found["stages"].values() for c in stage["checkpoints"]]
    described = [p["seconds"] for p in found["phases"] if p["phase"].endswith("extraction")]
    return Rates(
        # clustering took about as long as describing (models/laef/pretraining.json)
        codebooks=tuple(2 * seconds / records for seconds in described),
        training=tuple(seconds / records for seconds in steps),
        probe=min(probes) / (2 * records + min(records, recipe.windows)),
        network=network,
    )


def _noise(recipe: Recipe, records: int) -> Data:
    contract = models.ROOM.card(recipe.model).contracts[0]
    noise = np.clip(noise_of(contract.samples), -1, 1)
    names = [str(i) for i in range(records)]
    corpus = Corpus(
        LeakCheck({"noise": names}, {}),
        dict.fromkeys((Name("noise", n) for n in names), contract.samples),
        lambda name: np.roll(noise, int(name.record), axis=1),
        contract,
    )
    half = Half(
        records=names,
        patients=names,
        signal=np.stack([noise] * records),
        target=np.eye(2, dtype=np.int8)[np.arange(records) % 2],
    )
    development = Development(task="noise", learn=half, check=half)
    return Data(corpus=corpus, development=development, prepared={}, left_out={})


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Recordings that a recipe uses."""

    corpora: Mapping[str, tuple[str, int]]
    """How it is known, recordings to train on."""
    learn: int
    """Those of the development task that a probe learns from."""
    check: int
    """Those that it is scored on."""

    @property
    def records(self) -> int:
        """Recordings to train on, of all corpora."""
        return sum(train for _, train in self.corpora.values())


def counts(recipe: Recipe, folders: Folders) -> Counts:
    """From what is prepared, or published. UnknownName: the development task."""
    dataset = datasets.tasks()[recipe.task][0]
    names = dict.fromkeys([*recipe.datasets, dataset])
    found = {n: count(n, folders.data, folders.prepared, None) for n in names}
    train = {n: split["train"] for n, (_, split) in found.items()}
    check = train[dataset] // recipe.apart if recipe.apart else found[dataset][1]["val"]
    train[dataset] -= check if recipe.apart else 0
    return Counts(
        corpora={n: (found[n][0], train[n]) for n in recipe.datasets},
        learn=min(recipe.probe_records or train[dataset], train[dataset]),
        check=check,
    )


def lines(recipe: Recipe, folders: Folders, device: str) -> Iterator[str]:
    """Recordings, time and disk of a pre-training into `folders.out`, and all that is missing for
    it. Nothing stays on disk.
    """
    missing = missing_data(recipe, folders)
    try:
        demand(device)
        ready(device)
    except BadSetting as error:
        missing.append(str(error))
        device = "cpu"
    here = counts(recipe, folders)
    each = (f"{n} {train:,} ({source})" for n, (source, train) in here.corpora.items())
    yield f"recordings  {here.records:,} to train on; of them {', '.join(each)}"
    yield f"passes      {recipe.passes(here.records)}"
    seconds, needed = _cost(recipe, folders, here, device)
    spent = ", ".join(f"{what} {duration(s)}" for what, s in seconds.items())
    yield f"time        about {duration(sum(seconds.values()))} on {device}: {spent}"
    yield "disk        " + ", ".join(f"{size(n)} in {path}" for path, n in needed.items())
    for path, n in needed.items():
        if n > (free := free_bytes(path)):
            missing.append(f"disk: {path} has {size(free)} free and needs {size(n)}")
    yield f"{counted(len(missing), 'thing')} missing:" if missing else "nothing is missing"
    yield from (f"  {text}" for text in missing)
    yield f"next: {command().replace(' --dry-run', '')}"


def _cost(
    recipe: Recipe, folders: Folders, here: Counts, device: str
) -> tuple[dict[str, float], dict[Path, int]]:
    """Seconds by what is done, bytes by folder."""
    of, contract = rates(recipe, device), models.ROOM.card(recipe.model).contracts[0]
    records, windows = here.records, here.learn + here.check + min(recipe.windows, here.learn)
    probes = sum(-(-stage.steps // stage.probe_every) for stage in recipe.stages)
    unread = records - sum(train for source, train in here.corpora.values() if source == "prepared")
    card = datasets.get(next(iter(here.corpora))).CARD
    noise = noise_of(round(SECONDS * card.fs))
    filtering = partial(preprocess.view, noise, card.fs, contract.preparation)
    filtering()  # the first one takes longer
    filtered = seconds_of(filtering)
    steps = [stage.steps * stage.records(records) for stage in recipe.stages]
    seconds = {
        "filtering": records * filtered,
        "codebooks": records * sum(of.codebooks),
        "training": sum(rate * count for rate, count in zip(of.training, steps)),
        "probes": probes * windows * of.probe,
    }
    packed = TYPE.itemsize * records * contract.fs
    prepared = round(len(LEADS) * SECONDS * (2 * unread * card.fs + packed))
    # a checkpoint holds the network and the two averages of Adam
    kept = of.network * (probes + 2 * 3 + 1)
    return seconds, {folders.out: kept, where(folders.prepared, folders.data): prepared}


def study_lines(
    study: Study, budget: Budget, cells: Sequence[Cell], folders: Folders, device: str
) -> Iterator[str]:
    """Cells of an ablation with their parameters and time, and the time of all; nothing is written.
    BadSetting: a recipe whose data no loader reads; MissingData.
    """
    recipe, seeds = budget.recipe, len(budget.numbers)
    here = counts(recipe, folders)
    records = min(here.records, budget.records or here.records)
    here = replace(here, check=min(here.check, budget.records or here.check))
    batch = min(recipe.stages[0].batch, records)
    yield f"{study.name}: {study.summary}"
    yield (
        f"{counted(len(cells), 'cell')}, {counted(seeds, 'seed')}, {budget.steps:,} steps of "
        f"{batch:,} of {records:,} recordings"
    )
    sizes = {c.name: _parameters(c, recipe) for c in (*cells, study.cell(study.reference))}
    compared, wide = sizes[study.reference][1], max(len(cell.name) for cell in cells)
    known: dict[Any, Rates] = {}

    def rates_of(recipe: Recipe) -> Rates:
        network = (recipe.model, recipe.shape, recipe.stages[0].shown, len(recipe.stages))
        if network not in known:
            known[network] = rates(recipe, device)
        return known[network]

    def cost(wanted: Training) -> float:
        of = rates_of(wanted.recipe)
        probed = sum(_probing(kind, budget, of, here) for kind in wanted.probes)
        trained = budget.steps * batch * of.training[wanted.stage - 1]
        return trained + len(budget.measured) * probed

    made: dict[str, Training] = {}
    for cell in cells:
        every = trainings(study, budget, cell)
        own = [t for k, t in every.items() if t.stage == study.stage and k not in made]
        made |= every
        parameters, behind = sizes[cell.name]
        yield (
            f"  {cell.name:{wide}} {parameters:10,} parameters, {behind:10,} behind the embedder "
            f"({100 * (behind / compared - 1):+5.1f} % of {study.reference}), "
            + (duration(sum(map(cost, own))) if own else "trained with a cell above")
        )
    described = {t.described: rates_of(t.recipe).codebooks[t.stage - 1] for t in made.values()}
    codebooks = records * sum(described.values())
    hours = (sum(map(cost, made.values())) + codebooks) / 3600
    yield f"time        about {hours:.2f} h on {device}, of it codebooks {duration(codebooks)}"
    yield from (f"not reproduced: {name}, for {why}" for name, why in study.not_reproduced.items())
    yield f"next: {command().replace(' --dry-run', '')}"


def _parameters(cell: Cell, recipe: Recipe) -> tuple[int, int]:
    """Parameters, and those behind the embedder."""
    changed = recipe.changed(cell.changes)
    network: Any = new_network(changed.model, changed.shape)
    every, own = (sum(p.numel() for p in m.parameters()) for m in (network, network.embedder))
    return every, every - own


def _probing(kind: Kind, budget: Budget, of: Rates, here: Counts) -> float:
    """Seconds of one probe. One that learns the vectors of the leads makes features of twelve leads
    anew in every epoch, where a step of training has half as many on average.
    """
    once = of.probe * (here.learn + here.check)
    if kind == "readings":
        # each of twelve leads alone, and among eleven that are absent
        return once + of.probe * here.check * (1 + len(LEADS))
    if kind == "lead":
        shown = len(LEADS) / ((1 + len(LEADS)) / 2)
        return once + budget.epochs * (here.learn + here.check) * of.training[0] * shown
    return once
