"""Do intervals and p hold what they promise? Simulated studies of known truth, scored by the
functions that score a run.

`python benchmarks/intervals.py [--part macro|label|pairs|best|folds] [--studies 2000] [--size 243
...]`. Two models of equal skill predict the labels of real records (ptbxl_labels.csv: fold 10 of a
sample of PTB-XL; a third of them; and its patients drawn with replacement to the size of the full
fold). A score is a shift where the record has the label, plus noise that the models share by half.
The shift gives each label its true AUROC; the truths are drawn anew every 20 studies.

Printed are the coverage of a macro AUROC's 95 % interval, how often equal models differ at p < 0.05
and p < 0.01 (macro); the coverage of one label's interval by its number of positives (label); how
often one of all pairs of six equal models is told apart, by max-t and by Holm (pairs); how often
the best of eight models of noise is said to be above chance, by its own interval and by that which
holds for all eight (best); and the same as the first over five folds, with whole probes (folds.py;
3 s a study).
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import folds
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ecgbench.core.seeds import rng
from ecgbench.stats.auroc import placements, wins
from ecgbench.stats.components import Components
from ecgbench.stats.paired import holm

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PARTS = ("macro", "label", "pairs", "best", "folds")
SIZES = (84, 243, 2191)
TASKS = ("super", "sub", "all")
DESIGNS = {
    "independent": "noise of its own per label",
    "labels alike": "half of what the models share is shared by the labels",
    "labels alike, own": "the same, also in what each model has of its own",
    "near 1": "true AUROCs 0.90 to 0.99",
    "near chance": "true AUROCs 0.50 to 0.55",
    "wide positives": "positives spread twice as far",
    "skew right": "exponential noise, long tail above",
    "skew left": "exponential noise, long tail below",
    "skew, near 1": "long tail above, true AUROCs 0.90 to 0.99",
    "clusters": "patients of 1 to 4 records whose noise correlates by 0.6",
    "other labels": "the second model has the same macro AUROC from other labels",
}
SKEWED = {"skew right": 1, "skew left": -1, "skew, near 1": 1}
REDRAWN_EVERY = 20
LABEL_LOW = {1: 0.89, 2: 0.93, 3: 0.92, 5: 0.93, 10: 0.93, 20: 0.93, 50: 0.93}
"""Worst coverage over designs and truths of one label's interval, as the recipe was published."""


@dataclass(frozen=True, eq=False)
class Records:
    """Labels of real records."""

    target: NDArray[np.int8]
    """(record, label), each label with both values."""
    patients: Ints


def records(size: int, task: str, clusters: bool = False) -> Records:
    """The 243 records; patients of them until there are `size` records; or, for more than 243,
    patients drawn with replacement.
    """
    table = pd.read_csv(
        Path(__file__).with_name("ptbxl_labels.csv"), comment="#", keep_default_na=False
    )
    labels = table[task].str.get_dummies(" ")
    target = labels[[c for c in labels if c]].to_numpy(np.int8)
    patients = table["patient"].to_numpy()
    random = rng("intervals", "records", size, task)
    if size != len(table):
        of = [np.flatnonzero(patients == p) for p in range(patients.max() + 1)]
        again = size > len(table)
        order = random.integers(0, len(of), size) if again else random.permutation(len(of))
        enough = int(np.searchsorted(np.cumsum([len(of[p]) for p in order]), size)) + 1
        drawn = [of[p] for p in order[:enough]]
        target = target[np.concatenate(drawn)]
        patients = np.repeat(np.arange(enough), [len(d) for d in drawn])
    if clusters:
        target, patients = _clustered(target, random)
    both = target.any(axis=0) & ~target.all(axis=0)
    return Records(target[:, both], np.unique(patients, return_inverse=True)[1])


def _clustered(
    target: NDArray[np.int8], random: np.random.Generator
) -> tuple[NDArray[np.int8], Ints]:
    """The records dealt to patients of 1 to 4, most of whom have one set of labels."""
    counts = random.integers(1, 5, len(target))
    patients = np.repeat(np.arange(len(target)), counts)[: len(target)]
    first = np.searchsorted(patients, patients)
    alike = random.random(len(target)) < 0.7
    return np.where(alike[:, None], target[first], target), patients


