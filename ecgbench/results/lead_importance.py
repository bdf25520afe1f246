"""How well the conditions of a task are told from each of the twelve leads alone, and how sure that
is: for each condition, for the categories of conditions, and for the macro mean.

What is beside a profile over leads: intervals of its differences, paired over the same patients;
its reliability in halves of the patients; and what leads would give that were exchangeable within
patients (`stats.lead_importance`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ecgbench.core.keys import grouped
from ecgbench.core.seeds import rng
from ecgbench.ecg.leads import LEADS
from ecgbench.results.evidence import Fold, between, by_fold, over
from ecgbench.results.joint import Entry, joint, why_missing
from ecgbench.results.score import Scored, counted
from ecgbench.results.study import Run
from ecgbench.stats import lead_importance as stats
from ecgbench.stats.components import Components, Estimate

Floats = NDArray[np.float64]
METRIC = "auroc"
FEWEST_POSITIVES = 10
"""Records with a condition below which it counts in no category."""
DRAWS = 1000
"""Joint draws for statements about all pairs of leads at once."""
PAIRS = tuple(combinations(range(len(LEADS)), 2))
_CENTRED = np.eye(len(LEADS)) - 1 / len(LEADS)
"""(lead, lead) weights of a lead less the mean over leads."""
_APART = np.array([np.eye(len(LEADS))[a] - np.eye(len(LEADS))[b] for a, b in PAIRS])
"""(pair, lead) weights of a lead less another."""
_NONE = (np.nan,) * len(LEADS)
Trained = Literal["same", "random", "all"]
"""Which leads training saw; see `cells.Training.leads`."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Of a condition, or the mean over some: a category, or the macro mean over all labels.
    Fractions, by lead in the order of LEADS; NaN where there is no number.
    """

    name: str
    aurocs: Sequence[float] = _NONE
    difference: Sequence[float] = _NONE
    """AUROC of a lead less the mean over the twelve."""
    low: Sequence[float] = _NONE
    """95 % interval of the difference."""
    high: Sequence[float] = _NONE
    z: Sequence[float] = _NONE
    """Over the twelve leads; of a category the mean over its conditions."""
    reliability: float = np.nan
    """0 to 1; NaN where no halves can be made."""
    expected: float = np.nan
    """Range over leads where leads are exchangeable: its mean."""
    bound: float = np.nan
    """95 % of such ranges are not above it."""
    category: str = ""
    """Of a condition."""
    positives: int = 0
    """Of a condition."""
    conditions: int = 0
    """In the mean; 0 of a condition."""
    few: int = 0
    """Left out of the mean for want of positives."""
    within: int = 0
    """Left out of the mean as their range is what exchangeable leads give."""
    pairs: Sequence[Sequence[float]] = ()
    """Of a mean, for each of PAIRS: the first lead less the second, and 95 % bounds that hold for
    all pairs at once.
    """

    @property
    def shrunk(self) -> list[float]:
        """The differences times the reliability."""
        return [self.reliability * d for d in self.difference]

    @property
    def range(self) -> float:
        """Highest less lowest AUROC."""
        return float(np.ptp(self.aurocs))

    @property
    def bounds(self) -> tuple[float, float]:
        """Of the range of a mean, at least 95 %: the largest difference is above the largest of the
        lower bounds of all pairs, and not above the largest of the upper ones.
        """
        low = max(max(low, -high) for _, low, high in self.pairs)
        high = max(max(high, -low) for _, low, high in self.pairs)
        return max(low, 0.0), high

    @property
    def left_out(self) -> str:
        """Why a condition counts in no category; "" where it does."""
        if self.positives < FEWEST_POSITIVES:
            return f"fewer than {FEWEST_POSITIVES} positives"
        if not np.isfinite(self.aurocs).all():
            return "undefined"
        beyond = self.range > self.bound
        return "" if beyond else "range not beyond that of exchangeable leads"


@dataclass(frozen=True)
class Importance:
    """A column of a task."""

    task: str
    model: str
    policy: str
    trained: Trained
    patients: int
    macro: Profile
    categories: Sequence[Profile]
    """Those that some label has, in the order of the labels; NaN where no condition counts."""
    conditions: Sequence[Profile]
    """Labels that have a category."""
    unassigned: Sequence[str]
    """Labels without a category."""


def columns(study: Run, task: str) -> list[tuple[str, str]]:
    """(model, policy) that have a score from each of the twelve leads alone, by the same fits."""
    every = dict.fromkeys((m, p) for t, m, p, _ in study.finished if t == task)
    found = []
    for names in every:
        rows = [study.finished.get((task, *names, lead), []) for lead in LEADS]
        fits = {frozenset((r.cell.fit.seed, r.cell.fit.fold) for r in row) for row in rows}
        if len(fits) == 1 and all(rows) and not why_missing(study, _entries(names), [task]):
            found.append(names)
    return found


def _entries(names: tuple[str, str]) -> list[Entry]:
    return [Entry(*names, lead) for lead in LEADS]


def importance(
    study: Run, task: str, names: tuple[str, str], categories: Mapping[str, str]
) -> Importance:
    """Of one of the `columns` of a task; `categories`: label -> that of its condition.

    The study must hold AUROC.
    """
    study = study.of(METRIC)
    assert study.scorer is not None
    found = [study.finished[task, *names, lead] for lead in LEADS]
    rows = [counted([study.scorer(r, METRIC) for r in row]) for row in found]
    computed, fit = _Profiles(rows, study, (task, *names)), rows[0][0].cell.fit
    conditions = computed.conditions(categories)
    by_category = grouped(conditions, lambda c: c.category)
    return Importance(
        task,
        *names,
        trained="same" if fit.shown else "random" if fit.policy else "all",
        patients=len(set(computed.profiles.patients)),
        macro=computed.macro(),
        categories=[computed.category(name, own) for name, own in by_category.items()],
        conditions=conditions,
        unassigned=[label for label in computed.profiles.labels if label not in categories],
    )


class _Profiles:
    """What twelve rows of cells tell of each label."""

    def __init__(
        self, rows: Sequence[Sequence[Scored]], study: Run, words: tuple[str, ...]
    ) -> None:
        assert study.scorer is not None
        self.words, self.study = words, study
        self.folds = by_fold(rows, study.scorer.scoring.absent)
        self.profiles = _profiles(self.folds)
        self.halves = self.profiles.halves(stats.HALVINGS, rng("halves", *words[:1]))
        self.exchanged = self.profiles.exchanged(stats.EXCHANGES, rng("exchange", *words[:1]))
        self.seeds = _by_seed(rows)

    def conditions(self, categories: Mapping[str, str]) -> list[Profile]:
        """Labels that have a category and, in some fold, both values."""
        p = self.profiles
        null, reliability = stats.null(self.exchanged), stats.reliability(self.halves)
        low, high = self._bounds()
        by_lead = {
            "aurocs": p.aurocs,
            "difference": stats.points(p.aurocs),
            "low": low,
            "high": high,
            "z": stats.z_scores(p.aurocs),
        }
        return [
            Profile(
                name=label,
                category=categories[label],
                positives=int(p.positives[k]),
                **{name: values[:, k].tolist() for name, values in by_lead.items()},
                reliability=float(reliability[k]),
                **null[k]._asdict(),
            )
            for k, label in enumerate(p.labels)
            if label in categories
        ]

    def _bounds(self) -> tuple[Floats, Floats]:
        """(lead, label) 95 % bounds of the differences."""
        labels = self.profiles.labels
        low, high = np.full((2, len(LEADS), len(labels)), np.nan)
        components = self._components()
        for lead, weights in enumerate(_CENTRED):
            for label, estimate in zip(components.names, components.by_label(weights)):
                k = labels.index(str(label))
                found = estimate.plus(*self._between(weights, [k]))
                low[lead, k], high[lead, k] = found.as_difference()
        return low, high

    def _between(self, weights: Floats, places: Sequence[int]) -> tuple[float, float]:
        """What repeated fits add to the variance of a contrast of leads, over some labels."""
        means = {seed: values[:, places].mean(axis=1) for seed, values in self.seeds.items()}
        return between({seed: float(weights @ mean) for seed, mean in means.items()})

    def _components(self, labels: Sequence[str] = ()) -> Components:
        """Of some labels (default: all), each weighing alike."""
        p, overlap = self.profiles, max(fold.overlap for fold in self.folds)
        kept = [i for i, name in enumerate(p.names) if not labels or name in labels]
        weights = np.full(len(kept), 1 / max(len(kept), 1))
        names = np.array([p.names[i] for i in kept])
        shown = p.target[:, kept], p.patients, p.placements[:, :, kept]
        return Components(*shown, weights, names, overlap)

    def category(self, name: str, conditions: Sequence[Profile]) -> Profile:
        """The mean over those of its conditions that count."""
        kept = [c for c in conditions if not c.left_out]
        few = sum(c.positives < FEWEST_POSITIVES for c in conditions)
        within = len(conditions) - few - len(kept)
        if not kept:
            return Profile(name=name, few=few, within=within)
        places = [self.profiles.labels.index(c.name) for c in kept]
        components = self._components([c.name for c in kept])
        draws = (DRAWS, components.patients)
        normal = rng("lead importance", *self.words[:1]).standard_normal(draws)
        drawn = components.joint(_APART, normal, rng("lead importance rest", *self.words, name))

        def contrasts(weights: Floats) -> list[Estimate]:
            return [components.contrast(w).plus(*self._between(w, places)) for w in weights]

        values = self.profiles.aurocs[:, places].mean(axis=1)
        z = np.mean([c.z for c in kept], axis=0).tolist()
        made = self._group(name, places, values, contrasts, drawn)
        return replace(made, z=z, few=few, within=within)

    def macro(self) -> Profile:
        """The mean over all labels with both values, with or without a category, as the main table
        has it.
        """
        task, model, policy = self.words
        whole = joint(self.study, _entries((model, policy)), [task])
        places = np.flatnonzero(np.isfinite(self.profiles.aurocs).all(axis=0)).tolist()
        drawn = whole.studentised(_APART, DRAWS)
        return self._group("all labels", places, whole.values, whole.contrasts, drawn)

    def _group(
        self,
        name: str,
        places: Sequence[int],
        values: Floats,
        contrasts: Callable[[Floats], list[Estimate]],
        drawn: Floats,
    ) -> Profile:
        """The mean over the labels at some places: `values` (lead,), `contrasts` of leads, and
        `drawn` (draw, pair) studentised errors of those of all pairs.
        """
        (null,) = stats.null(self.exchanged[..., places].mean(axis=-1)[:, :, None])
        bounds, pairs = [e.as_difference() for e in contrasts(_CENTRED)], contrasts(_APART)
        # what nobody can tell apart is not drawn apart either
        errors = np.where(np.isfinite(drawn), drawn, 0.0)
        ends = stats.simultaneous([e.value for e in pairs], [e.se for e in pairs], errors).T
        return Profile(
            name=name,
            aurocs=values.tolist(),
            difference=stats.points(values).tolist(),
            low=[b.low for b in bounds],
            high=[b.high for b in bounds],
            z=stats.z_scores(values).tolist(),
            reliability=float(stats.reliability(self.halves[..., places].mean(axis=-1))),
            **null._asdict(),
            conditions=len(places),
            pairs=[[e.value, float(low), float(high)] for e, (low, high) in zip(pairs, ends)],
        )


def _profiles(folds: Sequence[Fold]) -> stats.Profiles:
    """A column for each label in each fold."""
    of = over(folds, unknown=np.nan)
    names = of.labels.tolist()
    return stats.Profiles(target=of.target, patients=of.patients, placements=of.placed, names=names)


def _by_seed(rows: Sequence[Sequence[Scored]]) -> dict[int, Floats]:
    """Seed of a fit -> (lead, label) AUROCs, the mean over folds in which a label has one."""

    def mean(cells: Sequence[Scored], seed: int) -> Floats:
        own = [c.columns["value"][1:] for c in cells if c.cell.fit.seed == seed]
        return pd.DataFrame(own).mean().to_numpy()

    seeds = sorted({c.cell.fit.seed for row in rows for c in row})
    return {seed: np.stack([mean(row, seed) for row in rows]) for seed in seeds}
