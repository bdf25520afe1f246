"""What a pre-training will take and what it needs that is not here, before a day is lost.

Its rates are those of the same recipe in small: a few steps of each stage on noise, in a temporary
folder, on the device that will compute.
"""

import operator
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench import datasets, models
from ecgbench.core.cells import Folders
from ecgbench.core.machine import memory as memory_here
from ecgbench.core.provenance import command
from ecgbench.core.text import counted, duration, size
from ecgbench.data.counts import count
from ecgbench.data.disk import free_bytes
from ecgbench.data.source import root_of, where
from ecgbench.ecg import preprocess
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting, MissingData, UnknownName
from ecgbench.evaluate.device import demand
from ecgbench.pretraining import curve
from ecgbench.pretraining.assemble import to_pack
from ecgbench.pretraining.corpus import Corpus
from ecgbench.pretraining.guard import Guard, Name
from ecgbench.pretraining.kept_encoders import Development, Half
from ecgbench.pretraining.phase_times import ECGS
from ecgbench.pretraining.pretrain import ENCODER, Data, Session, run
from ecgbench.pretraining.recipe import Recipe
from ecgbench.pretraining.shards import Layout
from ecgbench.pretraining.streaming import Holding
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

    codebooks: float
    """Of a recording, both stages: description and clustering."""
    training: tuple[float, float]
    """Of a recording in a step of each stage."""
    probe: float
    """Of a window in a probe."""
    network: int


def rates(recipe: Recipe, device: str) -> Rates:
    """BadSetting where the recipe's model cannot be pre-trained."""
    records = SMALL if device == "cpu" else recipe.stages[0].batch
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
        first, second = (
            replace(s, steps=STEPS, warmup=0, probe_every=STEPS, batch=records)
            for s in recipe.stages
        )
        small = replace(recipe, stages=(first, second), elbow=((), ()))
        found = run(small, _noise(recipe, records), session)
        steps = [pd.read_csv(out / f"stage{n}" / curve.FILE)["seconds"].min() for n in (1, 2)]
        network = (out / ENCODER).stat().st_size
    probes = [c["seconds"] for stage in found["stages"].values() for c in stage["checkpoints"]]
    described = sum(p["seconds"] for p in found["phases"] if p["phase"].endswith("extraction"))
    return Rates(
        # clustering took about as long as describing (models/laef/pretraining.json)
        codebooks=2 * described / records,
        training=(steps[0] / records, steps[1] / records),
        probe=min(probes) / (2 * records + min(records, recipe.windows)),
        network=network,
    )


