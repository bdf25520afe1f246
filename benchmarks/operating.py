"""Do the intervals of calibration and operating points hold what they promise? Simulated test sets
of known truth.

`python benchmarks/operating.py [--studies 1000] [--drawn 200] [--to FILE.csv]`. A record has a
score x and has the label with probability expit(a + x); what is predicted is expit(a + 0.3 + 1.25
x), so the true calibration slope is 0.8. Patients have one record, or 1 to 4 whose scores and
labels go together. A threshold for 95 % specificity comes from 200 validation records, or from the
other half of the test patients.

Each line: how often the 95 % interval held the truth, by the number of positives that a test set
has on average; test sets with fewer than 5 patients of a class are drawn anew. `drawn`: what the
percentile interval of 200 draws of patients would have done, in the first `--drawn` of the studies.
`at 95 %` is the truth at exactly 95 % specificity, which the threshold only aims at.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from ecgbench.core.seeds import rng
from ecgbench.stats.bootstrap import patient_weights, percentile_interval
from ecgbench.stats.calibration import intercept, slope
from ecgbench.stats.clustered import Floats, Patients
from ecgbench.stats.operating import (
    FROM,
    Rate,
    crossed,
    fewest,
    halves,
    net_benefit,
    predictive,
    rates,
    threshold,
)

RECORDS = 400
POSITIVES = (10, 20, 50, 120)
VALIDATION = 200
LEVEL, PREVALENCE, CHANCE = 0.95, 0.05, 0.1
DRAWS = 200
SPREAD = 1.5
POPULATION = 400_000
FEWEST = 5
"""Patients of a class, below which nothing is computed here."""


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """Where test sets come from."""

    offset: float
    """a."""
    clusters: bool
    score: Floats
    """Of a population to read the truth from."""
    by_class: tuple[Floats, Floats]
    """The scores of those without and with the label, sorted."""

    @classmethod
    def of(cls, positives: int, clusters: bool) -> "World":
        """In which test sets have so many positives on average."""
        random = rng("operating", "population", positives)
        x = SPREAD * random.standard_normal(POPULATION)
        offset = brentq(lambda a: expit(a + x).mean() - positives / RECORDS, -12, 6)
        target = random.random(POPULATION) < expit(offset + x)
        classes = np.sort(x[~target]), np.sort(x[target])
        return cls(offset=float(offset), clusters=clusters, score=x, by_class=classes)

    def records(
        self, random: np.random.Generator, n: int
    ) -> tuple[NDArray[np.bool_], Floats, Patients]:
        """target, score and patients of n records."""
        whose = np.arange(n)
        noise, chance = random.standard_normal((2, n))
        if self.clusters:
            whose = np.repeat(whose, random.integers(1, 5, n))[:n]
            common = random.standard_normal((2, n))[:, whose]
            noise, chance = (
                np.sqrt(0.6) * c + np.sqrt(0.4) * own for c, own in zip(common, (noise, chance))
            )
        x = SPREAD * noise
        return ndtr(chance) < expit(self.offset + x), x, Patients.of(whose)

    def rate(self, at: float, positive: bool) -> float:
        """Share of those with the label, or without it, at or above a score."""
        own = self.by_class[positive]
        return float(1 - np.searchsorted(own, at) / len(own))

    def predicted(self, x: Floats) -> Floats:
        """Probabilities."""
        return np.asarray(expit(self.offset + 0.3 + 1.25 * x))

    @cached_property
    def intercept(self) -> float:
        """The true one."""
        x = self.offset + 0.3 + 1.25 * self.score
        share = expit(self.offset + self.score).mean()
        return float(brentq(lambda a: expit(a + x).mean() - share, -5, 5))

    @property
    def flagging(self) -> float:
        """Score that is predicted as CHANCE."""
        return float(np.log(CHANCE / (1 - CHANCE)) - self.offset - 0.3) / 1.25

    @cached_property
    def benefit(self) -> float:
        """The true net benefit at CHANCE."""
        flagged, odds = self.score >= self.flagging, CHANCE / (1 - CHANCE)
        p = expit(self.offset + self.score)
        return float((flagged * (p - (1 - p) * odds)).mean())


class Covered:
    """How often intervals hold the truth."""

    def __init__(self) -> None:
        self.held: dict[str, list[bool]] = {}
        self.widths: dict[str, list[float]] = {}

    def add(self, name: str, interval: Sequence[float], truth: float) -> None:
        """One interval; one that was not given is counted apart."""
        low, high = interval
        if np.isnan(low):
            self.held.setdefault(f"{name}: not given", []).append(True)
            return
        self.held.setdefault(name, []).append(bool(low <= truth <= high))
        self.widths.setdefault(name, []).append(high - low)


def study(world: World, random: np.random.Generator, drawn: bool, into: Covered) -> None:
    """One validation set and one test set."""
    target, x, patients = world.records(random, RECORDS)
    while min(patients.number(target), patients.number(~target)) < FEWEST:
        target, x, patients = world.records(random, RECORDS)
    _calibrated(world, (target, x, patients), random, drawn, into)
    known, old, _ = world.records(random, VALIDATION)
    at = threshold(known, old, "specificity", LEVEL)
    flagged = x >= at
    made = rates(target, flagged, patients)
    truth = world.rate(at, True), 1 - world.rate(at, False)
    into.add("sensitivity, frozen", made.sensitivity.share_interval(), truth[0])
    into.add("specificity, frozen", made.specificity.share_interval(), truth[1])
    for name, hit, of, true in (
        ("sensitivity, frozen", flagged, target, truth[0]),
        ("specificity, frozen", ~flagged, ~target, truth[1]),
    ):
        if not drawn:
            continue
        weights = patient_weights(patients.of_record, DRAWS, random, "bayesian")
        into.add(f"{name}, drawn", percentile_interval(_drawn_share(hit, of, weights)), true)
    right = truth[0] * PREVALENCE, (1 - truth[1]) * (1 - PREVALENCE)
    wrong = (1 - truth[0]) * PREVALENCE, truth[1] * (1 - PREVALENCE)
    after = predictive(*map(Rate.of, made), PREVALENCE)
    into.add("PPV, frozen", after.ppv_interval, right[0] / sum(right))
    into.add("NPV, frozen", after.npv_interval, wrong[1] / sum(wrong))
    value = net_benefit(target, x >= world.flagging, patients, CHANCE)
    into.add("net benefit", value.interval(), world.benefit)
    first = halves(target, patients, random)
    if fewest(target, first, "specificity") >= FROM:
        flagged, (of_first, of_rest) = crossed(target, x, first, "specificity", LEVEL)
        share = (target & first).sum() / target.sum()
        made = rates(target, flagged, patients)
        true = share * world.rate(of_rest, True) + (1 - share) * world.rate(of_first, True)
        into.add("sensitivity, own", made.sensitivity.share_interval(), true)
        exact = float(np.quantile(world.by_class[0], LEVEL))
        into.add(
            "sensitivity, own, at 95 %", made.sensitivity.share_interval(), world.rate(exact, True)
        )


def _drawn_share(hit: NDArray[np.bool_], of: NDArray[np.bool_], weights: NDArray) -> Floats:
    total = weights @ of
    return np.divide(
        weights @ (hit & of), total, out=np.full(len(weights), np.nan), where=total > 0
    )


def _calibrated(
    world: World,
    test: tuple[NDArray[np.bool_], Floats, Patients],
    random: np.random.Generator,
    drawn: bool,
    into: Covered,
) -> None:
    target, x, patients = test
    predicted = world.predicted(x)
    parts: tuple[tuple[str, Callable, float], ...] = (
        ("slope", slope, 0.8),
        ("intercept", intercept, world.intercept),
    )
    for name, function, truth in parts:
        made = function(target, predicted, patients)
        into.add(name, made.interval(), truth)
    if not drawn:
        return
    counts = patient_weights(patients.of_record, DRAWS, random, "multinomial")
    found: dict[str, list[float]] = {"slope": [], "intercept": []}
    for times in counts:
        rows = np.repeat(np.arange(len(target)), times)
        if 0 < target[rows].sum() < len(rows):
            for name, function, _ in parts:
                value = float(function(target[rows], predicted[rows], Patients.of(rows)).value)
                if not np.isnan(value):
                    found[name].append(value)
    for name, _, truth in parts:
        into.add(f"{name}, drawn", percentile_interval(found[name]), truth)


def main() -> None:
    """Prints the lines, and writes them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--drawn", type=int, default=200)
    parser.add_argument("--to", type=Path)
    asked, lines = parser.parse_args(), []
    for positives in POSITIVES:
        for clusters in (False, True):
            began, into = time.perf_counter(), Covered()
            world = World.of(positives, clusters)
            random = rng("operating", "studies", positives, int(clusters))
            for number in range(asked.studies):
                study(world, random, number < asked.drawn, into)
            whose = "1 to 4 records" if clusters else "1 record"
            for name, held in into.held.items():
                width = float(np.mean(into.widths.get(name, [np.nan])))
                share = len(held) / asked.studies if "not given" in name else float(np.mean(held))
                line = {"positives": positives, "patients of": whose, "what": name}
                lines.append(line | {"share": share, "width": width, "intervals": len(held)})
                print(f"{positives:4d}  {whose:15s} {name:32s} {share:6.3f}  width {width:.3f}")
            print(f"      {time.perf_counter() - began:.0f} s", file=sys.stderr)
    if asked.to:
        pd.DataFrame(lines).to_csv(asked.to, index=False)


if __name__ == "__main__":
    main()
