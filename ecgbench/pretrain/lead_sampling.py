"""What lead sampling is worth: one network that was shown some leads of each recording beside the
same one that was always shown all twelve, each read with twelve leads, with one, and with one among
eleven that are absent.

A score with one lead is the mean over the twelve single leads. The question is a difference of
differences: how much less the one loses from twelve leads to one. As everywhere in an ablation,
both sources of chance are in an interval, seeds and patients; here all its contrasts are judged
together (Bonferroni).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from ecgbench.ecg.leads import LEADS
from ecgbench.stats.auroc import macro_auroc, placements, wins
from ecgbench.stats.components import LEVEL, Components, Interval, reach

Reading = Literal["twelve", "one", "padded"]
READINGS: dict[Reading, slice] = {
    "twelve": slice(0, 1),
    "one": slice(1, 1 + len(LEADS)),
    "padded": slice(1 + len(LEADS), 1 + 2 * len(LEADS)),
}
"""Where they stand among the probabilities of a probe: twelve leads; each lead alone; each lead
among eleven that are absent.
"""
EQUAL = Fraction(13, 24)
"""Part of its steps after which a network that is shown twelve leads has seen as many leads as one
that is shown 6.5 on average in all of them.
"""


LOSS = "loss from twelve leads to one"
"""Contrasts whose name begins so are above 0 where the network that was shown some leads loses
less.
"""


class Key(NamedTuple):
    """One row of the scores."""

    cell: str
    step: int
    reading: Reading


@dataclass(frozen=True, kw_only=True, eq=False)
class Score:
    """Of one network, one reading."""

    by_seed: Mapping[int, float]
    """Macro AUROC, with one lead the mean over the leads."""
    placed: np.ndarray
    """(record, label) placements, averaged over leads and seeds."""

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return float(np.mean(list(self.by_seed.values())))


Signs = dict[str, dict[Key, int]]
"""Contrast -> its scores with their signs."""


class Contrast(NamedTuple):
    """A sum of scores with signs, such as a difference, paired by seed, and how sure it is."""

    name: str
    value: float
    """Mean over the seeds."""
    interval: Interval
    """95 %, simultaneous over all contrasts of the study, over seeds and patients; within what such
    a sum can reach. NaN of one seed, and where its scores have other seeds than it.
    """
    by_seed: dict[int, float]
    half: float | None
    """The same sum after half of the steps; None where there is no half, and of networks that are
    compared after as many leads seen, which were not probed then.
    """
    evidence: bool
    """Whether its sign is: the interval excludes 0, and where networks are compared after equal
    steps half of them give the same sign.
    """


def judged(
    every: Mapping[Key, Mapping[int, float]],
    wanted: Signs,
    halves: Signs,
    tests: int,
    components: tuple[Components, Sequence[Key]],
) -> list[Contrast]:
    """The contrasts that are `wanted`, as far as their scores have a seed in common.

    every: scores by seed. halves: the same contrasts after half of the steps, without signs where
    there is no half; who is named there is no evidence without the same sign. tests: contrasts that
    are judged together. components: over patients, and what their rows are.
    """
    of_patients, rows = components
    made = []
    for name, signs in wanted.items():
        if not (by_seed := _sums(every, signs)):
            continue
        values = np.array([*by_seed.values()])
        middle, interval = float(np.mean(values)), Interval(float("nan"), float("nan"))
        # else placements are of other seeds
        if len(values) > 1 and all({*every[k]} == {*by_seed} for k in signs):
            error = of_patients.contrast([signs.get(row, 0) for row in rows])
            variance, df = float(values.var(ddof=1)) / len(values), len(values) - 1
            length = reach([(error.variance, error.df), (variance, df)], (1 - LEVEL) / (2 * tests))
            most = sum(map(abs, signs.values())) / 2
            interval = Interval(max(middle - length, -most), min(middle + length, most))
        at_half = _sums(every, halves.get(name, {}))
        half = float(np.mean([at_half[seed] for seed in by_seed])) if at_half else None
        same = name not in halves or (half is not None and half * middle > 0)
        beyond_0 = interval.low > 0 or interval.high < 0
        made.append(Contrast(name, middle, interval, by_seed, half, beyond_0 and same))
    return made


def scores(
    probed: Mapping[tuple[str, int, int], np.ndarray], target: np.ndarray
) -> dict[Key, Score]:
    """From what the probes gave: (cell, seed, step) -> (1 + 12 + 12, record, label)."""
    found: dict[Key, tuple[dict[int, float], list[np.ndarray]]] = {}
    for (cell, seed, step), every in sorted(probed.items()):
        for reading, of in READINGS.items():
            by_seed, placed = found.setdefault(Key(cell, step, reading), ({}, []))
            by_seed[seed] = float(np.mean([macro_auroc(target, p) for p in every[of]]))
            placed.append(np.mean([placements(target, wins(target, p)) for p in every[of]], 0))
    return {
        key: Score(by_seed=by_seed, placed=np.mean(placed, 0))
        for key, (by_seed, placed) in found.items()
    }


def contrasts(
    every: Mapping[Key, Score],
    some: str,
    all_: str,
    steps: int,
    target: np.ndarray,
    patients: Sequence[str],
) -> list[Contrast]:
    """Of the network `some` less `all_`, after equal steps and after as many leads, as far as both
    have a seed in common.
    """
    wanted = _wanted(some, all_, steps, steps, "equal steps")
    halves: Signs = {name: {} for name in wanted}
    if steps > 1:
        halves = _wanted(some, all_, steps // 2, steps // 2, "equal steps")
    equal = round(EQUAL * steps)
    if equal < steps:  # else no part of so few has seen as many
        wanted |= _wanted(some, all_, steps, equal, "as many leads seen")
    placed = np.stack([score.placed for score in every.values()])
    components = Components(target, np.asarray(patients), placed), list(every)
    by_seed = {key: score.by_seed for key, score in every.items()}
    return judged(by_seed, wanted, halves, len(wanted), components)


def _wanted(some: str, all_: str, step: int, other: int, words: str) -> Signs:
    """Contrast -> its scores with their signs: of `some` after `step` steps, of the other network
    after `other`.
    """
    ours, theirs = Key(some, step, "one"), Key(all_, other, "one")
    ours12, theirs12 = ours._replace(reading="twelve"), theirs._replace(reading="twelve")
    padded = theirs._replace(reading="padded")
    return {
        f"twelve leads, {words}": {ours12: 1, theirs12: -1},
        f"one lead, {words}": {ours: 1, theirs: -1},
        f"one lead, the other padded, {words}": {ours: 1, padded: -1},
        f"{LOSS}, {words}": {ours: 1, ours12: -1, theirs: -1, theirs12: 1},
        f"{LOSS}, the other padded, {words}": {ours: 1, ours12: -1, padded: -1, theirs12: 1},
    }


def _sums(every: Mapping[Key, Mapping[int, float]], signs: Mapping[Key, int]) -> dict[int, float]:
    """A contrast by seed, of the seeds that all its scores have; nothing where one is missing."""
    if not signs or not signs.keys() <= every.keys():
        return {}
    seeds = sorted(set.intersection(*({*every[k]} for k in signs)))
    return {n: sum(s * every[k][n] for k, s in signs.items()) for n in seeds}
