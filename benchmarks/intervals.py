"""Do intervals and p hold what they promise? Simulated studies of known truth, scored by the
functions that score a run.

`python benchmarks/intervals.py [--studies 2000] [--part macro --part label ...] [--to FILE.csv]`.
Two models of equal skill predict the labels of real records (ptbxl_labels.csv: fold 10 of a sample
of PTB-XL; a third of them; and its patients drawn with replacement to the size of the full fold).
A score is a shift where the record has the label, plus noise that the models share by half. The
shift gives each label its true AUROC; the truths are drawn anew every 20 studies.

Parts: `macro` (coverage of a macro AUROC's 95 % interval, and how often equal models differ at
p < 0.05 and p < 0.01), `fixed` (the same for 12 truths that stay), `label` (coverage of one label's
interval by its number of positives), `joint` (max-t and Holm over all pairs of six equal models),
`bootstrap` (what the bootstraps over patients and over records cover, for comparison), `folds`
(cross-validation of 100 patients: coverage of the mean over folds, whose fits have other true
AUROCs and score higher or lower as a whole; and what scores without skill get on average, within
folds and pooled over them). Each line says whether it keeps its limit, beyond two Monte Carlo
standard errors.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ecgbench.core.cells import Cell, Fit
from ecgbench.core.seeds import rng
from ecgbench.datasets.indexing.folds import stratified
from ecgbench.ecg.draw import Count
from ecgbench.results.evidence import evidence
from ecgbench.results.score import Scored
from ecgbench.stats.auroc import auroc, placements, wins
from ecgbench.stats.bootstrap import (
    label_replicates,
    macro_replicates,
    patient_weights,
    percentile_interval,
)
from ecgbench.stats.components import Components
from ecgbench.stats.paired import holm
from ecgbench.study.scores import Predicted, prediction_table, score_table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PARTS = ("macro", "fixed", "label", "joint", "bootstrap", "folds")
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
LOW, HIGH, HIGH_NEAR_CHANCE, LOW_FIXED = 0.93, 0.985, 0.99, 0.92
P05, P01, FAMILY = 0.06, 0.015, 0.06
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


@dataclass
class Line:
    """One line of the result."""

    part: str
    size: int
    task: str
    design: str
    studies: int
    labels: int
    coverage: float = np.nan
    truth_below: float = np.nan
    truth_above: float = np.nan
    width: float = np.nan
    """Mean width of the interval."""
    p05: float = np.nan
    p01: float = np.nan
    df: float = np.nan
    """Median degrees of freedom."""
    null: float = np.nan
    """Mean AUROC of scores without skill."""
    kept: bool = True
    """Whether the limits are kept, beyond two standard errors."""


def error(share: float, studies: int) -> float:
    """Two Monte Carlo standard errors of a share."""
    return 2 * float(np.sqrt(max(share * (1 - share), 1e-4) / studies))


def macro(size: int, task: str, design: str, studies: int, seed: int = 0) -> Line:
    """Coverage of one model's macro, and p of its difference from an equal one."""
    random = rng("intervals", "macro", size, task, design, seed)
    real = records(size, task, design == "clusters")
    return _macro(
        "macro", (size, task, design), real, studies, _truths(design, real, random), random
    )


def fixed(size: int, task: str, design: str, studies: int, vector: int) -> Line:
    """The same for one truth that stays."""
    random = rng("intervals", "fixed", size, task, design, vector)
    real = records(size, task, design == "clusters")
    true = truth(design, real.target.shape[1], random)
    return _macro("fixed", (size, task, design), real, studies, lambda i: true, random)


def _truths(design: str, real: Records, random: np.random.Generator) -> Callable[[int], Truth]:
    kept: list[Truth] = []

    def of(study: int) -> Truth:
        if study % REDRAWN_EVERY == 0:
            kept[:] = [truth(design, real.target.shape[1], random)]
        return kept[0]

    return of


