"""A study at a budget: every training once, every probe once, whatever was interrupted.

    OUT/ablation.json          study, budget, digests of the data, cells: what the table rests on
        records.parquet        recordings that cells are compared on, patients, labels; made again
                               where it is gone
        codebooks/KEY/         codebook_50.npz ...: one set for all cells of a seed
        trainings/KEY/         training.json once it is finished, and of the stage before that
                               checkpoint.safetensors, curve.csv; encoder_000150.safetensors
                               as long as something still needs it, encoders.json with digests
                  frozen.json  scores of a probe after 0, half and all steps
                  frozen_000150.npy   (record, label) probabilities
        cells.json             which training each cell has at each seed
        rates.json             scores of the learning rates that were tried, if several

A key is the hash of what a training chooses. Study, budget and data are the same in a folder: what
its files say of them is compared, so that those of another study are not taken for its own. Times
stand in training.json and in no table.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.ablation import probes
from ecgbench.ablation.budget import SWEPT, Budget, Training, training
from ecgbench.ablation.studies import FROZEN, Cell, Probe, Study
from ecgbench.ablation.trained import Trainings
from ecgbench.core import files
from ecgbench.core.cells import key
from ecgbench.core.files import as_json, as_npy, as_parquet, proved, put, put_proved, read_proved
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting
from ecgbench.pretraining import descriptors
from ecgbench.pretraining.labels import RECORDS as BATCH
from ecgbench.pretraining.output import read
from ecgbench.pretraining.pretrain import Data, Session
from ecgbench.results.ablation import (
    CELLS,
    RATES,
    RECORDS,
    STUDY,
    is_of,
    probability_file,
    probe_file,
    records_digest,
    work_of,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Assembled:
    """What a study sees."""

    data: Data
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
        self.work = self._claim()
        self.trainings = Trainings(self.study, self.budget, self.data, self.session, self.work)
        rates = {cell.name: self._rates(cell) for cell in cells}
        total = len(self.budget.numbers) * len(cells)
        with self.session.progress.stage(self.study.name, total, "cells") as advance:
            for seed in self.budget.numbers:
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
                f"clustering has {segments} segments; take more recordings (--set records)"
            )

    def _claim(self) -> str:
        """Write down whose folder it is, and `work_of` that; BadSetting where it is of something
        else.
        """
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
        before: dict[str, Any] = {}
        if path.is_file():
            kept = read(path)
            if other := sorted(k for k in identity if kept.get(k) != identity[k]):
                raise BadSetting(
                    f"{path} is of another study: it differs in {', '.join(other)}; choose "
                    f"another --out"
                )
            before = kept["about"]
        compared = self._compared_on()
        asked = {
            "compared": compared,
            "seeds": max(self.budget.seeds, before.get("seeds", 0)),
        }
        facts = {**identity, "about": {**(before or about), **asked}}
        if before | asked != before:
            put(path, as_json(proved(facts)))
        return work_of(facts)

    def _compared_on(self) -> str:
        """Write down the recordings that cells are compared on, where they are not there; their
        digest.
        """
        check, path = self.data.development.check, self.out / RECORDS
        table = pd.DataFrame({"record": check.records, "patient": check.patients})
        for at, label in enumerate(self.found.labels):
            table[label] = check.target[:, at]
        wanted = records_digest(table)
        try:
            there = path.is_file() and records_digest(pd.read_parquet(path)) == wanted
        except (OSError, ValueError, KeyError):
            there = False
        if not there:
            put(path, as_parquet(table))
        return wanted

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
        listed = read_proved(path) or {}
        row = {f"{rate:g}": score for rate, score in zip(rates, scores)}
        if listed.get(name) != row:
            put_proved(path, {**listed, name: row})
        return rates[scores.index(max(scores))]

    def _training(self, cell: Cell, seed: int, rates: Sequence[float]) -> Training:
        return training(self.study, self.budget, cell, seed=seed, rates=rates)

    def _cell(self, cell: Cell, seed: int, rates: tuple[float, float]) -> None:
        """One cell at one seed, and its line in CELLS."""
        wanted = self._training(cell, seed, rates)
        self._score(wanted, cell.probe)
        path = self.out / CELLS
        listed = read_proved(path) or {}
        line = {"training": wanted.key, "probe": cell.probe, "lr": rates[self.study.stage - 1]}
        row = {**listed.get(cell.name, {}), str(seed): line}
        if listed.get(cell.name) != row:
            put_proved(path, {**listed, cell.name: row})

    def _score(self, wanted: Training, kind: Probe) -> float:
        """Of the last step; trains and probes what is missing."""
        folder = self.trainings.folder(wanted)
        found = read_proved(folder / probe_file(kind))
        known = found is not None and is_of(found, wanted.key, self.work)
        if found is None or not known or not self._whole(folder, kind, found):
            found = self._probed(wanted, kind)
        self.trainings.tidy(wanted)
        return float(found["scores"][str(self.budget.steps)])

    def _whole(self, folder: Path, kind: Probe, found: dict[str, Any]) -> bool:
        """Whether the probabilities of a probe are those that were written."""
        return all(
            (path := folder / probability_file(kind, int(step))).is_file()
            and files.sha256_of(path) == sha
            for step, sha in found["probabilities"].items()
        )

    def _probed(self, wanted: Training, kind: Probe) -> dict[str, Any]:
        told, folder = self.trainings.networks(wanted), self.trainings.folder(wanted)
        scores, shas = {}, {}
        for step in self.budget.measured:
            encoder, _ = self.trainings.loaded(wanted, told, step)
            result = probes.measured(
                kind, encoder.to(self.session.device), self.data.development, self.budget.epochs
            )
            content = as_npy(result.probability)
            put(folder / probability_file(kind, step), content)
            scores[str(step)], shas[str(step)] = result.score, hashlib.sha256(content).hexdigest()
        found = {
            "training": wanted.key,
            "work": self.work,
            "probe": kind,
            "scores": scores,
            "probabilities": shas,
        }
        put_proved(folder / probe_file(kind), found)
        shown = f"{scores['0']:.4f} before, {scores[str(self.budget.steps)]:.4f} after"
        self.session.progress.note(f"{wanted.title}, {kind} probe: {shown}")
        return found
