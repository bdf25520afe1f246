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
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from ecgbench.core import provenance
from ecgbench.core.files import as_json, facts_of, locked, proved, put, sweep
from ecgbench.core.keys import key
from ecgbench.core.seeds import seed_of
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.evaluate import torchrun
from ecgbench.pretrain import codebook, descriptors, phase_times
from ecgbench.pretrain.codebook import RECORDS, Codes, Describe, Nodes, codebooks, windows
from ecgbench.pretrain.collapse import Collapse
from ecgbench.pretrain.corpus import Corpus
from ecgbench.pretrain.curve import Listener, Point, Report
from ecgbench.pretrain.encoders import Checkpoint, KeptEncoders, read_checkpoints, select
from ecgbench.pretrain.objective import MaskedNodes, new_network
from ecgbench.pretrain.phase_times import Phase
from ecgbench.pretrain.probes import Development
from ecgbench.pretrain.recipe import Recipe
from ecgbench.pretrain.stage import Execution
from ecgbench.pretrain.stage import run as train
from ecgbench.pretrain.stored import RECIPE, REPORT
from ecgbench.study.progress import Display

ENCODER = "encoder.safetensors"
BOOKS, ELBOW, DEVICES = "codebook.json", "elbow.csv", "devices.json"
_AGAIN = "and run the same command again"


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


def run(recipe: Recipe, data: Data, session: Session) -> dict[str, Any]:
    """Everything that is missing in `session.out`; what pretraining.json says.

    The same recipe and data give the same codebooks and the same curves, however often it was
    interrupted, on one machine with one number of threads. BadSetting: the folder is of another
    recipe or other data. BadWeights: a damaged file in it. WriteError.
    """
    demand_segments(max(*recipe.codes, *recipe.refined), data.corpus)
    busy = f"another pre-training is at work in {session.out}; wait for it, or choose another --out"
    first = torchrun.rank() == 0
    with locked(session.out, otherwise=busy) if first else nullcontext():
        return _Pretraining(recipe, data, session)()


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
    sizes = (recipe.codes, recipe.refined)[stage - 1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("pre-training weights", recipe.seed, stage - 1) % 2**63)
        return MaskedNodes(new_network(recipe.model, recipe.shape), sizes)