def _macro(
    part: str,
    cell: tuple[int, str, str],
    real: Records,
    studies: int,
    truths: Callable[[int], Truth],
    random: np.random.Generator,
) -> Line:
    missed, widths, p, df = [0, 0], 0.0, [], []
    for i in range(studies):
        true = truths(i)
        made = components(real, scores(cell[2], real, true, random))
        one, both, expected = made.row(0), made.difference(0, 1), float(true.auroc.mean())
        low, high = made.interval(0)
        missed[0] += expected < low
        missed[1] += expected > high
        widths += high - low
        p.append(both.p)
        df.append(one.df)
    share = 1 - sum(missed) / studies
    p05, p01 = (float(np.mean(np.array(p) < level)) for level in (0.05, 0.01))
    lowest = LOW_FIXED if part == "fixed" else LOW
    highest = HIGH_NEAR_CHANCE if cell[2] == "near chance" else HIGH
    kept = lowest - error(lowest, studies) <= share
    if part == "macro":
        kept = kept and share <= highest + error(highest, studies)
        kept = kept and p05 <= P05 + error(P05, studies) and p01 <= P01 + error(P01, studies)
    return Line(
        part=part,
        size=cell[0],
        task=cell[1],
        design=cell[2],
        studies=studies,
        labels=real.target.shape[1],
        coverage=share,
        truth_below=missed[0] / studies,
        truth_above=missed[1] / studies,
        width=widths / studies,
        p05=p05,
        p01=p01,
        df=float(np.median(df)),
        kept=bool(kept),
    )


def label(positives: int, design: str, auroc: float, studies: int, negatives: int = 240) -> Line:
    """Coverage of the interval of one label."""
    random = rng("intervals", "label", positives, design, int(1000 * auroc))
    target = (np.arange(positives + negatives) < positives).astype(np.int8)[:, None]
    real, value = Records(target, np.arange(len(target))), np.array([auroc])
    true, missed, widths = Truth(value, _shift(design, value), _shift(design, value)), [0, 0], 0.0
    for _ in range(studies):
        low, high = components(real, scores(design, real, true, random, 1)).label_interval(0, 0)
        missed[0] += auroc < low
        missed[1] += auroc > high
        widths += high - low
    share = 1 - sum(missed) / studies
    limit = LABEL_LOW.get(positives, LOW)
    return Line(
        part="label",
        size=positives,
        task=f"AUROC {auroc:g}",
        design=design,
        studies=studies,
        labels=1,
        coverage=share,
        truth_below=missed[0] / studies,
        truth_above=missed[1] / studies,
        width=widths / studies,
        kept=limit - error(limit, studies) <= share,
    )


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
        Line(
            part="joint",
            size=size,
            task=task,
            design=f"{design}: {how}",
            studies=studies,
            labels=real.target.shape[1],
            p05=count / studies,
            kept=how == "each pair alone" or count / studies <= FAMILY + error(FAMILY, studies),
        )
        for how, count in wrong.items()
    ]


def bootstrap(size: int, task: str, studies: int, draws: int = 400) -> list[Line]:
    """What percentile intervals of the bootstraps cover: shown beside, no limit."""
    random, design = rng("intervals", "bootstrap", size, task), "independent"
    real = records(size, task)
    truths, lines = _truths(design, real, random), []
    missed = {"bayesian": [0, 0], "multinomial": [0, 0], "records": [0, 0]}
    for i in range(studies):
        true = truths(i)
        scored, expected = scores(design, real, true, random, 1)[0], float(true.auroc.mean())
        for kind, count in missed.items():
            units = np.arange(len(real.target)) if kind == "records" else real.patients
            weights = patient_weights(
                units, draws, random, "bayesian" if kind == "bayesian" else "multinomial"
            )
            replicates = label_replicates(real.target, scored, weights)
            low, high = percentile_interval(
                macro_replicates(replicates, np.ones(replicates.shape[1], bool))[0]
            )
            count[0] += expected < low
            count[1] += expected > high
    for kind, (below, above) in missed.items():
        lines.append(
            Line(
                part="bootstrap",
                size=size,
                task=task,
                design=kind,
                studies=studies,
                labels=real.target.shape[1],
                coverage=1 - (below + above) / studies,
                truth_below=below / studies,
                truth_above=above / studies,
            )
        )
    return lines


