"""Cross-validated studies of known truth with whole probes: see `intervals.py --part folds`.

Patients are dealt to five folds as a run deals them. Each fold is tested by a probe that chooses its
penalty and is fitted as the protocol `probe` does, and the folds are scored by the functions that
score a run. Features are normal; half of their variance is shared by the two models, and 60 % of it
by the recordings of a patient. A label shifts one feature of its own. Every fit's true AUROC is that
in 4,000 other recordings; the truth of a design is its mean over all fits.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ecgbench.core.seeds import rng
from ecgbench.datasets.indexing.folds import batched, turns_of
from ecgbench.evaluate.protocols.probe import Examples, Windows, probe
from ecgbench.results.evidence import Fold, ordered, over
from ecgbench.stats import operating
from ecgbench.stats.auroc import macro_auroc, placements, wins
from ecgbench.stats.clustered import Estimate, Patients
from ecgbench.stats.components import Components
from ecgbench.study.scores import Predicted

Floats = NDArray[np.float64]
FOLDS = 5
OTHERS = 4000
METRIC = "auroc"


@dataclass(frozen=True)
class Design:
    """A kind of study."""

    patients: int
    features: int
    labels: int
    shift: float = 0.0
    """Of a label's feature; 0: noise."""
    each: int = 1
    """Recordings of a patient."""
    models: int = 2

    def __str__(self) -> str:
        skill = f", shift {self.shift:g}" if self.shift else ", noise"
        each = f" x {self.each}" if self.each > 1 else ""
        return (
            f"{self.patients}{each} patients, {self.features} features, {self.labels} labels{skill}"
        )


DESIGNS = (
    Design(100, 12, 4),
    Design(200, 24, 4),
    Design(60, 12, 1),
    Design(100, 12, 4, shift=0.9),
    Design(40, 12, 4, each=3),
    Design(100, 100, 5),
    Design(60, 12, 1, shift=2.5),
    Design(200, 24, 2, shift=1.5, each=3),
)


def drawn(design: Design, patients: int, random: np.random.Generator) -> tuple[Any, Any, Any]:
    """Of each recording: number of the patient, target (recording, label), features of each model
    (model, recording, feature).
    """
    whose = np.repeat(np.arange(patients), design.each)
    common = np.linspace(0.2, 0.5, design.labels) if design.labels > 1 else np.array([0.35])
    target = (random.random((patients, design.labels)) < common)[whose].astype(np.int8)

    def noise() -> Floats:
        shape = patients, design.features
        own = random.standard_normal((len(whose), design.features))
        if design.each == 1:
            return own
        return np.asarray(np.sqrt(0.6) * random.standard_normal(shape)[whose] + np.sqrt(0.4) * own)

    shared = noise()
    made = np.stack([np.sqrt(0.5) * (shared + noise()) for _ in range(design.models)])
    made[:, :, : design.labels] += design.shift * target
    return whose, target, made.astype(np.float32)


def predicted(design: Design, study: int) -> tuple[list[list[Predicted]], Floats]:
    """Of each model its folds, and (model, fold, label) true AUROCs of its fits."""
    random = rng("folds", str(design), study)
    whose, target, features = drawn(design, design.patients, random)
    _, other, others = drawn(design, OTHERS // design.each, random)
    names = [f"P{n}" for n in whose]
    present = [[str(k) for k in np.flatnonzero(row)] for row in target]
    fold = batched("study", names, present, FOLDS, turns_of(names, 10_000))
    made, truth = [], np.zeros((design.models, FOLDS, design.labels))
    for model, own in enumerate(features):
        folds = []
        for n in range(FOLDS):
            learn = fold != n + 1
            each = Windows(features=own[learn], record_of=np.arange(learn.sum()))
            patients = [name for name, there in zip(names, learn) if there]
            examples = Examples(patients=patients, target=target[learn], fitted=each, complete=each)
            head = probe(0, examples, lambda _: None).last
            logit = own @ head.weight.T + head.bias
            folds.append(
                Predicted(
                    records=[f"{name}-{i}" for i, name in enumerate(names) if not learn[i]],
                    patients=np.array(names)[~learn],
                    labels=[str(k) for k in range(design.labels)],
                    target=target[~learn],
                    probability=1 / (1 + np.exp(-logit[~learn])),
                )
            )
            there = others[model] @ head.weight.T + head.bias
            won = placements(other, wins(other, there))
            truth[model, n] = (won * other).sum(axis=0) / other.sum(axis=0)
        made.append(folds)
    return made, truth


def components(models: Sequence[Sequence[Predicted]], grown: bool = True) -> Components:
    """As a run makes them; grown: with what folds have in common."""
    folds = [
        Fold(
            [[partial(ordered, METRIC, one)] for one in own],
            "undefined",
            1 / (FOLDS - 1) if grown else 0.0,
        )
        for own in zip(*models)
    ]
    return over(folds).components


def rates(models: Sequence[Sequence[Predicted]]) -> list[Estimate]:
    """Sensitivity of each label of the first model at 95 % specificity in each fold."""
    (own, *_) = models
    every = Patients.of(np.concatenate([one.patients for one in own]))
    target = np.concatenate([one.target for one in own]).T == 1
    flagged = np.concatenate(
        [
            (
                one.probability
                >= operating.threshold(one.target.T == 1, one.probability.T, "specificity", 0.95)[
                    None
                ]
            )
            for one in own
        ]
    ).T
    return [operating.rates(t, f, every).sensitivity for t, f in zip(target, flagged)]


def study(design: Design, number: int) -> dict[str, Any]:
    """What one study says, and its truth."""
    models, truth = predicted(design, number)
    row: dict[str, Any] = {"truth": truth.mean(axis=(0, 1))}
    for grown in (True, False):
        made = components(models, grown)
        row[f"interval {grown}"] = made.interval(0)
        row[f"p {grown}"] = made.difference(0, 1).p
        row[f"labels {grown}"] = [made.label_interval(0, k) for k in range(len(made.names))]
        row["names"] = list(made.names)
    return row


def line(design: Design, studies: int, processes: int = 1) -> dict[str, Any]:
    """Shares of the studies in %."""
    if processes > 1:
        with ProcessPoolExecutor(processes) as pool:
            rows = list(pool.map(partial(study, design), range(studies), chunksize=5))
    else:
        rows = [study(design, n) for n in range(studies)]
    truth = np.mean([row["truth"] for row in rows], axis=0)
    found: dict[str, Any] = {"design": str(design), "true": 100 * truth.mean()}
    for grown in (True, False):
        ends = np.array([row[f"interval {grown}"] for row in rows])
        p = np.array([row[f"p {grown}"] for row in rows])
        labels = [
            (low, high, truth[int(name)])
            for row in rows
            for name, (low, high) in zip(row["names"], row[f"labels {grown}"])
        ]
        low, high, at = np.array(labels).T
        mark = "" if grown else " without"
        found |= {
            f"covers{mark}": 100
            * np.mean((ends[:, 0] <= truth.mean()) & (truth.mean() <= ends[:, 1])),
            f"above{mark}": 100 * np.mean(ends[:, 0] > 0.5),
            f"p<.05{mark}": 100 * np.mean(p < 0.05),
            f"label covers{mark}": 100 * np.mean((low <= at) & (at <= high)),
            f"label above{mark}": 100 * np.mean(low > 0.5),
        }
    return found
