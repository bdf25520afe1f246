"""A study at a budget: every training once, every probe once, whatever was interrupted.

    OUT/ablation.json          study, budget, digests of the data, cells: what the table rests on
        records.parquet        validation recordings of the development task, patients, labels
        codebooks/KEY/         codebook_50.npz ...: one set for all cells of a seed
        trainings/KEY/         training.json once it is finished, and of the stage before that
                               checkpoint.safetensors, curve.csv; encoder_000150.safetensors
                               as long as something still needs it
                  frozen.json  scores of a probe after 0, half and all steps
                  frozen_000150.npy   (record, label) probabilities
        cells.json             which training each cell has at each seed
        rates.json             scores of the learning rates that were tried, if several

A key is the hash of everything that decides the numbers, so a folder is either the same work or
another name. Times stand in training.json and in no table.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from ecgbench import files, provenance
from ecgbench.ablation import probes
from ecgbench.ablation.budget import SWEPT, Budget, Training, training
from ecgbench.ablation.studies import FROZEN, Cell, Probe, Study
from ecgbench.benchmark.progress import Display
from ecgbench.cells import key
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting
from ecgbench.files import as_json, as_npy, as_parquet, put
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretraining import codebook, descriptors
from ecgbench.pretraining.codebook import Codebook
from ecgbench.pretraining.curve import Listener
from ecgbench.pretraining.kept_encoders import digests, read_encoder, write_encoder
from ecgbench.pretraining.labels import RECORDS as BATCH
from ecgbench.pretraining.labels import Codes, Describe, Nodes, codebooks
from ecgbench.pretraining.network import new_network
from ecgbench.pretraining.objective import MaskedNodes
from ecgbench.pretraining.output import read
from ecgbench.pretraining.pretrain import Data
from ecgbench.pretraining.stage import Execution
from ecgbench.pretraining.stage import run as train
from ecgbench.profiling.flop import FlopCounter
from ecgbench.results.ablation import (
    CELLS,
    RATES,
    RECORDS,
    STUDY,
    TRAINING,
    probability_file,
    probe_file,
)
from ecgbench.sealed import proved, seal, unsealed
from ecgbench.seeds import seed_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Session:
    """Where a study runs, where it is kept, and who follows it."""

    out: Path
    device: str
    name: str
    """The device in words."""
    progress: Display
    listener: Callable[[str], Listener]
    """Title of a training -> who hears of its steps."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Assembled:
    """What a study sees."""

    data: Data
    patients: Sequence[str]
    """Of the validation recordings of the development task."""
    labels: Sequence[str]


def run(
    study: Study, budget: Budget, found: Assembled, session: Session, only: Sequence[Cell] = ()
) -> None:
    """All that is missing of a study in `session.out`, or of some of its cells.

    The same study, budget and data give the same scores, however often it was interrupted, on one
    machine with one number of threads. BadSetting: the folder is of another study, budget or data,
    or another process works in it. BadWeights: a damaged file. WriteError.
    """
    otherwise = f"another process is at work in {session.out}; wait for it, or choose another --out"
    with files.locked(session.out, otherwise=otherwise):
        _Making(study, budget, found, session)(only or study.cells)