def read(path: Path) -> Any:
    """A JSON file of the folder; BadWeights where it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return facts_of(content) if isinstance(content, dict) else content
    except (OSError, ValueError) as error:
        raise BadWeights(
            f"{path} cannot be read; remove its folder {_AGAIN}, or choose another --out"
        ) from error


class _Pretraining:
    """One recipe on one corpus."""

    def __init__(self, recipe: Recipe, data: Data, session: Session) -> None:
        self.recipe, self.data, self.session = recipe, data, session
        self.first = torchrun.rank() == 0
        self._worked = False
        """Whether this call has fitted a codebook or made a step, in the first process."""

    def __call__(self) -> dict[str, Any]:
        identity, out = facts(self.recipe, self.data), self.session.out
        path = out / RECIPE
        if path.is_file() and (names := _differing(read(path), identity)):
            raise BadSetting(
                f"{path} is of another pre-training: it differs in {', '.join(names)}; choose "
                f"another --out"
            )
        torchrun.wait()
        if self.first:
            sweep(out)
            if not path.is_file():
                put(path, as_json(identity))
        torchrun.wait()
        describe = descriptors.preset(self.recipe.descriptor)
        first = self._stage(1, describe, new_model(self.recipe, 1))
        encoder, mask = first.kept.load(first.selected)
        encoder.to(self._device)
        start = new_model(self.recipe, 2)
        if self.recipe.init == "previous":
            start.encoder.load_state_dict(encoder.state_dict())
            start.mask.data.copy_(mask)
        second = self._stage(2, Nodes(encoder, self.recipe.block), start)
        report = self._report(first, second)
        if self.first:
            network, _ = second.kept.load(second.selected)
            # one entry: safetensors writes several in an order of chance
            put(out / ENCODER, save(network.state_dict(), {"recipe": self.recipe.digest}))
            put(path, as_json(identity))
            report = self._unless_finished(out / REPORT, report)
        return report

    def _unless_finished(self, path: Path, report: dict[str, Any]) -> dict[str, Any]:
        """Write the report, or give the one that is there where this call has made nothing: it says
        when and where its stages were made.
        """
        before: dict[str, Any] = read(path) if path.is_file() and not self._worked else {}
        if before.get("recipe") == report["recipe"]:
            return before
        put(path, content := as_json(report))
        return dict(json.loads(content))

    @cached_property
    def _device(self) -> torch.device:
        kind = self.session.device.partition(":")[0]
        if kind == "cpu" or torchrun.world() == 1:
            return torch.device(self.session.device)
        return torch.device(kind, torchrun.local())

    def _stage(self, number: int, describe: Describe, model: MaskedNodes) -> "_Stage":
        recipe, session, corpus = self.recipe, self.session, self.data.corpus
        name, folder = f"stage {number}", session.out / f"stage{number}"
        settings, note = recipe.stages[number - 1], session.progress.note
        if self.first:
            self._fit_codebooks(number, describe, folder)
        torchrun.wait()
        fitted = read(folder / BOOKS)
        made = [fitted["codebooks"][str(size)] for size in model.codebooks]
        books = [codebook.load(folder / f"codebook_{size}.npz") for size in model.codebooks]
        if [b.digest for b in books] != [m["digest"] for m in made]:
            raise BadWeights(
                f"codebooks in {folder} are not those that were fitted; remove that folder {_AGAIN}"
            )
        build = partial(new_network, recipe.model, recipe.shape)
        kept = KeptEncoders(folder, self.data.development, build, windows=recipe.windows, note=note)
        execution = Execution(
            folder=folder,
            device=session.device,
            listener=self._listener(name, folder / DEVICES),
            probe=kept,
            alarm=session.alarm,
            chance=sum(book["entropy"] for book in made),
        )
        note(f"{name}: {settings.steps} steps of {settings.records(len(corpus))} recordings")
        try:
            points = train(settings, model, corpus, Codes(describe, books), execution)
        except Collapse as stop:
            raise Collapse(f"{name}: {stop}") from None
        torchrun.wait()
        # not those of a schedule that was given up
        measured = read_checkpoints(kept.folder, settings.probed)
        selected = select(kept.folder, measured, settings.falling)
        note(f"{name}: checkpoint of step {selected.step} selected ({selected.score:.4f})")
        devices = " + ".join(read(folder / DEVICES))
        return _Stage(name, kept, selected, measured, points, fitted, devices)

    def _listener(self, stage: str, path: Path) -> Listener:
        """The session's, which also keeps in `path` the names of the devices that made steps."""
        listener, used = self.session.listener(stage), read(path) if path.is_file() else []

        def listen(report: Report) -> None:
            self._worked = True
            if self.session.name not in used:
                used.append(self.session.name)
                put(path, as_json(used))
            listener(report)

        return listen

    def _fit_codebooks(self, number: int, describe: Describe, folder: Path) -> None:
        """Fit the codebooks of a stage, unless they are there."""
        recipe, corpus, session = self.recipe, self.data.corpus, self.session
        sizes = (recipe.codes, recipe.refined)[number - 1]
        path, description = folder / BOOKS, dict(describe.facts)
        wanted = key({"description": description, "codes": sizes, "seed": recipe.seed})
        if path.is_file():
            self._demand_books(path, wanted)
            return
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
        put(folder / ELBOW, table := elbow.to_csv(index=False))
        met = elbow.set_index("codes")[["used", "perplexity"]].to_dict("index")
        # where encoders are compared it may be lower, and a network that learns would seem to have
        # learnt nothing
        some = map(describe, islice(windows(corpus, seed=seed, device=device), 5))
        entropy = np.log(codebook.elbow(chosen, some).set_index("codes")["perplexity"]).to_dict()
        vectors = chosen[0].facts["fit"]["vectors"]
        fitted = {
            "key": wanted,
            ELBOW: sha256(table.encode()).hexdigest(),
            "codebooks": {
                str(book.size): {
                    "digest": book.digest,
                    **met[book.size],
                    "entropy": entropy[book.size],
                }
                for book in chosen
            },
            "description": description,
            "seconds": {
                "extraction": timed.seconds,
                "clustering": seconds - timed.seconds,
                "records": vectors * descriptors.SAMPLES // (len(LEADS) * corpus.samples),
            },
            "device": session.name,
        }
        put(path, as_json(proved(fitted)))
        self._worked = True
        for size in sizes:
            session.progress.note(
                f"stage {number}: {met[size]['used']} of {size} codes used, perplexity "
                f"{met[size]['perplexity']:.1f} where encoders are compared"
            )

    def _demand_books(self, path: Path, wanted: str) -> None:
        """What stands in `path` is what is `wanted`, and the table beside it as it was written."""
        stored, table = read(path), path.with_name(ELBOW)
        if stored["key"] != wanted:
            raise BadSetting(
                f"{path.parent} rests on another checkpoint of stage 1; remove that folder, or "
                f"choose another --out"
            )
        found = sha256(table.read_bytes()).hexdigest() if table.is_file() else ""
        if stored.get(ELBOW) != found:
            raise BadWeights(
                f"{table} is not what was written there; remove {path} {_AGAIN}, which makes both "
                f"anew"
            )

    def _report(self, *stages: "_Stage") -> dict[str, Any]:
        """pretraining.json."""
        recipe, corpus, task = self.recipe, self.data.corpus, self.data.development
        phases = [
            phase
            for stage, settings in zip(stages, recipe.stages)
            for phase in stage.phases(settings.records(len(corpus)))
        ]
        return {
            "recipe": {"name": recipe.name, "digest": recipe.digest, **recipe.facts()},
            "data": {
                "datasets": self.data.prepared,
                "corpus": corpus.digest,
                "records": len(corpus),
                "too_short": corpus.too_short,
                "left_out": self.data.left_out,
            },
            "development": {
                "task": task.task,
                "train": len(task.learn.records),
                "validation": len(task.check.records),
            },
            "stages": {stage.name: stage.summary() for stage in stages},
            "encoder": stages[1].selected.encoder,
            "phases": phase_times.table(phases),
            "made_with": provenance.here(),
        }


@dataclass(frozen=True, eq=False)
class _Stage:
    """A finished stage."""

    name: str
    kept: KeptEncoders
    selected: Checkpoint
    checkpoints: list[Checkpoint]
    points: list[Point]
    books: dict[str, Any]
    devices: str

    def phases(self, batch: int) -> list[Phase]:
        """Extraction, clustering, training; probes and checkpoints are in none."""
        spent, before = self.books["seconds"], self.books["device"]
        seconds, seen = sum(p.seconds for p in self.points), len(self.points) * batch
        return [
            Phase(f"{self.name}: extraction", spent["extraction"], spent["records"], before),
            Phase(f"{self.name}: clustering", spent["clustering"], spent["records"], before),
            Phase(f"{self.name}: training", seconds, seen, self.devices),
        ]

    def summary(self) -> dict[str, Any]:
        """For pretraining.json."""
        last = self.points[-1]
        return {
            **{k: self.books[k] for k in ("codebooks", "description")},
            "steps": last.step,
            "loss": last.loss,
            "accuracy": last.accuracy,
            "selected": asdict(self.selected),
            "checkpoints": [asdict(c) for c in self.checkpoints],
            "probing_seconds": sum(c.seconds for c in self.checkpoints),
        }


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
