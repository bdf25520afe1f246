"""How a model does in groups of patients: by sex, age, pacing, device and site, each group against
the rest, at every lead setting.

A comparison takes the labels that have at least LEAST patients with and without them on both
sides: the two means are over the same labels. Records of which a quantity is not known are in none
of its groups. What was computed of a column is kept in the run, as all intervals are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.results.evidence import between
from ecgbench.results.scorer import digest
from ecgbench.results.study import Study
from ecgbench.stats.auroc import placements
from ecgbench.stats.components import Components, Estimate, Floats
from ecgbench.stats.known import two_valued
from ecgbench.stats.subgroups import gap, usable
from ecgbench.study.people import people
from ecgbench.study.scores import Predicted, wins_of
from ecgbench.study.stored import Result

LEAST = 20
"""Patients with and without a label in a group, below which the label is not compared."""
BANDS = {0: "under 40", 40: "40 to 64", 65: "65 to 79", 80: "80 and over"}
"""Where each begins, in years."""
MOST = 12
"""Devices, or sites, that are compared; the largest."""
VARIABLES = {
    "sex": "Sex",
    "age": "Age, years",
    "paced": "Paced rhythm",
    "device": "Device",
    "site": "Site",
}
VERSION = 1
"""Raised by hand when the same predictions begin to give other numbers."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Some records, and the rest of those of which a quantity is known."""

    variable: str
    name: str
    rest: str
    """What the others are called."""
    records: frozenset[str]
    others: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A group against the rest at one lead setting."""

    group: Group
    leads: str
    labels: tuple[str, ...]
    """Over which both means go."""
    patients: tuple[int, int]
    """In the group and in the rest."""
    records: tuple[int, int]
    values: tuple[float, float]
    difference: Estimate
    """Group less rest."""
    change: Estimate | None
    """The difference here less that at twelve leads; None at twelve, or where twelve lacks."""


@dataclass(frozen=True, kw_only=True)
class Left:
    """A group that is not compared, and why."""

    group: Group
    patients: int
    why: str


def groups(table: pd.DataFrame) -> list[Group]:
    """Those of a table of `study.people`; of two groups, such as the sexes, the first alone,
    since the other's difference is its opposite.
    """
    found: list[Group] = []
    for variable, words in _words(table).items():
        names = {n: frozenset(table.loc[words == n, "record"]) for n in _order(variable, words)}
        known = frozenset().union(*names.values())
        if len(names) < 2:
            continue
        for name, records in list(names.items())[: 1 if len(names) == 2 else MOST]:
            rest = next(n for n in names if n != name) if len(names) == 2 else "all others"
            others = known - records
            found.append(
                Group(variable=variable, name=name, rest=rest, records=records, others=others)
            )
    return found


def _words(table: pd.DataFrame) -> dict[str, pd.Series]:
    """Variable -> (record,) the group of each record; "" where it is unknown."""
    age = table["age"].to_numpy(np.float64)
    bands = np.full(len(age), "", object)
    for low, name in BANDS.items():
        bands[age >= low] = name
    paced = table["paced"].map({"yes": "paced", "no": "not paced"}).fillna("")
    known = table[["sex", "device", "site"]].astype(str).assign(age=bands, paced=paced)
    return {variable: known[variable] for variable in VARIABLES}


def _order(variable: str, words: pd.Series) -> list[str]:
    """Names of the groups that have records: ages in their order, else as usual or by size."""
    there = words[words != ""].value_counts()
    usual = {"age": BANDS.values(), "sex": ("female", "male"), "paced": ("paced", "not paced")}
    if variable in usual:
        return [name for name in usual[variable] if name in there]
    return sorted(map(str, there.index), key=lambda name: (-int(there[name]), name))


def compared(
    study: Study, task: str, column: tuple[str, str], settings: Sequence[str], full: str
) -> tuple[list[Compared], list[Left]]:
    """All groups of a task under one model and policy at these lead settings (as typed), each with
    a score; full: that of twelve leads.
    """
    cells = {typed: study.finished.get((task, *column, typed), []) for typed in settings}
    cells = {typed: own for typed, own in cells.items() if own}
    if not cells or study.scorer is None:
        return [], []
    dataset = next(iter(cells.values()))[0].dataset
    cells_of = _Cells(cells=cells, metric=study.metric)
    found: list[Compared] = []
    left: list[Left] = []
    for group in groups(people(study.path, dataset)):
        rests = {
            "subgroups": VERSION,
            "cells": {t: [(c.content, c.cell.identity) for c in own] for t, own in cells.items()},
            "group": [digest(group.records), digest(group.others)],
            "full": full,
        }
        facts = study.scorer.facts(study.metric) | rests
        known = study.scorer.kept(facts, lambda group=group: cells_of.against_rest(group, full))  # type: ignore[misc]
        if known["why"]:
            left.append(Left(group=group, patients=known["patients"][0], why=known["why"]))
        found += [_compared(group, known, one) for one in known["settings"]]
    return found, left


def _compared(group: Group, known: Mapping[str, Any], one: Mapping[str, Any]) -> Compared:
    change = one["change"]
    return Compared(
        group=group,
        leads=one["leads"],
        labels=tuple(known["labels"]),
        patients=tuple(known["patients"]),
        records=tuple(known["records"]),
        values=tuple(one["values"]),
        difference=Estimate(**one["difference"]),
        change=None if change is None else Estimate(**change),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cells:
    """The cells of one column: lead draws, fits and folds of its settings."""

    cells: Mapping[str, Sequence[Result]]
    metric: str

    @cached_property
    def tables(self) -> dict[str, dict[str, list[tuple[int, Predicted]]]]:
        """Fold -> setting -> (seed of the fit, predictions) of its cells, all of the same records
        in the same order.
        """
        read: dict[str, dict[str, list[tuple[int, Predicted]]]] = {}
        for typed, own in self.cells.items():
            for r in own:
                place = read.setdefault(r.cell.fit.fold, {}).setdefault(typed, [])
                place.append((r.cell.fit.seed, r.predicted()))
        made = {}
        for fold, settings in read.items():
            if set(settings) != set(self.cells):
                continue  # else the settings' means were of other records
            every = [set(one.records) for of in settings.values() for _, one in of]
            common = sorted(set.intersection(*every))
            made[fold] = {
                typed: [(seed, _of(one, common, one.labels)) for seed, one in settings[typed]]
                for typed in self.cells
            }
        return made

    def against_rest(self, group: Group, full: str) -> dict[str, Any]:
        """What is kept of a group: see `Compared`, and why it is not compared."""
        sides = [self._side(group.records), self._side(group.others)]
        known: dict[str, Any] = {
            "patients": [len(set(side.patients)) for side in sides],
            "records": [len(side.patients) for side in sides],
            "labels": [],
            "settings": [],
            "why": "",
        }
        if min(known["patients"]) < LEAST:
            return known | {"why": f"fewer than {LEAST} patients in it, or in the rest"}
        both = np.logical_and(*(usable(s.target, s.patients, LEAST) for s in sides))
        labels = [name for name, good in zip(sides[0].labels, both) if good]
        if not labels:
            return known | {
                "why": f"no label has {LEAST} patients with it and as many without, here and there"
            }
        placed = [self._components(side, labels, None) for side in sides]
        seeds = sorted({c.cell.fit.seed for own in self.cells.values() for c in own})
        by_fit = {
            s: [self._components(side, labels, s) for side in sides]
            for s in seeds
            if len(seeds) > 1
        }
        one, typed = np.eye(len(self.cells)), list(self.cells)
        for at, leads in enumerate(typed):
            change = None
            if full in typed and leads != full:
                change = asdict(self._gap(placed, by_fit, one[at] - one[typed.index(full)]))
            known["settings"].append(
                {
                    "leads": leads,
                    "values": [float(side.values[at]) for side in placed],
                    "difference": asdict(self._gap(placed, by_fit, one[at])),
                    "change": change,
                }
            )
        return known | {"labels": labels}

    @staticmethod
    def _gap(
        sides: Sequence[Components], by_fit: Mapping[int, Sequence[Components]], c: Floats
    ) -> Estimate:
        apart = {s: float(c @ (group.values - rest.values)) for s, (group, rest) in by_fit.items()}
        return gap(sides[0], sides[1], c).plus(*between(apart))

    def _side(self, records: frozenset[str]) -> "_Side":
        parts = {}
        for fold, settings in self.tables.items():
            first = next(iter(settings.values()))[0][1]
            parts[fold] = first.only(records)
        return _Side(
            records={fold: one.records for fold, one in parts.items()},
            patients=np.concatenate([one.patients for one in parts.values()]),
            labels=tuple(next(iter(parts.values())).labels),
            target=np.concatenate([one.target for one in parts.values()]),
        )

    def _components(self, side: "_Side", labels: Sequence[str], seed: int | None) -> Components:
        """Of a side: a row per setting, a column per fold and label. seed: of one fit alone."""
        n, k = len(side.patients), len(labels)
        target = np.full((n, k * len(side.records)), -1, np.int8)
        placed = np.zeros((len(self.cells), *target.shape))
        start = 0
        for fold_at, (fold, names) in enumerate(side.records.items()):
            rows, block = slice(start, start + len(names)), slice(fold_at * k, fold_at * k + k)
            start += len(names)
            for at, own in enumerate(self.tables[fold].values()):
                made = []
                for _, every in (c for c in own if seed in (None, c[0])):
                    mine = _of(every, names, labels)
                    made.append(placements(mine.target, wins_of(self.metric, mine)))
                    target[rows, block] = mine.target
                placed[at, rows, block] = np.mean(made, axis=0)
        folds = two_valued(target).reshape(len(side.records), k)
        weights = folds / np.maximum(folds.sum(axis=0), 1) / k
        return Components(
            target, side.patients, placed, weights.ravel(), list(labels) * len(side.records)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Side:
    """Records of a group, or of the rest."""

    records: Mapping[str, list[str]]
    """Fold -> its records."""
    patients: np.ndarray
    """(record,) of all folds one after the other."""
    labels: tuple[str, ...]
    target: np.ndarray
    """(record, label)."""


def _of(every: Predicted, names: Sequence[str], labels: Sequence[str]) -> Predicted:
    """Some records and labels, in this order, without what was stored of comparisons with all
    others.
    """
    at = {record: place for place, record in enumerate(every.records)}
    rows, columns = [at[name] for name in names], [every.labels.index(one) for one in labels]
    return Predicted(
        records=list(names),
        patients=every.patients[rows],
        labels=list(labels),
        target=every.target[rows][:, columns],
        probability=every.probability[rows][:, columns],
    )