class _Making:
    """One study on one corpus."""

    def __init__(self, study: Study, budget: Budget, found: Assembled, session: Session) -> None:
        self.study, self.budget, self.found, self.session = study, budget, found, session
        self.data, self.out = found.data, session.out

    def __call__(self, cells: Sequence[Cell]) -> None:
        self._refuse_impossible()
        self._claim()
        rates = {cell.name: self._rates(cell) for cell in cells}
        total = self.budget.seeds * len(cells)
        with self.session.progress.stage(self.study.name, total, "cells") as advance:
            for seed in range(self.budget.seeds):
                for cell in cells:
                    self._cell(cell, seed, rates[cell.name])
                    advance(1)

    def _refuse_impossible(self) -> None:
        """BadSetting where a codebook could not be fitted, before a stage is lost by it."""
        recipe, corpus = self.budget.recipe, self.data.corpus
        most = max(self.study.sizes("codes", recipe.codes))
        if self.study.stage == 2:
            most = max(most, *self.study.sizes("refined", recipe.refined))
        segments = min(BATCH, len(corpus)) * len(LEADS) * corpus.samples // descriptors.SAMPLES
        if most > segments:
            raise BadSetting(
                f"a codebook of {most} codes from {len(corpus)} recordings: the first batch of the "
                f"clustering has {segments} segments; take more recordings (--records)"
            )

    def _claim(self) -> None:
        """Write down whose folder it is; BadSetting where it is of something else."""
        path = self.out / STUDY
        identity = {
            "study": self.study.name,
            "budget": self.budget.facts(),
            "datasets": self.data.prepared,
            "corpus": self.data.corpus.digest,
            "left_out": self.data.left_out,
            "trained_on": len(self.data.corpus),
            "learn": key({"records": self.data.development.learn.records}),
        }
        study = self.study
        about = {
            "title": study.title,
            "published": study.published,
            "stage": study.stage,
            "reference": study.reference,
            "cells": [cell.name for cell in study.cells],
            "not_reproduced": dict(study.not_reproduced),
            "task": self.data.development.task,
            "probe_records": len(self.data.development.learn.records),
        }
        files.sweep(self.out)
        if path.is_file():
            kept = read(path)
            if other := sorted(k for k in identity if kept.get(k) != identity[k]):
                raise BadSetting(
                    f"{path} is of another study: it differs in {', '.join(other)}; choose "
                    f"another --out"
                )
            return
        check = self.data.development.check
        table = pd.DataFrame({"record": check.records, "patient": list(self.found.patients)})
        for at, label in enumerate(self.found.labels):
            table[label] = check.target[:, at]
        put(self.out / RECORDS, as_parquet(table))
        put(path, as_json(proved({**identity, "about": about})))

    def _rates(self, cell: Cell) -> tuple[float, float]:
        """Learning rates of both stages: of several, that with the best probe at a seed of its own,
        stage by stage; of equals the first.
        """
        first, *more = self.budget.rates
        if not more:
            return first, first
        if self.study.stage == 1:
            best = self._best(cell.name, lambda rate: self._at(cell, (rate, rate)), cell.probe)
            return best, best
        shared = self._best("stage 1", lambda rate: self._at(cell, (rate, rate)).first, FROZEN)
        return shared, self._best(
            cell.name, lambda rate: self._at(cell, (shared, rate)), cell.probe
        )

    def _at(self, cell: Cell, rates: tuple[float, float]) -> Training:
        return self._training(cell, SWEPT, rates)

    def _best(self, name: str, of: Callable[[float], Training], kind: Probe) -> float:
        """The rate with the best score; all of them are kept in RATES."""
        rates, path = self.budget.rates, self.out / RATES
        scores = [self._score(of(rate), kind) for rate in rates]
        listed = unsealed(path) or {}
        row = {f"{rate:g}": score for rate, score in zip(rates, scores)}
        if listed.get(name) != row:
            seal(path, {**listed, name: row})
        return rates[scores.index(max(scores))]

    def _training(self, cell: Cell, seed: int, rates: Sequence[float]) -> Training:
        return training(self.study, self.budget, cell, seed=seed, rates=rates)

    def _cell(self, cell: Cell, seed: int, rates: tuple[float, float]) -> None:
        """One cell at one seed, and its line in CELLS."""
        wanted = self._training(cell, seed, rates)
        self._score(wanted, cell.probe)
        path = self.out / CELLS
        listed = unsealed(path) or {}
        line = {"training": wanted.key, "probe": cell.probe, "lr": rates[self.study.stage - 1]}
        row = {**listed.get(cell.name, {}), str(seed): line}
        if listed.get(cell.name) != row:
            seal(path, {**listed, cell.name: row})

    def _score(self, wanted: Training, kind: Probe) -> float:
        """Of the last step; trains and probes what is missing."""
        folder = self._folder(wanted)
        found = unsealed(folder / probe_file(kind))
        if found is None or not self._whole(folder, kind, found):
            found = self._probed(wanted, kind)
        self._tidy(wanted)
        return float(found["scores"][str(self.budget.steps)])

    def _folder(self, wanted: Training) -> Path:
        return self.out / "trainings" / wanted.key[:24]

    def _whole(self, folder: Path, kind: Probe, found: dict[str, Any]) -> bool:
        """Whether the probabilities of a probe are those that were written."""
        return all(
            (path := folder / probability_file(kind, int(step))).is_file()
            and files.sha256_of(path) == sha
            for step, sha in found["probabilities"].items()
        )

    def _probed(self, wanted: Training, kind: Probe) -> dict[str, Any]:
        told, folder = self._made(wanted), self._folder(wanted)
        if not all(self._encoder(folder, step).is_file() for step in self.budget.measured):
            # they were removed after another probe, or by somebody: the same come again
            (folder / TRAINING).unlink()
            told = self._made(wanted)
        scores, shas = {}, {}
        for step in self.budget.measured:
            encoder, _ = self._loaded(wanted, told, step)
            result = probes.measured(
                kind, encoder.to(self.session.device), self.data.development, self.budget.epochs
            )
            content = as_npy(result.probability)
            put(folder / probability_file(kind, step), content)
            scores[str(step)], shas[str(step)] = result.score, hashlib.sha256(content).hexdigest()
        found = {"probe": kind, "scores": scores, "probabilities": shas}
        seal(folder / probe_file(kind), found)
        shown = f"{scores['0']:.4f} before, {scores[str(self.budget.steps)]:.4f} after"
        self.session.progress.note(f"{wanted.title}, {kind} probe: {shown}")
        return found

    def _encoder(self, folder: Path, step: int) -> Path:
        return folder / f"encoder_{step:06d}.safetensors"

    def _loaded(
        self, wanted: Training, told: dict[str, Any], step: int
    ) -> tuple[NodeEncoder, torch.Tensor]:
        """The network of a finished training after a step, in evaluation mode, and its mask
        vector.
        """
        path = self._encoder(self._folder(wanted), step)
        network = new_network(wanted.recipe.model, wanted.recipe.shape)
        mask = read_encoder(path, network)
        if list(digests(network, mask)) != told["encoders"][str(step)]:
            raise BadSetting(
                f"{path} is not the network that was trained; remove {path.parent} and run the "
                f"same command again"
            )
        return network.eval(), mask

    def _tidy(self, wanted: Training) -> None:
        """Remove what nothing of this study asks for any more: networks of megabytes."""
        folder, kinds = self._folder(wanted), {cell.probe for cell in self.study.cells}
        if self.study.stage != wanted.stage or len(kinds) > 1:
            return
        for path in [*folder.glob("encoder_*.safetensors"), folder / "checkpoint.safetensors"]:
            path.unlink(missing_ok=True)

    def _made(self, wanted: Training) -> dict[str, Any]:
        """What training.json says; trains what is missing."""
        folder = self._folder(wanted)
        told = unsealed(folder / TRAINING)
        if told is not None:
            return told
        recipe, settings = wanted.recipe, wanted.recipe.stages[wanted.stage - 1]
        model, labels = self._start(wanted)
        kept: dict[str, list[str]] = {}

        def keep(step: int, model: MaskedNodes) -> None:
            if step in self.budget.measured:
                write_encoder(self._encoder(folder, step), model)

        began = time.perf_counter()
        keep(0, model)
        points = train(
            settings,
            model,
            self.data.corpus,
            labels,
            Execution(
                folder=folder,
                device=self.session.device,
                listener=self.session.listener(wanted.title),
                probe=keep,
            ),
        )
        network = new_network(recipe.model, recipe.shape)
        for step in self.budget.measured:
            mask = read_encoder(self._encoder(folder, step), network)
            kept[str(step)] = list(digests(network, mask))
        told = {
            "title": wanted.title,
            "encoders": kept,
            **_size(network, self.data.corpus.samples),
            "loss": points[-1].loss,
            "accuracy": points[-1].accuracy,
            "seconds": sum(p.seconds for p in points),
            "whole_seconds": time.perf_counter() - began,
            "device": self.session.name,
            "made_with": provenance.here(),
        }
        seal(folder / TRAINING, told)
        return told

    def _start(self, wanted: Training) -> tuple[MaskedNodes, Codes]:
        """A network with its first weights, and what it is to predict."""
        recipe, first = wanted.recipe, wanted.stage == 1
        sizes = recipe.codes if first else recipe.refined
        with torch.random.fork_rng(devices=[]):
            number = seed_of("pre-training weights", recipe.seed, wanted.stage - 1)
            torch.manual_seed(number % 2**63)
            model = MaskedNodes(new_network(recipe.model, recipe.shape), sizes)
        describe: Describe
        if first:
            describe = descriptors.preset(recipe.descriptor)
        else:
            before = wanted.first
            told = self._made(before)
            encoder, mask = self._loaded(before, told, self.budget.steps)
            if recipe.init == "previous":
                model.encoder.load_state_dict(encoder.state_dict())
                model.mask.data.copy_(mask)
            describe = Nodes(encoder.to(self.session.device), recipe.block)
        given = self.budget.recipe
        every = (
            self.study.sizes("codes", given.codes)
            if first
            else self.study.sizes("refined", given.refined)
        )
        books = self._codebooks(describe, every, recipe.seed)
        return model, Codes(describe, [books[size] for size in sizes])

    def _codebooks(
        self, describe: Describe, sizes: Iterable[int], seed: int
    ) -> dict[int, Codebook]:
        """One per size, the same for every cell of a seed; fitted once."""
        sizes, corpus = list(sizes), self.data.corpus
        of = key({"description": dict(describe.facts), "sizes": sizes, "seed": seed})
        folder = self.out / "codebooks" / of[:24]
        paths = {size: folder / f"codebook_{size}.npz" for size in sizes}
        if not all(path.is_file() for path in paths.values()):
            title = f"codebooks, seed {seed}"
            with self.session.progress.stage(title, len(corpus), "recordings") as advance:
                books = codebooks(
                    corpus,
                    describe,
                    sizes,
                    seed=seed,
                    device=self.session.device,
                    advance=advance,
                )
            for size, path in paths.items():
                books[size].save(path)
        return {size: codebook.load(path) for size, path in paths.items()}


@torch.no_grad()
def _size(network: NodeEncoder, samples: int) -> dict[str, Any]:
    """Parameters, those behind the embedder, and FLOP of one window of twelve leads."""
    every = sum(p.numel() for p in network.parameters())
    embedder: Any = getattr(network, "embedder", None)
    window, measured = torch.zeros(12, samples), torch.ones(1, 12, dtype=torch.bool)
    with FlopCounter() as counter:
        network.eval().outputs(network.embed_leads(window), measured, (network.depth,))
    own = sum(p.numel() for p in embedder.parameters()) if embedder is not None else 0
    return {"parameters": every, "encoder_parameters": every - own, "flop": counter.total}