def _noise(recipe: Recipe, records: int) -> Data:
    contract = models.ROOM.card(recipe.model).contracts[0]
    noise = np.clip(noise_of(contract.samples), -1, 1)
    names = [str(i) for i in range(records)]
    corpus = Corpus(
        Guard({"noise": names}, {}),
        dict.fromkeys((Name("noise", n) for n in names), contract.samples),
        lambda name: np.roll(noise, int(name.record), axis=1),
        contract=contract,
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
    """Of those that have a loader: how it is known, recordings to train on."""
    learn: int
    """Those of the development task that a probe learns from."""
    check: int
    """Those that it is scored on."""


def counts(recipe: Recipe, folders: Folders) -> Counts:
    """From what is prepared, or published. UnknownName: the development task."""
    owner = datasets.tasks()[recipe.task][0]
    names = [n for n in dict.fromkeys([*recipe.datasets, owner]) if n in datasets.names()]
    found = {n: count(n, folders.data, folders.prepared, None) for n in names}
    train = {n: split["train"] for n, (_, split) in found.items()}
    check = train[owner] // recipe.apart if recipe.apart else found[owner][1]["val"]
    train[owner] -= check if recipe.apart else 0
    return Counts(
        corpora={n: (found[n][0], train[n]) for n in recipe.datasets if n in found},
        learn=min(recipe.probe_records or train[owner], train[owner]),
        check=check,
    )


def lines(recipe: Recipe, folders: Folders, holding: Holding, device: str) -> Iterator[str]:
    """Recordings, time, disk and memory of a pre-training into `folders.out`, and all that is
    missing for it. Nothing stays on disk.
    """
    missing = list(_missing(recipe, folders))
    try:
        demand(device)
        ready(device)
    except BadSetting as error:
        missing.append(str(error))
        device = "cpu"
    here = counts(recipe, folders)
    records = sum(train for _, train in here.corpora.values())
    if len(here.corpora) < len(recipe.datasets):
        records = ECGS
    each = (f"{n} {train:,} ({source})" for n, (source, train) in here.corpora.items())
    yield f"recordings  {records:,} to train on; of them {', '.join(each)}"
    in_memory = _bytes(recipe, records)
    streams = holding.streams(folders.out, lambda: in_memory)
    seconds, needed = _cost(recipe, folders, here, records, device, views=not streams)
    memory, how = in_memory, "for the recordings, in each process"
    if streams:
        unpacked = to_pack(recipe, folders, holding)
        if unpacked != 0:
            needed[holding.home(folders)] = in_memory if unpacked is None else unpacked
        memory = _bytes(recipe, min(records, holding.shuffled(folders.out)))
        how = f"for the recordings, streamed from shards of {size(in_memory)}"
    spent = ", ".join(f"{what} {duration(s)}" for what, s in seconds.items())
    yield f"time        about {duration(sum(seconds.values()))} on {device}: {spent}"
    yield "disk        " + ", ".join(f"{size(n)} in {path}" for path, n in needed.items())
    yield f"memory      {size(memory)} {how}"
    for path, n in needed.items():
        if n > (free := free_bytes(path)):
            missing.append(f"disk: {path} has {size(free)} free and needs {size(n)}")
    if memory > (free := memory_here()["available"] or memory):
        missing.append(f"memory: {size(free)} are available, and recordings need {size(memory)}")
    yield f"{counted(len(missing), 'thing')} missing:" if missing else "nothing is missing"
    yield from (f"  {text}" for text in missing)
    yield f"next: {command().replace(' --dry-run', '')}"


def _missing(recipe: Recipe, folders: Folders) -> Iterator[str]:
    """Corpora without a loader, and corpora that are not on this machine."""
    if lost := [n for n in recipe.datasets if n not in datasets.names()]:
        yield (
            f"loaders of {', '.join(lost)}: register them as data sets of a plug-in, or: ecgbench "
            f"pretrain small"
        )
    for name in recipe.datasets:
        with suppress(UnknownName):
            try:
                root_of(name, datasets.get(name).CARD, folders.data)
            except MissingData as error:
                yield str(error)


def _cost(
    recipe: Recipe,
    folders: Folders,
    here: Counts,
    records: int,
    device: str,
    views: bool,
) -> tuple[dict[str, float], dict[Path, int]]:
    """Seconds by what is done, bytes by folder; `views`: whether they are kept."""
    of, contract = rates(recipe, device), models.ROOM.card(recipe.model).contracts[0]
    windows = here.learn + here.check + min(recipe.windows, here.learn)
    probes = sum(-(-stage.steps // stage.probe_every) for stage in recipe.stages)
    unread = records - sum(train for source, train in here.corpora.values() if source == "prepared")
    card = datasets.get(next(iter(here.corpora))).CARD
    noise = noise_of(round(SECONDS * card.fs))
    filtered = seconds_of(partial(preprocess.view, noise, card.fs, contract.preparation))
    steps = [stage.steps * stage.records(records) for stage in recipe.stages]
    seconds = {
        "filtering": records * filtered,
        "codebooks": records * of.codebooks,
        "training": sum(map(operator.mul, of.training, steps)),
        "probes": probes * windows * of.probe,
    }
    each = 2 * unread * card.fs + views * 4 * records * contract.fs
    prepared = round(len(LEADS) * SECONDS * each)
    # a checkpoint holds the network and the two averages of Adam
    kept = of.network * (probes + 2 * 3 + 1)
    return seconds, {folders.out: kept, where(folders.prepared, folders.data): prepared}


def _bytes(recipe: Recipe, records: int) -> int:
    """Of the samples of so many recordings, as they are kept."""
    fs = models.ROOM.card(recipe.model).contracts[0].fs
    return round(records * len(LEADS) * SECONDS * fs) * Layout(kept=recipe.kept).type.itemsize
