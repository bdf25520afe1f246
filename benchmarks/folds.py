"""Cross-validated studies of known truth with whole probes: see `intervals.py --part folds`.

Patients are dealt to five folds as a run deals them. Each fold is tested by a probe that chooses
its penalty and is fitted as the protocol `probe` does, and the folds are scored by the functions
that score a run. Features are normal; half of their variance is shared by the two models, and 60 %
of it by the recordings of a patient. A label shifts one feature of its own. Every fit's true AUROC
is that in 4,000 other recordings; the truth of a design is its mean over all fits.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgbench.core.seeds import rng
from ecgbench.datasets.indexing.folds import batched, turns_of
from ecgbench.evaluate.protocols.probe import Examples, Windows, probe
from ecgbench.results.evidence import Fold, ordered, over
from ecgbench.stats import operating
from ecgbench.stats.auroc import placements, wins
from ecgbench.stats.clustered import Influence, Patients
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
    Design(100, 12, 4, shift=0.7),
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


@dataclass(frozen=True, eq=False)
class Studied:
    """What one model predicts in a study, and the truth of its fits."""

    folds: list[Predicted]
    thresholds: Floats
    """(fold, label) at 95 % specificity, from records that the fold did not test."""
    aurocs: Floats
    """(fold, label) in other recordings."""
    sensitivities: Floats
    """(fold, label) at the thresholds, in other recordings."""


def studied(design: Design, number: int) -> list[Studied]:
    """Each model in one study."""
    random = rng("folds", str(design), number)
    whose, target, features = drawn(design, design.patients, random)
    _, other, others = drawn(design, OTHERS // design.each, random)
    names = [f"P{n}" for n in whose]
    present = [[str(k) for k in np.flatnonzero(row)] for row in target]
    fold = batched("study", names, present, FOLDS, turns_of(names, 10_000))
    return [
        _model(design, fold, (names, target, own), (other, more))
        for own, more in zip(features, others)
    ]


def _model(
    design: Design, fold: Any, tested: tuple[Any, Any, Any], other: tuple[Any, Any]
) -> Studied:
    names, target, own = tested
    folds: list[Predicted] = []
    at, aurocs, found = (np.zeros((FOLDS, design.labels)) for _ in range(3))
    for n in range(FOLDS):
        learn = fold != n + 1
        each = Windows(features=own[learn], record_of=np.arange(learn.sum()))
        patients = [name for name, there in zip(names, learn) if there]
        examples = Examples(patients=patients, target=target[learn], fitted=each, complete=each)
        made = probe(0, examples, lambda _: None)
        head = made.last

        def scored(rows: Any, weight: Any = head.weight, bias: Any = head.bias) -> Floats:
            return np.asarray(1 / (1 + np.exp(-(rows @ weight.T + bias))))

        folds.append(
            Predicted(
                records=[f"{name}-{i}" for i, name in enumerate(names) if not learn[i]],
                patients=np.array(names)[~learn],
                labels=[str(k) for k in range(design.labels)],
                target=target[~learn],
                probability=scored(own[~learn]),
            )
        )
        there, truth = scored(other[1]), other[0]
        at[n] = operating.threshold(target[learn].T == 1, made.held_out.T, "specificity", 0.95)
        won = placements(truth, wins(truth, there))
        aurocs[n] = (won * truth).sum(axis=0) / truth.sum(axis=0)
        found[n] = ((there >= at[n]) * truth).sum(axis=0) / truth.sum(axis=0)
    return Studied(folds, at, aurocs, found)


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


def sensitivities(one: Studied, grown: bool) -> Influence:
    """(label,) as the report of operating points has them."""
    growth = 1 + FOLDS / (FOLDS - 1) if grown else 1.0
    flagged = np.concatenate([f.probability >= at for f, at in zip(one.folds, one.thresholds)]).T
    target = np.concatenate([f.target for f in one.folds]).T == 1
    patients = Patients.of(np.concatenate([f.patients for f in one.folds]))
    return operating.rates(target, flagged, replace(patients, growth=growth)).sensitivity


def study(design: Design, number: int) -> dict[str, Any]:
    """What one study says, and its truth."""
    every = studied(design, number)
    models = [one.folds for one in every]
    row: dict[str, Any] = {"truth": np.mean([one.aurocs for one in every], axis=(0, 1))}
    row["found"] = np.mean([one.sensitivities for one in every], axis=(0, 1))
    for grown in (True, False):
        made = components(models, grown)
        row[f"interval {grown}"] = made.interval(0)
        row[f"p {grown}"] = made.difference(0, 1).p
        row[f"labels {grown}"] = [made.label_interval(0, k) for k in range(len(made.names))]
        row["names"] = list(made.names)
        row[f"shares {grown}"] = np.stack(sensitivities(every[0], grown).share_interval())
    return row


def line(design: Design, studies: int, processes: int = 1) -> dict[str, Any]:
    """Shares of the studies in %."""
    if processes > 1:
        with ProcessPoolExecutor(processes) as pool:
            rows = list(pool.map(partial(study, design), range(studies), chunksize=5))
    else:
        rows = [study(design, n) for n in range(studies)]
    truth = np.mean([row["truth"] for row in rows], axis=0)
    mean = truth.mean()
    found: dict[str, Any] = {"design": str(design), "true": 100 * mean}
    share = np.mean([row["found"] for row in rows], axis=0)
    for grown in (True, False):
        ends = np.array([row[f"interval {grown}"] for row in rows])
        p = np.array([row[f"p {grown}"] for row in rows])
        labels = [
            (low, high, truth[int(name)])
            for row in rows
            for name, (low, high) in zip(row["names"], row[f"labels {grown}"])
        ]
        low, high = np.stack([row[f"shares {grown}"] for row in rows], axis=1)
        holds = (low <= share) & (share <= high)
        low, high, at = np.array(labels).T
        mark = "" if grown else " without"
        found |= {
            f"covers{mark}": 100 * np.mean((ends[:, 0] <= mean) & (mean <= ends[:, 1])),
            f"above{mark}": 100 * np.mean(ends[:, 0] > 0.5),
            f"p<.05{mark}": 100 * np.mean(p < 0.05),
            f"label covers{mark}": 100 * np.mean((low <= at) & (at <= high)),
            f"label above{mark}": 100 * np.mean(low > 0.5),
            f"sensitivity covers{mark}": 100 * np.mean(holds),
        }
    return found


def report(studies: int, processes: int) -> None:
    """Print a line for each design: with what folds have in common, and without it."""
    for design in DESIGNS:
        numbers = line(design, studies, processes)
        print(
            "; ".join(f"{name} {value:.1f}" for name, value in numbers.items() if name != "design")
        )
        print(f"    {design}", flush=True)
