"""Several tasks, datasets and lead settings at once: means over them, and any contrast of them,
paired over the same patients.

A mean is taken within a dataset first: tasks of one dataset have the same patients, and several
tasks are no several datasets. Patients of different datasets are independent. Of datasets that
share recordings nobody has paired, the standard errors add, which no overlap can exceed; where
pairs are given (`ecgbench data duplicates --csv`), such patients are one.

Source: docs/explanation/intervals.md for the variances; degrees of freedom over datasets are
Satterthwaite's (Satterthwaite 1946, doi:10.2307/3002019; Welch 1947),
shares are Fieller's (Fieller 1954).
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from ecgbench.cards.cell import Absent
from ecgbench.core.keys import grouped
from ecgbench.core.seeds import rng
from ecgbench.data.contamination import RELATIONS
from ecgbench.errors import MissingData
from ecgbench.results.compare import on_common_records
from ecgbench.results.evidence import (
    SEPARATOR,
    Contrasts,
    Fold,
    Member,
    Rows,
    Stacked,
    by_fold,
    drawn,
)
from ecgbench.results.options import linked
from ecgbench.results.score import counted
from ecgbench.results.study import Run
from ecgbench.stats.components import Components, Estimate
from ecgbench.study.recent import Recent

Floats = NDArray[np.float64]
By = Literal["dataset", "task"]
"""What counts alike in a mean: datasets, each the mean of its tasks; or tasks (the paper's)."""
Patient = tuple[str, str]
"""Dataset and patient."""
DRAWS = 2000
"""For statements about several contrasts at once."""
_WIDEST = 1e3
"""A share whose interval is not inside this has none."""
_COMPONENTS: Recent[Components] = Recent(size=lambda one: one.size, most=2**28)
"""Of the groups that were needed last."""
_NORMAL: Recent[Floats] = Recent(size=lambda one: one.nbytes, most=2**29)
"""Draws of the same patients, in many comparisons: of all data sets of a study, for each lead
setting needs them in turn.
"""


class Entry(NamedTuple):
    """A model under a policy at a lead setting as typed: one row of a main table, for any task."""

    model: str
    policy: str
    leads: str


class Share(NamedTuple):
    """What is kept of a skill above chance, and its 95 % interval; NaN where there is none."""

    value: float
    low: float
    high: float


def why_missing(study: Run, entries: Sequence[Entry], tasks: Sequence[str]) -> dict[str, str]:
    """Task -> why these entries cannot be compared in it: no score, or other draws of leads, fits
    or folds than another entry of the same setting. Only such tasks.
    """
    why: dict[str, str] = {}
    for task in tasks:
        averaged: dict[str, set[tuple[str, int, str]]] = {}
        for e in entries:
            status, value = study.scores.get((task, *e), ("not in this study", np.nan))
            cells = [r.cell for r in study.finished.get((task, *e), [])]
            own = {(str(c.setting), c.fit.seed, c.fit.fold) for c in cells}
            if study.scorer:
                scored = [study.scorer(r, study.metric) for r in study.finished.get((task, *e), [])]
                own |= {(label, 0, "") for one in scored for label in one.known}
            reason = ""
            if status != "ok":
                reason = status
            elif not np.isfinite(value):
                reason = "no label has both values"
            elif averaged.setdefault(e.leads, own) != own:
                reason = "other lead draws, fits, folds or labels than the rest"
            if reason:
                why.setdefault(task, f"{e.model} at {e.leads}: {reason}")
    return why


def joint(
    study: Run,
    entries: Sequence[Entry],
    tasks: Sequence[str] | None = None,
    by: By = "dataset",
    paired: Mapping[Patient, str] | None = None,
) -> "Joint":
    """Of the first metric of a study. `tasks`: default all. `paired`: patients of several datasets
    that are one -> a name for each.

    MissingData where a task lacks one of the entries (`why_missing` says which), or where the study
    was not read from a run.
    """
    names = [t.name for t in study.tasks] if tasks is None else list(tasks)
    for task, why in why_missing(study, entries, names).items():
        raise MissingData(f"{task}: {why}; leave the task out, or run what is missing")
    if study.scorer is None or not names or not entries:
        raise MissingData(f"{study.path}: nothing to compare")
    scorer, dataset_of = study.scorer, {t.name: t.dataset for t in study.tasks}
    cells: dict[str, dict[str, Rows]] = {}
    for name in names:
        results = [study.finished[(name, *e)] for e in entries]
        of = {r.cell.identity: r for row in results for r in row}
        rows = on_common_records(
            [[scorer(r, study.metric) for r in row] for row in results],
            lambda c, records, of=of: scorer(of[c.cell.identity], c.metric, records),  # type: ignore[misc]
        )
        cells.setdefault(dataset_of[name], {})[name] = list(map(counted, rows))
    return Joint(
        entries=tuple(entries),
        cells=cells,
        absent=scorer.scoring.absent,
        metric=study.metric,
        alike=by,
        paired=paired or {},
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Group:
    """Datasets whose patients are drawn together; nearly always one."""

    datasets: Mapping[str, Sequence[str]]
    """Name -> tasks."""
    rows: Mapping[str, Rows]
    """Task -> the cells of each entry."""
    absent: Absent
    weights: Mapping[str, float]
    """Task -> what it counts; they sum to 1."""
    share: float
    """What the group counts in the whole."""
    paired: Mapping[Patient, str]

    @property
    def name(self) -> str:
        return " and ".join(self.datasets)

    @cached_property
    def drawn(self) -> Floats | None:
        """(draw, entry) values under draws of patients; None where there are placements."""
        if all(c.bootstrap == "none" for rows in self.rows.values() for row in rows for c in row):
            return None
        means = {task: [drawn(row) for row in rows] for task, rows in self.rows.items()}
        return np.asarray(sum(w * np.stack(means[t]) for t, w in self.weights.items())).T

    @property
    def folds(self) -> dict[str, list[Fold]]:
        """Task -> its folds; placements are read when they are needed and not kept."""
        return {name: by_fold(rows, self.absent) for name, rows in self.rows.items()}

    @property
    def placed(self) -> Components:
        """Of all its tasks, each label of each task being one of its own."""
        return _COMPONENTS(self._content, lambda: Stacked.of(list(self._parts())).components)

    @cached_property
    def _content(self) -> Hashable:
        """What its components rest on; means over datasets and over tasks have the same ones."""
        cells = [
            (task, tuple((c.content, c.records, c.metric, c.edited) for c in row))
            for task, rows in self.rows.items()
            for row in rows
        ]
        if self.paired or not all(c[0] for _, own in cells for c in own):
            return self
        return tuple(cells), self.absent, tuple(self.datasets), tuple(self.weights.items())

    def _parts(self) -> Iterator[Member]:
        dataset_of = {t: d for d, tasks in self.datasets.items() for t in tasks}
        for task, folds in self.folds.items():
            for n, fold in enumerate(folds):
                yield Member(
                    fold,
                    place=(dataset_of[task], n),
                    weight=self.weights[task] / len(folds),
                    called=f"{task}{SEPARATOR}".__add__,
                    whose=partial(self.patient, dataset_of[task]),
                )

    @property
    def contrasts(self) -> Contrasts:
        """From placements."""
        return Contrasts(self.rows, self.weights, self.placed, self.offset)

    @cached_property
    def label_names(self) -> list[str]:
        """Of the labels of its components, with their task where there are several."""
        split = [self.contrasts.label(k) for k in range(len(self.placed.names))]
        return [label if len(self.rows) == 1 else f"{task} {label}" for task, label in split]

    def patient(self, dataset: str, patient: str) -> str:
        """A name that is the same for one patient, whichever table they are in."""
        return self.paired.get((dataset, patient), f"{dataset}{SEPARATOR}{patient}")

    @cached_property
    def offset(self) -> float:
        """What labels without both values add to each value (`scoring.absent=half`)."""
        means = {t: np.mean([f.offset for f in folds]) for t, folds in self.folds.items()}
        return float(sum(self.weights[t] * mean for t, mean in means.items()))

    @property
    def values(self) -> Floats:
        """(entry,)"""
        if self.drawn is None:
            return np.asarray(self.placed.values + self.offset)
        means = [[np.mean([c.value for c in row]) for row in rows] for rows in self.rows.values()]
        return np.asarray(np.array(list(self.weights.values())) @ np.array(means))

    def contrast(self, c: Floats) -> Estimate:
        if self.drawn is not None:
            spread = float(np.nanvar(self.drawn @ c, ddof=1))
            return _certain(float(c @ self.values), spread)
        return self.contrasts.of(c)

    def by_label(self, c: Floats) -> dict[str, Estimate]:
        """Name of a label -> a contrast in it alone; nothing under draws of patients."""
        if self.drawn is not None:
            return {}
        return dict(zip(self.label_names, self.contrasts.by_label(c)))

    def studentised(self, contrasts: Floats, draws: int) -> Floats:
        """(draw, contrast) errors over their standard errors; 0 where nothing differs."""
        if self.drawn is not None:
            off = (self.drawn - self.values) @ contrasts.T
            off = off[np.isfinite(off).all(axis=1)]  # some draws lose every label
            if not len(off):
                return np.zeros((draws, len(contrasts)))
            off = off[rng("joint", self.name).integers(0, len(off), draws)]
            spread = off.std(axis=0)
            return np.asarray(np.divide(off, spread, out=np.zeros_like(off), where=spread > 0))
        folds = self.folds
        whose = {
            dataset: {p for task in tasks for fold in folds[task] for p in fold.patients.tolist()}
            for dataset, tasks in self.datasets.items()
        }
        everyone = {
            (self.patient(dataset, patient), dataset, patient)
            for dataset, patients in whose.items()
            for patient in map(str, patients)
        }
        first = {name: (d, p) for name, d, p in sorted(everyone, reverse=True)}
        normal = _normal(tuple(first[name] for name in sorted(first)), draws)
        made = self.placed.joint(contrasts, normal, rng("joint", self.name, "rest"))
        return np.asarray(np.where(np.isfinite(made), made, 0.0))


def _normal(patients: tuple[Patient, ...], draws: int) -> Floats:
    """(draw, patient) standard normal, of each patient the same wherever they are met."""

    def drawn() -> Floats:
        return np.stack([rng("joint", *one).standard_normal(draws) for one in patients]).T

    return _NORMAL((patients, draws), drawn)


def _certain(value: float, variance: float) -> Estimate:
    """With a variance that is known, of no label in particular."""
    return Estimate(value=value, variance=variance, df=np.inf, share=np.nan, label=-1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Joint:
    """Means of some entries over tasks and datasets. Contrasts are weights (entry,) in the order of
    `entries`; values are fractions.
    """

    entries: tuple[Entry, ...]
    cells: Mapping[str, Mapping[str, Rows]]
    """Dataset -> task -> the cells of each entry."""
    absent: Absent
    metric: str
    alike: By
    paired: Mapping[Patient, str]

    def by(self, by: By) -> "Joint":
        """The same with other things that count alike."""
        return replace(self, alike=by)

    @property
    def datasets(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(d for g in self.groups for d in g.datasets)

    @cached_property
    def _clusters(self) -> list[tuple[str, ...]]:
        known = [(d, name) for (d, _), name in self.paired.items() if d in self.cells]
        by_name = grouped(known, lambda one: one[1]).values()
        return linked(list(self.cells), {(own[0][0], d) for own in by_name for d, _ in own})

    @property
    def sharing(self) -> list[tuple[str, ...]]:
        """Datasets that share patients by the given pairs."""
        return [cluster for cluster in self._clusters if len(cluster) > 1]

    @cached_property
    def groups(self) -> list[_Group]:
        """Datasets whose patients are drawn together."""
        rows = [row for tasks in self.cells.values() for rows in tasks.values() for row in rows]
        # each dataset has draws of its own, in which a patient of two cannot be one
        drawn = any(cell.bootstrap != "none" for row in rows for cell in row)
        by_dataset = self.alike == "dataset"
        size = {d: 1.0 if by_dataset else float(len(tasks)) for d, tasks in self.cells.items()}
        groups = []
        for members in [(d,) for d in self.cells] if drawn else self._clusters:
            cells, total = {d: self.cells[d] for d in members}, sum(size[d] for d in members)
            group = _Group(
                datasets={d: list(tasks) for d, tasks in cells.items()},
                rows={t: rows for tasks in cells.values() for t, rows in tasks.items()},
                absent=self.absent,
                weights={t: size[d] / total / len(cells[d]) for d in members for t in cells[d]},
                share=total / sum(size.values()),
                paired={} if drawn else self.paired,
            )
            groups.append(group)
        return groups

    @property
    def least_patients(self) -> int:
        """Of the smallest test set."""
        return min(
            sum({c.cell.fit.fold: c.n_patients for c in rows[0]}.values())
            for g in self.groups
            for rows in g.rows.values()
        )

    @property
    def overlapping(self) -> list[tuple[str, str]]:
        """Pairs of datasets that share recordings of which nobody said which, or which draws of
        patients cannot pair.
        """
        return [
            pair
            for a, b in combinations(self.groups, 2)
            for pair in ((d, e) for d in a.datasets for e in b.datasets)
            if pair in RELATIONS
            or pair[::-1] in RELATIONS
            or any(set(pair) <= set(cluster) for cluster in self.sharing)
        ]

    @cached_property
    def values(self) -> Floats:
        """(entry,) means over datasets."""
        return np.asarray(sum(g.share * g.values for g in self.groups))

    def contrast(self, weights: ArrayLike) -> Estimate:
        """See `contrasts`."""
        return self.contrasts(np.asarray(weights)[None])[0]

    def less(self, a: Entry, b: Entry) -> Floats:
        """(entry,) the weights of a less b."""
        one = np.eye(len(self.entries))
        return np.asarray(one[self.entries.index(a)] - one[self.entries.index(b)])

    def contrasts(self, weights: ArrayLike) -> list[Estimate]:
        """Of weights (contrast, entry): each with its variance over patients and repeated fits, and
        the share of the variance that comes from one label, or of several datasets from one of
        them (see `named`).
        """
        return [self._contrast(row) for row in np.asarray(weights, np.float64)]

    def by_dataset(self, weights: ArrayLike) -> dict[str, list[Estimate]]:
        """Dataset (or those drawn together) -> the contrasts of the mean over its tasks alone."""
        rows = np.asarray(weights, np.float64)
        return {g.name: [g.contrast(row) for row in rows] for g in self.groups}

    def named(self, estimate: Estimate) -> str:
        """Which label or dataset carries the share of an estimate; "" where none is named."""
        if estimate.label < 0:
            return ""
        if len(self.groups) > 1:
            return self.groups[estimate.label].name
        return self._labels[estimate.label] if len(self._labels) > 2 else ""

    @cached_property
    def _labels(self) -> list[str]:
        """Of the only group."""
        return self.groups[0].label_names

    def _contrast(self, c: Floats) -> Estimate:
        parts = [g.contrast(c) for g in self.groups]
        if len(parts) == 1:
            return parts[0]
        value = float(sum(g.share * p.value for g, p in zip(self.groups, parts)))
        of = {d: g.name for g in self.groups for d in g.datasets}
        errors = {g.name: (g.share * p.se, p.df) for g, p in zip(self.groups, parts)}
        clusters = [
            [errors[name] for name in names]
            for names in linked(list(errors), [(of[a], of[b]) for a, b in self.overlapping])
        ]
        # of what may be shared the standard errors add
        variances = [sum(se for se, _ in cluster) ** 2 for cluster in clusters]
        total = sum(variances)
        if not total > 0:
            return _certain(value, np.nan if np.isnan(total) else 0.0)
        spread = sum(
            v**2 / min(df for _, df in cluster) for v, cluster in zip(variances, clusters) if v
        )
        own = [se**2 / total for se, _ in errors.values()]
        df, label = total**2 / spread if spread > 0 else np.inf, int(np.argmax(own))
        return Estimate(value=value, variance=total, df=df, share=min(own[label], 1.0), label=label)

    def studentised(self, weights: ArrayLike, draws: int = DRAWS) -> Floats:
        """(draw, contrast) joint draws of the errors of contrasts over their standard errors, for
        statements about all of them at once. The same patient's draws serve every task, setting
        and model. Repeated fits and overlapping datasets count in the standard errors that they
        are taken times, not in how the contrasts go together.
        """
        c = np.asarray(weights, dtype=np.float64)
        total, variance = np.zeros((draws, len(c))), np.zeros(len(c))
        for g in self.groups:
            se = g.share * np.array([g.contrast(row).se for row in c])
            total += np.where(se > 0, se, 0.0) * g.studentised(c, draws)
            variance += np.where(se > 0, se, 0.0) ** 2
        size = np.sqrt(variance)
        return np.asarray(np.divide(total, size, out=np.zeros_like(total), where=size > 0))

    def share(self, a: Entry, b: Entry, chance: float = 0.5) -> Share:
        """The skill above chance of a, as a share of that of b, with Fieller's 95 % interval: all
        shares r for which (a - chance) - r (b - chance) does not differ from 0.

        None (NaN) where b's own interval reaches chance: a share of nothing says nothing.
        """
        first, second = np.eye(len(self.entries))[[self.entries.index(e) for e in (a, b)]]

        def beyond(r: float) -> float:
            off = self._contrast(first - r * second).shifted(-chance * (1 - r))
            return abs(off.value) - off.t * off.se

        base = self._contrast(second).shifted(-chance)
        if not base.value > base.t * base.se:
            return Share(np.nan, np.nan, np.nan)
        if a == b:
            return Share(1.0, 1.0, 1.0)
        value = (self._contrast(first).value - chance) / base.value
        return Share(value, _edge(beyond, value, -1), _edge(beyond, value, 1))


def _edge(beyond: Callable[[float], float], start: float, way: int) -> float:
    """Where a function that is below 0 at `start` rises above it, in one direction."""
    if not beyond(start) < 0:
        return start
    step = 0.05
    while beyond(start + way * step) < 0:
        step *= 2
        if step > _WIDEST:
            return way * float("inf")
    return float(brentq(beyond, start, start + way * step, xtol=1e-6))