@dataclass(frozen=True, eq=False)
class Truth:
    """True AUROCs of the labels, and the shifts that give them."""

    auroc: Floats
    shift: Floats
    shift_of_second: Floats


def truth(design: str, labels: int, random: np.random.Generator) -> Truth:
    """Truths drawn evenly from the design's range."""
    low, high = {
        "near 1": (0.9, 0.99),
        "skew, near 1": (0.9, 0.99),
        "near chance": (0.5, 0.55),
    }.get(design, (0.6, 0.9))
    auroc = random.uniform(low, high, labels)
    shift = _shift(design, auroc)
    if design != "other labels":
        return Truth(auroc, shift, shift)
    apart = random.uniform(0, 0.1, labels)
    return Truth(auroc, shift, _shift(design, auroc + apart - apart.mean()))


def _shift(design: str, auroc: Floats) -> Floats:
    """Of the positives, that makes P(positive > negative) the AUROC."""
    if design in SKEWED:
        return np.asarray(-np.log(2 * (1 - auroc)))
    return np.asarray(ndtri(auroc) * np.sqrt(5 if design == "wide positives" else 2))


def scores(
    design: str, real: Records, true: Truth, random: np.random.Generator, models: int = 2
) -> list[Floats]:
    """Scores (record, label) of models of equal skill."""
    n, k = real.target.shape

    def normal(alike: bool) -> Floats:
        values = random.standard_normal((n, k))
        if alike:
            values = np.sqrt(0.5) * (values + random.standard_normal((n, 1)))
        if design == "clusters":
            of_patient = random.standard_normal((real.patients.max() + 1, k))[real.patients]
            values = np.sqrt(0.6) * of_patient + np.sqrt(0.4) * values
        return np.asarray(values)

    common = normal(design.startswith("labels alike"))
    made = []
    for model in range(models):
        noise = np.sqrt(0.5) * (common + normal(design == "labels alike, own"))
        if design in SKEWED:
            noise = -SKEWED[design] * np.log(ndtr(-noise))
        elif design == "wide positives":
            noise = noise * (1 + real.target)
        made.append((true.shift_of_second if model else true.shift) * real.target + noise)
    return made


def components(real: Records, scored: Sequence[Floats]) -> Components:
    """As a run makes them from predictions."""
    placed = [placements(real.target, wins(real.target, s)) for s in scored]
    return Components(real.target, real.patients, np.stack(placed))


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the result; shares of the studies."""

    size: int
    task: str
    design: str
    coverage: float = np.nan
    p05: float = np.nan
    p01: float = np.nan
    above: float = np.nan
    """Noise that is said to be above chance."""


def macro(size: int, task: str, design: str, studies: int, seed: int = 0) -> Line:
    """Coverage of one model's macro, and p of its difference from an equal one."""
    random = rng("intervals", "macro", size, task, design, seed)
    real = records(size, task, design == "clusters")
    truths, covered, p = _truths(design, real, random), 0, []
    for i in range(studies):
        true = truths(i)
        made = components(real, scores(design, real, true, random))
        low, high = made.interval(0)
        covered += low <= float(true.auroc.mean()) <= high
        p.append(made.difference(0, 1).p)
    p05, p01 = (float(np.mean(np.array(p) < level)) for level in (0.05, 0.01))
    return Line(size=size, task=task, design=design, coverage=covered / studies, p05=p05, p01=p01)


def _truths(design: str, real: Records, random: np.random.Generator) -> Callable[[int], Truth]:
    kept: list[Truth] = []

    def of(study: int) -> Truth:
        if study % REDRAWN_EVERY == 0:
            kept[:] = [truth(design, real.target.shape[1], random)]
        return kept[0]

    return of


def label(positives: int, design: str, auroc: float, studies: int, negatives: int = 240) -> Line:
    """Coverage of the interval of one label."""
    random = rng("intervals", "label", positives, design, int(1000 * auroc))
    target = (np.arange(positives + negatives) < positives).astype(np.int8)[:, None]
    real, value = Records(target, np.arange(len(target))), np.array([auroc])
    true, covered = Truth(value, _shift(design, value), _shift(design, value)), 0
    for _ in range(studies):
        low, high = components(real, scores(design, real, true, random, 1)).label_interval(0, 0)
        covered += low <= auroc <= high
    task = f"AUROC {auroc:g}"
    return Line(size=positives, task=task, design=design, coverage=covered / studies)


