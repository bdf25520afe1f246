"""A whole pre-training by a recipe: two codebooks, two stages, two selections. Interrupted
anywhere, it goes on from there.

    OUT/recipe.json            every choice, and the hash of what it was made from
        stage1/codebook.json   what was fitted, how often codes are met, time
               codebook_50.npz, elbow.csv
               checkpoint.safetensors, curve.csv   of the loop, see `stage.run`
               devices.json    names of the devices that made its steps
               encoders/       kept and measured, see `encoders.KeptEncoders`
        stage2/                the same
        encoder.safetensors    the selected encoder of stage 2, float32: weights of the recipe's
                               model
        pretraining.json       how it came about: recipe, data, codebooks, selections, time per
                               phase

Under torchrun every process calls `run` alike; OUT is a folder that all of them see.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from ecgbench.core import provenance
from ecgbench.core.files import as_json, locked, proved, put, sweep
from ecgbench.core.keys import key
from ecgbench.core.seeds import seed_of
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.evaluate import torchrun
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretrain import codebook, descriptors, phase_times
from ecgbench.pretrain.codebook import (
    RECORDS,
    Codebook,
    Codes,
    Describe,
    Nodes,
    codebooks,
    windows,
)
from ecgbench.pretrain.collapse import Collapse
from ecgbench.pretrain.corpus import Corpus
from ecgbench.pretrain.curve import Listener, Point, Report
from ecgbench.pretrain.encoders import KeptEncoders
from ecgbench.pretrain.objective import MaskedNodes, new_network
from ecgbench.pretrain.phase_times import Phase
from ecgbench.pretrain.probes import Development
from ecgbench.pretrain.recipe import Recipe
from ecgbench.pretrain.stage import Execution
from ecgbench.pretrain.stage import Stage as Settings
from ecgbench.pretrain.stage import run as train
from ecgbench.pretrain.stored import RECIPE, REPORT, read_file
from ecgbench.study.progress import Display

ENCODER = "encoder.safetensors"
BOOKS, ELBOW, DEVICES = "codebook.json", "elbow.csv", "devices.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class Session:
    """Where a pre-training runs, where it is kept, and who follows it."""

    out: Path
    device: str
    """"cpu", "cuda" or "cuda:1"."""
    name: str
    """The device in words, for the table of times."""
    progress: Display
    listener: Callable[[str], Listener]
    """Name of a stage -> who hears of its steps."""
    alarm: bool = True
    """Whether a collapse ends a stage."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """What a pre-training sees."""

    corpus: Corpus
    development: Development
    prepared: dict[str, str]
    """Dataset -> digest of its prepared copy."""
    left_out: dict[str, int]
    """Why training recordings are not in the corpus -> how many; see `exclusion`."""


class Keeper(Protocol):
    """What is kept and measured of the networks of a stage, which calls it as its probe."""

    def __call__(self, step: int, model: MaskedNodes) -> None:
        """Of the network after so many steps."""

    def end(self, stage: Settings, model: MaskedNodes) -> tuple[NodeEncoder, Tensor]:
        """What comes out of a stage: an encoder and its mask vector."""


Keep = Callable[[int, Path, MaskedNodes], Keeper]
"""Number of a stage, its folder, and the network before its next step -> who keeps and measures."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What recipes of one study have in common."""

    title: str
    """Of the last stage, for people."""
    first: Path
    """The folder of the recipe whose stage 1 it rests on."""
    books: Path
    """The folder of all codebooks."""
    sizes: tuple[Sequence[int], ...]
    """Of the codebooks of each stage, those of all recipes."""


def run(recipe: Recipe, data: Data, session: Session) -> dict[str, Any]:
    """Everything that is missing in `session.out`; what pretraining.json says.

    As `make`; selects an encoder after each stage, and writes that of the last one.
    """
    build = partial(new_network, recipe.model, recipe.shape)

    def keep(_number: int, folder: Path, _model: MaskedNodes) -> KeptEncoders:
        note = session.progress.note
        return KeptEncoders(folder, data.development, build, windows=recipe.windows, note=note)

    made = _Pretraining(recipe, data, session, keep)
    with alone(session.out):
        stages = made()
        report = _report(recipe, data, stages)
        if torchrun.rank() == 0:
            # one entry: safetensors writes several in an order of chance
            weights = save(stages[-1].encoder.state_dict(), {"recipe": recipe.digest})
            put(session.out / ENCODER, weights)
            put(session.out / RECIPE, as_json(facts(recipe, data)))
            report = _unless_finished(session.out / REPORT, report, made.worked)
    return report


