"""A whole pre-training by a recipe: two codebooks, two stages, two selections. Interrupted
anywhere, it goes on from there.

    OUT/recipe.json            every choice, and the hash of what it was made from
        stage1/codebook.json   what was fitted, how often codes are met, time
               codebook_50.npz, elbow.csv
               checkpoint.safetensors, curve.csv, tensorboard/   of the loop, see `stage.run`
               encoders/       kept and measured, see `kept_encoders.KeptEncoders`
        stage2/                the same
        encoder.safetensors    the selected encoder of stage 2, float32: weights of the recipe's
                               model
        pretraining.json       how it came about: recipe, data, codebooks, selections, time per
                               phase

Under torchrun every process calls `run` alike; OUT is a folder that all of them see.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from ecgbench.core import provenance
from ecgbench.core.cells import key
from ecgbench.core.files import as_json, proved, put
from ecgbench.core.seeds import seed_of
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.evaluate import torchrun
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretraining import codebook, descriptors, output, phase_times
from ecgbench.pretraining.alarm import Collapse
from ecgbench.pretraining.codebook import Codebook
from ecgbench.pretraining.corpus import Recordings
from ecgbench.pretraining.curve import Listener, Point, Report
from ecgbench.pretraining.kept_encoders import (
    Development,
    KeptEncoders,
    read_checkpoints,
    select,
)
from ecgbench.pretraining.labels import RECORDS, Codes, Describe, Nodes, codebooks, windows
from ecgbench.pretraining.network import new_network
from ecgbench.pretraining.objective import MaskedNodes
from ecgbench.pretraining.phase_times import Phase
from ecgbench.pretraining.recipe import Recipe
from ecgbench.pretraining.selection import Checkpoint
from ecgbench.pretraining.stage import Execution, Stopped
from ecgbench.pretraining.stage import run as train
from ecgbench.results.pretraining import entropy_of
from ecgbench.study.progress import Display

REPORT, ENCODER = "pretraining.json", "encoder.safetensors"
BOOKS, DEVICES = "codebook.json", "devices.json"


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
    over: Callable[[], bool] | None = None
    """Whether to stop now: asked between steps and after a codebook, which is fitted in one go."""
    alarm: bool = True
    """Whether a collapse ends a stage."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """What a pre-training sees."""

    corpus: Recordings
    development: Development
    prepared: dict[str, str]
    """Dataset -> digest of its prepared copy."""
    left_out: dict[str, int]
    """Why training recordings are not in the corpus -> how many; see `exclusion`."""


def run(recipe: Recipe, data: Data, session: Session) -> dict[str, Any]:
    """Everything that is missing in `session.out`; what pretraining.json says.

    The same recipe and data give the same codebooks and the same curves, however often it was
    interrupted, on one machine with one number of threads. LeakError: a recording that must not
    enter training. BadSetting: the folder is of another recipe or other data. BadWeights: a damaged
    file in it. WriteError. Stopped: `session.over` said so; the same call goes on.
    """
    return _Pretraining(recipe, data, session)()


def facts(recipe: Recipe, data: Data) -> dict[str, Any]:
    """What recipe.json holds: two folders with equal ones hold the same pre-training."""
    return {
        "recipe": recipe.facts(),
        "datasets": data.prepared,
        "corpus": data.corpus.digest,
        "left_out": data.left_out,
        **_streamed(data.corpus),
    }


def _streamed(corpus: Recordings) -> dict[str, Any]:
    """Facts of a streamed corpus; of one in memory none, so that its folders keep theirs."""
    return {"stream": corpus.stream} if corpus.stream else {}


class _Pretraining:
    """One recipe on one corpus."""

    def __init__(self, recipe: Recipe, data: Data, session: Session) -> None:
        self.recipe, self.data, self.session, self.first = (
            recipe,
            data,
            session,
            torchrun.rank() == 0,
        )
        self._made_something = False
        """Whether this call has fitted a codebook or made a step, in the first process."""

    def __call__(self) -> dict[str, Any]:
        self._refuse_impossible()
        with output.alone(self.session.out) if self.first else nullcontext():
            return self._run()

    def _run(self) -> dict[str, Any]:
        identity, out = facts(self.recipe, self.data), self.session.out
        output.demand(out, identity)
        torchrun.wait()
        if self.first:
            output.claim(out, identity)
        torchrun.wait()
        first = self._stage(1, descriptors.preset(self.recipe.descriptor), self._new(0))
        encoder, mask = first.kept.load(first.selected)
        encoder.to(self._device)
        start = self._new(1)
        if self.recipe.init == "previous":
            start.encoder.load_state_dict(encoder.state_dict())
            start.mask.data.copy_(mask)
        second = self._stage(2, Nodes(encoder, self.recipe.block), start)
        report = self._report((first, second))
        if self.first:
            report = output.unless_equal(out / REPORT, report)
            network, _ = second.kept.load(second.selected)
            # one entry: safetensors writes several in an order of chance
            put(out / ENCODER, save(network.state_dict(), {"recipe": self.recipe.digest}))
            put(out / output.RECIPE, as_json(identity))
            put(out / REPORT, as_json(report))
        return report

    def _refuse_impossible(self) -> None:
        """BadSetting where a stage could not be computed, or stage 2 not after stage 1, which is
        not to be lost by it.
        """
        model, depth = self.recipe.model, self._network().depth
        if not 0 <= self.recipe.block <= depth:
            raise BadSetting(
                f"stage 2 clusters nodes of block {self.recipe.block}, and model {model} has "
                f"{depth} blocks"
            )
        most = max(*self.recipe.codes, *self.recipe.refined)
        if most > self._segments:
            raise BadSetting(
                f"a codebook of {most} codes from {len(self.data.corpus)} recordings: the first "
                f"batch of the clustering has "
                f"{self._segments} segments; take fewer codes (--set codes, refined)"
            )

    def _network(self) -> NodeEncoder:
        """The recipe's network with weights by torch's generator, which goes on from where it
        was.
        """
        with torch.random.fork_rng(devices=[]):
            return new_network(self.recipe.model, self.recipe.shape)

    @property
    def _nodes(self) -> int:
        """Nodes of one window: one for each segment of each lead, see `new_network`."""
        return len(LEADS) * self.data.corpus.samples // descriptors.SAMPLES

    @property
    def _segments(self) -> int:
        """Segments of the first batch of a clustering."""
        return min(RECORDS, len(self.data.corpus)) * self._nodes

    @cached_property
    def _device(self) -> torch.device:
        kind = self.session.device.partition(":")[0]
        if kind == "cpu" or torchrun.world() == 1:
            return torch.device(self.session.device)
        return torch.device(kind, torchrun.local())

    def _new(self, stage: int) -> MaskedNodes:
        """New weights for a stage."""
        sizes = (self.recipe.codes, self.recipe.refined)[stage]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of("pre-training weights", self.recipe.seed, stage) % 2**63)
            return MaskedNodes(new_network(self.recipe.model, self.recipe.shape), sizes)

    def _stage(self, number: int, describe: Describe, model: MaskedNodes) -> "_Stage":
        recipe, session = self.recipe, self.session
        name, folder = f"stage {number}", session.out / f"stage{number}"
        settings, sizes = recipe.stages[number - 1], model.codebooks
        if self.first:
            self._fit_codebooks(number, describe, folder)
        torchrun.wait()
        fitted = output.read(folder / BOOKS)
        books = [codebook.load(folder / f"codebook_{c}.npz") for c in sizes]
        kept_as = [fitted["codebooks"][str(c)]["digest"] for c in sizes]
        if [b.digest for b in books] != kept_as:
            raise BadWeights(
                f"codebooks in {folder} are not those that were fitted; remove that folder and "
                f"run the same command again"
            )
        note, development = session.progress.note, self.data.development
        kept = KeptEncoders(folder, development, self._network, windows=recipe.windows, note=note)
        listener = self._listener(name, folder / DEVICES)
        # a call that has made nothing goes on for one step, or short calls would never end
        if self._over():
            raise Stopped(f"{name}, before its next step")
        execution = Execution(
            folder=folder,
            device=session.device,
            listener=listener,
            probe=kept,
            over=session.over,
            alarm=session.alarm,
            chance=sum(entropy_of(fitted["codebooks"][str(c)]) for c in sizes),
        )
        records = settings.records(len(self.data.corpus))
        note(f"{name}: {settings.steps} steps of {records} recordings")
        try:
            points = train(settings, model, self.data.corpus, Codes(describe, books), execution)
        except Stopped as stop:
            raise Stopped(f"{name}, {stop}") from None
        except Collapse as error:
            raise Collapse(f"{name}: {error}") from None
        torchrun.wait()
        # not those of a schedule that was given up
        measured = read_checkpoints(kept.folder, settings.probed)
        selected = select(kept.folder, measured, settings.falling)
        devices = " + ".join(output.read(folder / DEVICES))
        note(f"{name}: checkpoint of step {selected.step} selected ({selected.score:.4f})")
        return _Stage(name, kept, selected, measured, points, fitted, devices)

    def _over(self) -> bool:
        over = self.session.over
        return over is not None and torchrun.of_first(lambda: self._made_something and over())

    def _listener(self, stage: str, path: Path) -> Listener:
        """The session's, which also keeps in `path` the names of the devices that made steps."""
        tell, used = self.session.listener(stage), output.read(path) if path.is_file() else []

        def listen(report: Report) -> None:
            self._made_something = True
            if self.session.name not in used:
                used.append(self.session.name)
                put(path, as_json(used))
            tell(report)

        return listen

    def _fit_codebooks(self, number: int, describe: Describe, folder: Path) -> None:
        """Fit the codebooks of a stage, unless they are there."""
        recipe, corpus = self.recipe, self.data.corpus
        sizes = (recipe.codes, recipe.refined)[number - 1]
        path, facts = folder / BOOKS, dict(describe.facts)
        elbow_file = folder / "elbow.csv"
        wanted = key({"description": facts, "codes": sizes, "seed": recipe.seed})
        if path.is_file():
            stored = output.read(path)
            if stored["key"] != wanted:
                raise BadSetting(
                    f"{folder} rests on another checkpoint of stage 1; remove that folder, or "
                    f"choose another --out"
                )
            output.demand_unchanged(elbow_file, stored.get(elbow_file.name), path)
            return
        timed_describe, device = _Timed(describe, self._device), str(self._device)
        further = {size for size in recipe.elbow[number - 1] if size <= self._segments}
        every, seed = sorted({*sizes, *further}), recipe.seed
        progress, title = self.session.progress, f"stage {number}, codebook"
        began = time.perf_counter()
        with progress.stage(title, len(corpus), "recordings") as advance:
            books = codebooks(
                corpus, timed_describe, every, seed=seed, device=device, advance=advance
            )
        seconds = time.perf_counter() - began
        for size in sizes:
            books[size].save(folder / f"codebook_{size}.npz")
        elbow = codebook.elbow(
            books.values(), map(describe, self.data.development.check.batches(self._device))
        )
        put(elbow_file, table := elbow.to_csv(index=False))
        rows = elbow.set_index("codes")[["used", "perplexity"]].to_dict("index")
        entropies = self._entropies(describe, {c: books[c] for c in sizes})
        summaries = {
            str(c): {"digest": books[c].digest, **rows[c], "entropy": entropies[c]} for c in sizes
        }
        vectors = books[sizes[0]].facts["fit"]["vectors"]
        extraction, records = timed_describe.seconds, vectors // self._nodes
        spent = {"extraction": extraction, "clustering": seconds - extraction, "records": records}
        fitted = {
            "key": wanted,
            elbow_file.name: sha256(table.encode()).hexdigest(),
            "codebooks": summaries,
            "description": facts,
            "seconds": spent,
            "device": self.session.name,
        }
        put(path, as_json(proved(fitted)))
        self._made_something = True
        for c, summary in summaries.items():
            progress.note(
                f"stage {number}: {summary['used']} of {c} codes used, perplexity "
                f"{summary['perplexity']:.1f} where encoders are compared"
            )

    def _entropies(self, describe: Describe, books: Mapping[int, Codebook]) -> dict[int, float]:
        """Size -> entropy of the codes of training recordings, nats: where encoders are compared it
        may be lower, and a network that learns would seem to have learnt nothing.
        """
        some = islice(windows(self.data.corpus, seed=self.recipe.seed, device=str(self._device)), 5)
        rows = codebook.elbow(books.values(), map(describe, some))
        return dict(zip(rows["codes"].tolist(), np.log(rows["perplexity"]).tolist()))

    def _report(self, stages: "tuple[_Stage, _Stage]") -> dict[str, Any]:
        """pretraining.json."""
        recipe, corpus, task = self.recipe, self.data.corpus, self.data.development
        phases = [phase for stage in stages for phase in stage.phases(recipe, len(corpus))]
        return {
            "recipe": {"name": recipe.name, "digest": recipe.digest, **recipe.facts()},
            "data": {
                "datasets": self.data.prepared,
                "corpus": corpus.digest,
                "records": len(corpus),
                "too_short": corpus.too_short,
                "left_out": self.data.left_out,
                **_streamed(corpus),
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
    checkpoints: Sequence[Checkpoint]
    points: Sequence[Point]
    books: dict[str, Any]
    devices: str

    def phases(self, recipe: Recipe, records: int) -> list[Phase]:
        """Extraction, clustering, training; probes and checkpoints aside."""
        spent, device = self.books["seconds"], self.books["device"]
        seconds = sum(p.seconds for p in self.points)
        seen = len(self.points) * recipe.stages[int(self.name[-1]) - 1].records(records)
        return [
            Phase(f"{self.name}: extraction", spent["extraction"], spent["records"], device),
            Phase(f"{self.name}: clustering", spent["clustering"], spent["records"], device),
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
