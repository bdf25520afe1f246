"""Do the statements over several datasets hold what they promise? Simulated studies of known truth.

`python benchmarks/across.py [--studies 500] [--models 5] [--to FILE.csv]`. Three datasets: one with
two tasks on the same 243 records (superclasses and subclasses of PTB-XL), one with 84 records and
one with 243 others; labels and scores as in benchmarks/intervals.py. Designs as there.

Lines: `difference` (coverage of the 95 % interval of the mean difference of two equal models, and
how often p < 0.05), `best` (how often the truly best model may be the best, by Hsu's comparison:
with all models equal, the first of them; and with one that is better by 3 points how often it is
alone), `kept` (coverage of Fieller's interval of the share of skill kept at fewer leads), `all
settings` (how often all lower bounds of four settings hold at once; they promise 97.5 %).
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from intervals import DESIGNS, REDRAWN_EVERY, Records, Truth, records, scores, truth
from laef import machine

from ecgbench.core.cells import Cell, Fit, Scoring
from ecgbench.core.seeds import rng
from ecgbench.ecg.draw import Count
from ecgbench.results.joint import Entry, Joint, joined
from ecgbench.results.score import Scored
from ecgbench.stats.best import upper_bounds
from ecgbench.study.scores import Predicted, prediction_table

SHOWN = ("independent", "labels alike, own", "near 1", "skew right", "clusters")
LEAST, LEAST_ONE_SIDED = 0.93, 0.96
KEPT = (0.9, 0.7, 0.5, 0.3)
"""Share of the distance between positives and negatives that is left at four settings."""


@dataclass(frozen=True)
class NoStore:
    """Keeps nothing: every study is another."""

    scoring: Scoring = field(default_factory=Scoring)

    def facts(self, metric: str) -> dict[str, Any]:
        """Of no key."""
        return {}

    def kept(self, facts: Any, compute: Any) -> Any:
        """What is computed."""
        return compute()


def data() -> dict[str, dict[str, Records]]:
    """Dataset -> task -> records; tasks of one dataset have the same."""
    both = {task: records(243, task) for task in ("super", "sub")}
    return {"one": both, "two": {"sub84": records(84, "sub")}, "three": {"super243": both["super"]}}


def scored(task: str, real: Records, score: np.ndarray) -> Scored:
    """A cell with these scores as predictions."""
    names = [f"r{i:04}" for i in range(len(score))]
    columns = {"record": names, "patient": [f"p{p:04}" for p in real.patients]}
    labels = [f"L{k}" for k in range(score.shape[1])]
    table = prediction_table(columns, labels, score, real.target)
    fit = Fit(task=task, model="m", contract="paper", weights="random", seed=0)
    return Scored(
        columns={"value": np.array([0.5]), "n": np.array([1]), "positives": np.array([1])},
        replicates=np.empty(0),
        lost=0,
        bootstrap="none",
        distinct=0.5,
        n_distinct=1,
        same_as=(),
        nested=(),
        cell=Cell(fit=fit, task=task, setting=Count(12, 0), policy="zero"),
        metric="auroc",
        records=task,
        predictions=lambda: Predicted.of(table),
        n_patients=int(real.patients.max()) + 1,
    )


def study(
    design: str,
    truths: Mapping[str, Sequence[Truth]],
    real: Mapping[str, Mapping[str, Records]],
    random: np.random.Generator,
) -> Joint:
    """One study; `truths`: task -> that of each entry."""
    entries = [Entry(f"m{i}", "zero", "12") for i in range(len(next(iter(truths.values()))))]
    cells: dict[str, dict[str, list[list[Scored]]]] = {}
    for dataset, tasks in real.items():
        for task, own in tasks.items():
            flat = Truth(np.zeros(own.target.shape[1]), *[np.zeros(own.target.shape[1])] * 2)
            noise = scores(design, own, flat, random, len(entries))
            made = [n + t.shift * own.target for n, t in zip(noise, truths[task])]
            cells.setdefault(dataset, {})[task] = [[scored(task, own, s)] for s in made]
    return joined(entries, cells, NoStore())  # type: ignore[arg-type]


def means(real: Mapping[str, Mapping[str, Records]], aurocs: Mapping[str, np.ndarray]) -> float:
    """The mean over datasets of the means over their tasks."""
    return float(np.mean([np.mean([aurocs[t].mean() for t in tasks]) for tasks in real.values()]))


def shrunk(true: Truth, share: float) -> tuple[Truth, np.ndarray]:
    """A truth with less distance, and its AUROCs (normal noise)."""
    from scipy.special import ndtr

    shift = true.shift * share
    return Truth(true.auroc, shift, shift), np.asarray(ndtr(shift / np.sqrt(2)))


def run(design: str, studies: int, models: int) -> list[dict[str, Any]]:
    """The lines of one design."""
    real, random = data(), rng("across", design)
    counts = SimpleNamespace(covered=0, p05=0, best=0, named=0, alone=0, kept=0, bounds=0, shares=0)
    normal = design in ("independent", "labels alike, own", "near 1", "clusters")
    for i in range(studies):
        if i % REDRAWN_EVERY == 0:
            true = {
                t: truth(design, r.target.shape[1], random)
                for tasks in real.values()
                for t, r in tasks.items()
            }
        equal = study(design, {t: [true[t]] * models for t in true}, real, random)
        one = np.eye(models)
        e = equal.contrast(one[0] - one[1])
        low, high = e.as_difference()
        counts.covered += low <= 0 <= high
        counts.p05 += e.p < 0.05
        counts.best += best(equal)[0] > 0
        better = {t: [_raised(true[t], 0.03), *[true[t]] * (models - 1)] for t in true}
        bounds = best(study(design, better, real, random))
        counts.named += bounds[0] > 0
        counts.alone += bounds[0] > 0 and (bounds[1:] <= 0).all()
        if normal:
            less = {t: [true[t], *(shrunk(true[t], s)[0] for s in KEPT)] for t in true}
            at = study(design, less, real, random)
            full = means(real, {t: shrunk(true[t], 1.0)[1] for t in true})
            true_means = [means(real, {t: shrunk(true[t], s)[1] for t in true}) for s in KEPT]
            share = at.share(at.entries[2], at.entries[0])
            counts.shares += 1
            counts.kept += share.low <= (true_means[1] - 0.5) / (full - 0.5) <= share.high
            weights = np.array([np.eye(5)[k] - np.eye(5)[0] for k in range(1, 5)])
            found, drawn = at.contrasts(weights), at.studentised(weights, 1000)
            critical = np.quantile(drawn.max(axis=1), 0.975)
            held = [
                e.value - max(critical, e.t) * e.se <= m - full for e, m in zip(found, true_means)
            ]
            counts.bounds += all(held)
    lines = [
        ("difference: coverage", counts.covered, studies, LEAST),
        ("difference: p < 0.05", counts.p05, studies, None),
        ("best: all equal, the first may be", counts.best, studies, LEAST),
        ("best: one better by 3 points, it may be", counts.named, studies, LEAST),
        ("best: one better by 3 points, it alone", counts.alone, studies, None),
    ]
    if counts.shares:
        lines += [
            ("kept: coverage", counts.kept, counts.shares, LEAST),
            ("all settings: all bounds hold", counts.bounds, counts.shares, LEAST_ONE_SIDED),
        ]
    return [
        {
            "design": design,
            "line": name,
            "share": count / of,
            "studies": of,
            "keeps": ""
            if least is None
            else count / of >= least - 2 * (least * (1 - least) / of) ** 0.5,
        }
        for name, count, of, least in lines
    ]


def best(found: Joint) -> np.ndarray:
    """Upper bounds of each entry less the best other."""
    n = len(found.entries)
    order = [(a, b) for a in range(n) for b in range(a + 1, n)]
    one = np.eye(n)
    weights = np.array([one[a] - one[b] for a, b in order])
    drawn, made = found.studentised(weights, 1000), found.contrasts(weights)
    errors, se = np.zeros((len(drawn), n, n)), np.zeros((n, n))
    for (a, b), column, e in zip(order, drawn.T, made):
        errors[:, a, b], errors[:, b, a] = column, -column
        se[a, b] = se[b, a] = e.se
    return upper_bounds(found.values, se, errors)


def _raised(true: Truth, by: float) -> Truth:
    from scipy.special import ndtri

    auroc = np.clip(true.auroc + by, 0.5, 0.999)
    ratio = ndtri(auroc) / ndtri(np.clip(true.auroc, 0.501, 0.999))
    return Truth(auroc, true.shift * ratio, true.shift * ratio)


def main() -> None:
    """Print one line per design and statement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--design", choices=DESIGNS, action="append")
    parser.add_argument("--to", type=Path)
    asked = parser.parse_args()
    print(machine("cpu"))
    rows = []
    for design in asked.design or SHOWN:
        started = time.perf_counter()
        made = run(design, asked.studies, asked.models)
        rows += made
        for row in made:
            keeps = "" if row["keeps"] == "" else ("keeps" if row["keeps"] else "FAILS")
            print(f"{design:20} {row['line']:42} {row['share']:6.1%} of {row['studies']} {keeps}")
        print(f"  {time.perf_counter() - started:.0f} s", flush=True)
    if asked.to:
        pd.DataFrame(rows).to_csv(asked.to, index=False)


if __name__ == "__main__":
    main()