def cross_validated(
    target: Ints, fold: Ints, scored: Floats, labels: Sequence[str]
) -> list[Scored]:
    """The cells of one row over folds, as a run scores them."""
    cells = []
    for k in np.unique(fold):
        mine = np.flatnonzero(fold == k)
        names = [f"{i:04d}" for i in mine]
        table = prediction_table(
            {"record": names, "patient": names}, labels, scored[mine], target[mine].astype(np.int8)
        )
        fit = Fit(task="t", model="m", contract="paper", weights="random", seed=0, fold=str(k))
        cells.append(
            Scored(
                cell=Cell(fit=fit, task="t", setting=Count(12, 0), policy="zero"),
                metric="auroc",
                columns={
                    name: column.to_numpy()
                    for name, column in score_table(["auroc"], table).items()
                },
                replicates=np.empty(0),
                lost=0,
                bootstrap="none",
                records=str(k),
                distinct=float("nan"),
                n_distinct=0,
                same_as=(),
                predictions=lambda table=table: Predicted.of(table),
            )
        )
    return cells


def over_folds(patients: int, folds: int, shares: Sequence[float], studies: int) -> Line:
    """Coverage of the mean over folds. The fits of the folds have true AUROCs of their own, and
    scores that lie higher or lower as a whole; the mean of those true AUROCs is what is covered.
    """
    random = rng("intervals", "folds", patients, folds, len(shares))
    labels, missed, widths, df = [f"L{k}" for k in range(len(shares))], [0, 0], 0.0, []
    for _ in range(studies):
        target = (random.random((patients, len(shares))) < shares).astype(np.int64)
        fold = _folds(target, folds)
        skill = random.uniform(0.6, 0.9, len(shares))
        true = np.clip(skill + random.normal(0, 0.03, (folds, len(shares))), 0.5, 0.99)
        raised = random.standard_normal((folds, 1))
        noise = random.standard_normal(target.shape)
        of_record = fold - 1
        scored = raised[of_record] + _shift("independent", true)[of_record] * target + noise
        found = evidence([cross_validated(target, fold, scored, labels)], "undefined").rows[0]
        expected = _expected(target, fold, true)
        missed[0] += expected < found.low
        missed[1] += expected > found.high
        widths += found.high - found.low
        df.append(found.df)
    share = 1 - sum(missed) / studies
    return Line(
        part="folds",
        size=patients,
        task=f"{len(shares)} labels",
        design=f"{folds} folds",
        studies=studies,
        labels=len(shares),
        coverage=share,
        truth_below=missed[0] / studies,
        truth_above=missed[1] / studies,
        width=widths / studies,
        df=float(np.median(df)),
        kept=LOW - error(LOW, studies) <= share <= HIGH + error(HIGH, studies),
    )


def _folds(target: Ints, folds: int) -> Ints:
    held = [[str(k) for k in np.flatnonzero(own)] for own in target]
    return np.asarray(
        stratified("intervals", [f"{i:04d}" for i in range(len(target))], held, folds)
    )


def _expected(target: Ints, fold: Ints, true: Floats) -> float:
    """Mean over folds of the mean over the labels that have both values there."""
    means = []
    for k in np.unique(fold):
        own = target[fold == k]
        both = own.any(axis=0) & ~own.all(axis=0)
        means += [float(true[k - 1, both].mean())] if both.any() else []
    return float(np.mean(means))