def make(
    recipe: Recipe, data: Data, session: Session, keep: Keep, shared: Shared
) -> list["Finished"]:
    """The stages of a recipe of a study; trains what is missing of them in `session.out`.

    The same recipe and data give the same codebooks and the same curves, however often it was
    interrupted, on one machine with one number of threads. BadSetting: the folder is of another
    recipe or other data, or another process works in it. BadWeights: a damaged file in it.
    WriteError.
    """
    made = _Pretraining(recipe, data, session, keep, shared)
    with alone(session.out):
        return made()


def alone(out: Path) -> AbstractContextManager[None]:
    """In the first process: BadSetting where another pre-training is at work in the folder."""
    busy = f"another pre-training is at work in {out}; wait for it, or choose another --out"
    return locked(out, otherwise=busy) if torchrun.rank() == 0 else nullcontext()


def facts(recipe: Recipe, data: Data) -> dict[str, Any]:
    """What recipe.json holds: two folders with equal ones hold the same pre-training."""
    return {
        "recipe": recipe.facts(),
        "datasets": data.prepared,
        "corpus": data.corpus.digest,
        "left_out": data.left_out,
    }


def segments_of(corpus: Corpus) -> int:
    """Segments of the first batch of a clustering, which has at least one for each code."""
    return min(RECORDS, len(corpus)) * len(LEADS) * corpus.samples // descriptors.SAMPLES


def demand_segments(codes: int, corpus: Corpus) -> None:
    """BadSetting where a codebook could not be fitted, before a stage is lost by it."""
    if codes > (most := segments_of(corpus)):
        raise BadSetting(
            f"a codebook of {codes} codes from {len(corpus)} recordings: the first batch of the "
            f"clustering has {most} segments; take fewer codes (--set codes, refined), or more "
            f"recordings"
        )


def new_model(recipe: Recipe, stage: int) -> MaskedNodes:
    """The recipe's network with new weights for a stage, 1 or 2."""
    sizes = recipe.sizes[stage - 1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("pre-training weights", recipe.seed, stage - 1) % 2**63)
        return MaskedNodes(new_network(recipe.model, recipe.shape), sizes)