def joint(
    size: int, task: str, design: str, studies: int, models: int = 6, draws: int = 1000
) -> list[Line]:
    """How often one of all pairs of equal models is told apart at 5 %: by max-t and by Holm."""
    random = rng("intervals", "joint", size, task, design)
    real = records(size, task, design == "clusters")
    truths, one = _truths(design, real, random), np.eye(models)
    pairs = [one[a] - one[b] for a in range(models) for b in range(a)]
    wrong = {"max-t": 0, "Holm": 0, "each pair alone": 0}
    for i in range(studies):
        made = components(real, scores(design, real, truths(i), random, models))
        found = [made.contrast(c) for c in pairs]
        t = np.array([abs(e.value) / e.se if e.se else 0.0 for e in found])
        normal = random.standard_normal((draws, made.patients))
        largest = np.nanmax(np.abs(made.joint(pairs, normal, random)), axis=1)
        wrong["max-t"] += bool(t.max() > np.quantile(largest, 0.95))
        p = [e.p for e in found]
        wrong["Holm"] += bool(holm(p).min() < 0.05)
        wrong["each pair alone"] += min(p) < 0.05
    return [
        Line(size=size, task=task, design=f"{design}: {how}", p05=count / studies)
        for how, count in wrong.items()
    ]


def best(size: int, task: str, studies: int, models: int = 8, draws: int = 1000) -> list[Line]:
    """How often the best of several models of noise is said to be above chance."""
    random = rng("intervals", "best", size, task)
    real = records(size, task)
    nothing = np.zeros(real.target.shape[1])
    true, each = Truth(nothing + 0.5, nothing, nothing), np.eye(models)
    above = {"its own interval": 0, "that of all eight": 0}
    for _ in range(studies):
        made = components(real, scores("independent", real, true, random, models))
        first = int(np.argmax(made.values))
        found = made.row(first)
        normal = random.standard_normal((draws, made.patients))
        t = float(np.quantile(np.abs(made.joint(each, normal, random)).max(axis=1), 0.95))
        above["its own interval"] += found.as_share().low > 0.5
        above["that of all eight"] += found.as_share(max(t, found.t)).low > 0.5
    return [
        Line(size=size, task=task, design=f"best of eight: {how}", above=count / studies)
        for how, count in above.items()
    ]


def lines(part: str, sizes: Sequence[int], studies: int) -> Iterator[Line]:
    """All lines of a part, one after the other."""
    small = [size for size in sizes if size < 1000]
    if part == "macro":
        each = ((size, task, design) for size in sizes for task in TASKS for design in DESIGNS)
        yield from (macro(*one, studies) for one in each)
    if part == "label":
        for positives in LABEL_LOW:
            for design in ("independent", "wide positives", "skew right", "skew left"):
                for auroc in (0.55, 0.7, 0.8, 0.9, 0.95, 0.99):
                    yield label(positives, design, auroc, studies)
    if part == "pairs":
        for size in small:
            for design in ("independent", "labels alike, own", "clusters"):
                yield from joint(size, "sub", design, studies)
    if part == "best":
        for size in small:
            for task in TASKS:
                yield from best(size, task, studies)


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--studies", type=int, default=2000, help="per line (2000)")
    parser.add_argument("--size", type=int, action="append", help="84, 243, 2191")
    parser.add_argument("--part", choices=PARTS, action="append", help="one or more (all)")
    parser.add_argument("--processes", type=int, default=2, help="of the part folds (2)")
    options = parser.parse_args()
    parts = options.part or PARTS
    if "folds" in parts:
        folds.report(options.studies, options.processes)
    print(f"size {'task':<10} {'design':<36} covers  p<.05  p<.01  above")
    for line in (
        one for part in parts for one in lines(part, options.size or SIZES, options.studies)
    ):
        values = line.coverage, line.p05, line.p01, line.above
        numbers = "  ".join(f"{100 * x:5.1f}" for x in values)
        print(f"{line.size:>4} {line.task:<10} {line.design:<36} {numbers}", flush=True)


if __name__ == "__main__":
    main()