def without_skill(patients: int, folds: int, share: float, studies: int) -> list[Line]:
    """What scores without skill get on average. The heads know only how frequent the label is in
    the other folds: where a fold has many positives its scores are low, so that pooled scores are
    worse than chance. Folds are dealt without regard to the label, which shows it most.
    """
    random = rng("intervals", "without skill", patients, folds)
    got: dict[str, list[float]] = {"within folds": [], "pooled over folds": []}
    for _ in range(studies):
        target = (random.random(patients) < share).astype(np.int64)[:, None]
        fold = 1 + random.permutation(patients) % folds
        frequent = np.array([target[fold != k + 1].mean() for k in range(folds)])
        scored = frequent[fold - 1, None] + 0.001 * random.standard_normal((patients, 1))
        cells = cross_validated(target, fold, scored, ["L"])
        got["within folds"].append(evidence([cells], "undefined").rows[0].value)
        got["pooled over folds"].append(auroc(target[:, 0], scored[:, 0]))
    lines = []
    for how, values in got.items():
        mean, spread = float(np.mean(values)), 2 * float(np.std(values) / np.sqrt(studies))
        lines.append(
            Line(
                part="folds",
                size=patients,
                task="no skill",
                design=f"{folds} folds, {how}",
                studies=studies,
                labels=1,
                null=mean,
                kept=how != "within folds" or abs(mean - 0.5) <= spread,
            )
        )
    return lines


def work(parts: Sequence[str], sizes: Sequence[int], studies: int) -> Iterator[list[Line]]:
    """All lines of the parts, one after the other."""
    if "macro" in parts:
        for size in sizes:
            for task in TASKS:
                for design in DESIGNS:
                    yield [macro(size, task, design, studies)]
    if "fixed" in parts:
        for design in ("independent", "labels alike, own", "near 1", "skew, near 1"):
            yield [fixed(243, "sub", design, max(studies // 5, 1), v) for v in range(12)]
    if "label" in parts:
        for positives in LABEL_LOW:
            for design in ("independent", "wide positives", "skew right", "skew left"):
                for auroc in (0.55, 0.7, 0.8, 0.9, 0.95, 0.99):
                    yield [label(positives, design, auroc, studies)]
    if "joint" in parts:
        for size in (s for s in sizes if s < 1000):
            for design in ("independent", "labels alike, own", "clusters"):
                yield joint(size, "sub", design, studies)
    if "bootstrap" in parts:
        for size in (s for s in sizes if s < 1000):
            for task in TASKS:
                yield bootstrap(size, task, max(studies // 5, 1))
    if "folds" in parts:
        for folds in (5, 10):
            for shares in ((0.3,), (0.1, 0.2, 0.4), (0.05, 0.05, 0.1, 0.2, 0.3, 0.4)):
                yield [over_folds(100, folds, shares, max(studies // 2, 1))]
            yield without_skill(100, folds, 0.3, max(studies // 2, 1))


def main() -> None:
    """Print the lines, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--studies", type=int, default=2000, help="per line (2000)")
    parser.add_argument("--part", action="append", help=", ".join(PARTS))
    parser.add_argument("--size", type=int, action="append", help="84, 243, 2191")
    parser.add_argument("--to", type=Path, help="CSV of all lines")
    options = parser.parse_args()
    parts = options.part or PARTS
    start, lines = time.perf_counter(), []
    print(f"{'part':<9} size {'task':<10} {'design':<28} covers  below  above  p<.05  p<.01   df")
    for made in work(parts, options.size or SIZES, options.studies):
        for line in made:
            numbers = (line.coverage, line.truth_below, line.truth_above, line.p05, line.p01)
            shown = "  ".join("     " if np.isnan(x) else f"{100 * x:5.1f}" for x in numbers)
            df = "    " if np.isnan(line.df) else f"{line.df:4.0f}"
            said = "" if np.isnan(line.null) else f"  mean AUROC {line.null:.3f}"
            said += "" if line.kept else "  LIMIT NOT KEPT"
            name = f"{line.part:<9} {line.size:>4} {line.task:<10} {line.design:<29}"
            print(f"{name} {shown} {df}{said}", flush=True)
        lines += made
        if options.to:
            pd.DataFrame(map(asdict, lines)).to_csv(options.to, index=False)
    failed = sum(not line.kept for line in lines)
    print(
        f"{len(lines)} lines, {failed} beyond their limit; {options.studies} studies a line; "
        f"{time.perf_counter() - start:.0f} s"
    )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