class _Pretraining:
    """One recipe on one corpus."""

    def __init__(
        self,
        recipe: Recipe,
        data: Data,
        session: Session,
        keep: Keep,
        shared: Shared | None = None,
    ) -> None:
        demand_segments(max(map(max, recipe.sizes)), data.corpus)
        self.recipe, self.data, self.session = recipe, data, session
        self.keep, self.shared = keep, shared
        self.first = torchrun.rank() == 0
        self.worked = False
        """Whether this call has fitted a codebook or made a step, in the first process."""

    def __call__(self) -> list["Finished"]:
        self._claim()
        describe: Describe = descriptors.preset(self.recipe.descriptor)
        made: list[Finished] = []
        for number in range(1, len(self.recipe.stages) + 1):
            start = new_model(self.recipe, number)
            if made:
                encoder, mask = made[-1].encoder.to(self._device), made[-1].mask
                describe = Nodes(encoder, self.recipe.block)
                if self.recipe.init == "previous":
                    start.encoder.load_state_dict(encoder.state_dict())
                    start.mask.data.copy_(mask)
            made.append(self._stage(number, describe, start))
        return made

    def _claim(self) -> None:
        """Write down whose folder it is; BadSetting where it is of something else."""
        identity, path = facts(self.recipe, self.data), self.session.out / RECIPE
        if path.is_file() and (names := _differing(read_file(path), identity)):
            raise BadSetting(
                f"{path} is of another pre-training: it differs in {', '.join(names)}; choose "
                f"another --out"
            )
        torchrun.wait()
        if self.first:
            sweep(self.session.out)
            if not path.is_file():
                put(path, as_json(identity))
        torchrun.wait()

    @cached_property
    def _device(self) -> torch.device:
        kind = self.session.device.partition(":")[0]
        if kind == "cpu" or torchrun.world() == 1:
            return torch.device(self.session.device)
        return torch.device(kind, torchrun.local())

    def _stage(self, number: int, describe: Describe, model: MaskedNodes) -> "Finished":
        session, corpus, shared = self.session, self.data.corpus, self.shared
        name, out, settings = f"stage {number}", session.out, self.recipe.stages[number - 1]
        if shared and number < len(self.recipe.stages):
            out = shared.first
        elif shared:
            name = shared.title
        folder = out / f"stage{number}"
        fitted, books = self._codebooks(number, describe, folder, model.codebooks)
        kept = self.keep(number, folder, model.to(self._device).eval())
        execution = Execution(
            folder=folder,
            device=session.device,
            listener=self._listener(name, folder / DEVICES),
            probe=kept,
            alarm=session.alarm,
            chance=sum(fitted["codebooks"][str(book.size)]["entropy"] for book in books),
        )
        session.progress.note(
            f"{name}: {settings.steps} steps of {settings.records(len(corpus))} recordings"
        )
        try:
            points = train(settings, model, corpus, Codes(describe, books), execution)
        except Collapse as stop:
            raise Collapse(f"{name}: {stop}") from None
        torchrun.wait()
        encoder, mask = kept.end(settings, model)
        devices = " + ".join(read_file(folder / DEVICES))
        return Finished(name, settings, kept, encoder, mask, points, fitted, devices)

    def _listener(self, stage: str, path: Path) -> Listener:
        """The session's, which also keeps in `path` the names of the devices that made steps."""
        listener, used = self.session.listener(stage), read_file(path) if path.is_file() else []

        def listen(report: Report) -> None:
            self.worked = True
            if self.session.name not in used:
                used.append(self.session.name)
                put(path, as_json(used))
            listener(report)

        return listen

    def _codebooks(
        self, number: int, describe: Describe, folder: Path, wanted: Sequence[int]
    ) -> tuple[dict[str, Any], list[Codebook]]:
        """What codebook.json says, and those that are wanted; fitted where they are not there."""
        sizes = (self.shared or self.recipe).sizes[number - 1]
        facts = {"description": dict(describe.facts), "codes": sizes, "seed": self.recipe.seed}
        if self.shared:
            corpus = self.data.corpus.digest
            folder = self.shared.books / key({**facts, "corpus": corpus})[:24]
        if self.first and (folder / BOOKS).is_file():
            if read_file(folder / BOOKS)["key"] != key(facts):
                raise BadSetting(
                    f"{folder} rests on another checkpoint of stage 1; remove that folder, or "
                    f"choose another --out"
                )
        elif self.first:
            self._fit(number, describe, sizes, folder, key(facts))
        torchrun.wait()
        fitted = read_file(folder / BOOKS)
        books = [codebook.load(folder / f"codebook_{size}.npz") for size in wanted]
        if any(book.digest != fitted["codebooks"][str(book.size)]["digest"] for book in books):
            raise BadWeights(
                f"codebooks in {folder} are not those that were fitted; remove that folder and "
                f"run the same command again"
            )
        return fitted, books

    def _fit(
        self, number: int, describe: Describe, sizes: Sequence[int], folder: Path, wanted: str
    ) -> None:
        """Fit codebooks, and describe them in codebook.json and elbow.csv. wanted: what the first
        one says of what decides them.
        """
        recipe, corpus, session = self.recipe, self.data.corpus, self.session
        timed, device, seed = _Timed(describe, self._device), str(self._device), recipe.seed
        further = {size for size in recipe.elbow[number - 1] if size <= segments_of(corpus)}
        every, began = sorted({*sizes, *further}), time.perf_counter()
        title = f"stage {number}, codebook"
        with session.progress.stage(title, len(corpus), "recordings") as advance:
            books = codebooks(corpus, timed, every, seed=seed, device=device, advance=advance)
        seconds = time.perf_counter() - began
        chosen = [books[size] for size in sizes]
        for size, book in zip(sizes, chosen):
            book.save(folder / f"codebook_{size}.npz")
        check = self.data.development.check.batches(self._device)
        elbow = codebook.elbow(books.values(), map(describe, check))
        put(folder / ELBOW, elbow.to_csv(index=False))
        met = elbow.set_index("codes")[["used", "perplexity"]].to_dict("index")
        # where encoders are compared it may be lower, and a network that learns would seem to have
        # learnt nothing
        some = map(describe, islice(windows(corpus, seed=seed, device=device), 5))
        entropy = np.log(codebook.elbow(chosen, some).set_index("codes")["perplexity"]).to_dict()
        vectors = chosen[0].facts["fit"]["vectors"]
        fitted = {
            "key": wanted,
            "codebooks": {
                str(book.size): {
                    "digest": book.digest,
                    **met[book.size],
                    "entropy": entropy[book.size],
                }
                for book in chosen
            },
            "description": dict(describe.facts),
            "seconds": {
                "extraction": timed.seconds,
                "clustering": seconds - timed.seconds,
                "records": vectors * descriptors.SAMPLES // (len(LEADS) * corpus.samples),
            },
            "device": session.name,
        }
        put(folder / BOOKS, as_json(proved(fitted)))
        self.worked = True
        for size in sizes:
            session.progress.note(
                f"stage {number}: {met[size]['used']} of {size} codes used, perplexity "
                f"{met[size]['perplexity']:.1f} where encoders are compared"
            )


