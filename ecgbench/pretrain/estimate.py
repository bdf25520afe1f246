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
from ecgbench.cards.model import InputContract
from ecgbench.cards.plan import Folders
from ecgbench.core.provenance import command
from ecgbench.core.text import counted, duration, size
from ecgbench.data.counts import count
from ecgbench.data.disk import bytes_of, lacking
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
    noise = _noise(models.ROOM.card(recipe.model).contracts[0], records)
    with tempfile.TemporaryDirectory() as folder:
        out, unheard = Path(folder), lambda stage: lambda report: None
        session = Session(
            out=out,
            device=device,
            name=device,
            progress=SILENT,
            listener=unheard,
            alarm=False,  # noise teaches nothing
        )
        found = run(small, noise, session)
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


def _noise(contract: InputContract, records: int) -> Data:
    """As many recordings of noise, to train on and for a probe."""
    noise, names = np.clip(noise_of(contract.samples), -1, 1), [str(i) for i in range(records)]
    corpus = Corpus(
        LeakCheck({"noise": names}, {}),
        dict.fromkeys((Name("noise", n) for n in names), contract.samples),
        lambda name: np.roll(noise, int(name.record), axis=1),
        contract,
    )
    target = np.eye(2, dtype=np.int8)[np.arange(records) % 2]
    signal = np.stack([noise] * records)
    half = Half(records=names, patients=names, signal=signal, target=target)
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
    here, stages = counts(recipe, folders), recipe.stages
    each = (f"{n} {train:,} ({source})" for n, (source, train) in here.corpora.items())
    yield f"recordings  {here.records:,} to train on; of them {', '.join(each)}"
    yield f"passes      {recipe.passes(here.records)}"
    of, contract = rates(recipe, device), models.ROOM.card(recipe.model).contracts[0]
    probes = sum(-(-stage.steps // stage.probe_every) for stage in stages)
    windows = here.learn + here.check + min(recipe.windows, here.learn)
    steps = [stage.steps * stage.records(here.records) for stage in stages]
    seconds, prepared = {"filtering": 0.0}, 0
    for name, (source, train) in here.corpora.items():
        card = datasets.get(name).CARD
        raw = noise_of(round(card.fs * card.seconds))
        seconds["filtering"] += train * seconds_of(
            partial(preprocess.view, raw, card.fs, contract.preparation)
        )
        packed = TYPE.itemsize * len(LEADS) * round(card.seconds * contract.fs)
        prepared += train * packed + (bytes_of(card, train) if source != "prepared" else 0)
    seconds["codebooks"] = here.records * sum(of.codebooks)
    seconds["training"] = sum(rate * count for rate, count in zip(of.training, steps))
    seconds["probes"] = probes * windows * of.probe
    # a checkpoint holds the network and the two averages of Adam
    needed = {folders.out: of.network * (probes + 2 * 3 + 1)}
    needed[where(folders.prepared, folders.data)] = prepared
    spent = ", ".join(f"{what} {duration(s)}" for what, s in seconds.items())
    yield f"time        about {duration(sum(seconds.values()))} on {device}: {spent}"
    yield "disk        " + ", ".join(f"{size(n)} in {path}" for path, n in needed.items())
    missing += lacking(needed)
    yield f"{counted(len(missing), 'thing')} missing:" if missing else "nothing is missing"
    yield from (f"  {text}" for text in missing)
    yield f"next: {command().replace(' --dry-run', '')}"


def study_lines(
    study: Study, budget: Budget, cells: Sequence[Cell], folders: Folders, device: str
) -> Iterator[str]:
    """Cells of an ablation with their parameters and time, and the time of all; nothing is written.
    BadSetting: a recipe whose data no loader reads; MissingData.
    """
    recipe, here = budget.recipe, counts(budget.recipe, folders)
    most = budget.records or here.records
    records, batch = min(here.records, most), min(recipe.stages[0].batch, here.records, most)
    here = replace(here, check=min(here.check, most))
    yield f"{study.name}: {study.summary}"
    yield (
        f"{counted(len(cells), 'cell')}, {counted(len(budget.numbers), 'seed')}, "
        f"{budget.steps:,} steps of {batch:,} of {records:,} recordings"
    )
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

    made, wide = dict[str, Training](), max(len(cell.name) for cell in cells)
    compared = _parameters(study.cell(study.reference), recipe)[1]
    for cell in cells:
        every = trainings(study, budget, cell)
        own = [t for k, t in every.items() if t.stage == study.stage and k not in made]
        made |= every
        parameters, behind = _parameters(cell, recipe)
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
    windows, shown = here.learn + here.check, len(LEADS) / ((1 + len(LEADS)) / 2)
    return (
        of.probe * windows
        + {
            "frozen": 0.0,
            "lead": budget.epochs * windows * of.training[0] * shown,
            # each of twelve leads alone, and among eleven that are absent
            "readings": of.probe * here.check * (1 + len(LEADS)),
        }[kind]
    )