@dataclass(frozen=True, eq=False)
class Finished:
    """A finished stage."""

    name: str
    settings: Settings
    kept: Any
    """Its `Keeper`."""
    encoder: NodeEncoder
    """What came out, with its mask vector."""
    mask: Tensor
    points: list[Point]
    books: dict[str, Any]
    """codebook.json."""
    devices: str

    @property
    def seconds(self) -> float:
        """Of all steps."""
        return sum(p.seconds for p in self.points)

    def phases(self, batch: int) -> list[Phase]:
        """Extraction, clustering, training; probes and checkpoints are in none."""
        spent, before = self.books["seconds"], self.books["device"]
        seen = len(self.points) * batch
        return [
            Phase(f"{self.name}: extraction", spent["extraction"], spent["records"], before),
            Phase(f"{self.name}: clustering", spent["clustering"], spent["records"], before),
            Phase(f"{self.name}: training", self.seconds, seen, self.devices),
        ]

    def summary(self) -> dict[str, Any]:
        """For pretraining.json."""
        last, checkpoints = self.points[-1], self.kept.measured(self.settings)
        return {
            **{k: self.books[k] for k in ("codebooks", "description")},
            "steps": last.step,
            "loss": last.loss,
            "accuracy": last.accuracy,
            "selected": asdict(self.kept.selected(self.settings)),
            "checkpoints": [asdict(c) for c in checkpoints],
            "probing_seconds": sum(c.seconds for c in checkpoints),
        }


def _report(recipe: Recipe, data: Data, stages: Sequence[Finished]) -> dict[str, Any]:
    """pretraining.json."""
    corpus, task = data.corpus, data.development
    told = {stage.name: stage.summary() for stage in stages}
    phases = [p for stage in stages for p in stage.phases(stage.settings.records(len(corpus)))]
    return {
        "recipe": {"name": recipe.name, "digest": recipe.digest, **recipe.facts()},
        "data": {
            "datasets": data.prepared,
            "corpus": corpus.digest,
            "records": len(corpus),
            "too_short": corpus.too_short,
            "left_out": data.left_out,
        },
        "development": {
            "task": task.task,
            "train": len(task.learn.records),
            "validation": len(task.check.records),
        },
        "stages": told,
        "encoder": told[stages[-1].name]["selected"]["encoder"],
        "phases": phase_times.table(phases),
        "made_with": provenance.here(),
    }


def _unless_finished(path: Path, report: dict[str, Any], worked: bool) -> dict[str, Any]:
    """Write the report, or give the one that is there where nothing was made now: it says when and
    where its stages were made.
    """
    before: dict[str, Any] = read_file(path) if path.is_file() and not worked else {}
    if before.get("recipe") == report["recipe"]:
        return before
    put(path, content := as_json(report))
    return dict(json.loads(content))


class _Timed:
    """A description whose time is taken."""

    def __init__(self, describe: Describe, device: torch.device) -> None:
        self.describe, self.facts, self.device, self.seconds = describe, describe.facts, device, 0.0

    def __call__(self, windows: Tensor) -> Tensor:
        began = time.perf_counter()
        described = self.describe(windows)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.seconds += time.perf_counter() - began
        return described


def _differing(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Names of what differs; more steps are none, for a stage can be prolonged, and recordings per
    pass its checkpoint compares.
    """
    names = []
    for k in sorted({*first, *second} - {"steps", "micro"}):
        a, b = first.get(k), second.get(k)
        if k == "stages" and a and b:
            a, b = ({str(i): s for i, s in enumerate(stages, 1)} for stages in (a, b))
        if isinstance(a, dict) and isinstance(b, dict):
            names += [f"{k}.{name}" for name in _differing(a, b)]
        elif a != b:
            names.append(k)
    return names
