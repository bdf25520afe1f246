"""How a model does in groups of patients (sex, age, pacing, quality, device, site), each against
the rest, at every lead setting.

A comparison takes the labels that have at least LEAST patients with and without them on both
sides: the two means are over the same labels. Records of which a quantity is not known are in none
of its groups.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ecgbench.results.evidence import Fold, between, ordered, over
from ecgbench.results.study import Run
from ecgbench.stats.components import Components, Estimate, Floats
from ecgbench.stats.known import two_valued
from ecgbench.stats.subgroups import gap, usable
from ecgbench.study.people import people
from ecgbench.study.scores import Predicted
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
    "noted": "Bad quality, by a technician",
    "device": "Device",
    "site": "Site",
}
Values = dict[str, Any]


_YES_OR_NO = {
    "paced": ("paced", "not paced"),
    "noted": ("bad quality noted", "no bad quality noted"),
}


class Group(NamedTuple):
    """Some records, and the rest of those of which a quantity is known."""

    variable: str
    name: str
    rest: str
    """What the others are called."""
    records: frozenset[str]
    others: frozenset[str]


def groups(table: pd.DataFrame) -> list[Group]:
    """Those of a table of `study.people`; of two groups, such as the sexes, the first alone,
    since the other's difference is its opposite.
    """
    found: list[Group] = []
    for variable, words in _words(table).items():
        names = {n: frozenset(table.loc[words == n, "record"]) for n in _order(variable, words)}
        known = frozenset().union(*names.values())
        if len(names) == 2:
            (name, records), (rest, others) = names.items()
            found.append(Group(variable, name, rest, records, others))
        elif len(names) > 2:
            found += [
                Group(variable, name, "all others", records, known - records)
                for name, records in list(names.items())[:MOST]
            ]
    return found


def _words(table: pd.DataFrame) -> dict[str, pd.Series]:
    """Variable -> (record,) the group of each record; "" where it is unknown."""
    ends, names = [*BANDS, np.inf], list(BANDS.values())
    bands = pd.cut(table["age"].astype(float), ends, right=False, labels=names)
    known = table[["sex", "device", "site"]].assign(age=bands.astype(object))
    for variable, (yes, no) in _YES_OR_NO.items():
        known[variable] = table[variable].map({"yes": yes, "no": no})
    return {variable: known[variable].fillna("").astype(str) for variable in VARIABLES}


def _order(variable: str, words: pd.Series) -> list[str]:
    """Names of the groups that have records: ages in their order, else as usual or by size."""
    there = words[words != ""].value_counts()
    usual = {"age": BANDS.values(), "sex": ("female", "male"), **_YES_OR_NO}
    if variable in usual:
        return [name for name in usual[variable] if name in there]
    return sorted(map(str, there.index), key=lambda name: (-int(there[name]), name))


def compared(
    study: Run, task: str, column: tuple[str, str], settings: Sequence[str], full: str
) -> tuple[list[Values], list[Values]]:
    """All groups of a task under one model and policy at these lead settings (as typed), each with
    a score; full: that of twelve leads.

    First a row for each comparison with the rest: leads, variable, group, rest, n_patients and
    n_records (each with `_rest` too), n_labels, labels (over which both means go), value,
    value_rest, difference (an Estimate: group less rest), change (of the difference here less that
    at twelve leads; None at twelve, or without twelve). Then a row for each group that is not
    compared: variable, group, n_patients, reason.
    """
    cells = {typed: study.finished.get((task, *column, typed), []) for typed in settings}
    cells = {typed: own for typed, own in cells.items() if own}
    if not cells or study.scorer is None:
        return [], []
    dataset = next(iter(cells.values()))[0].dataset
    cells_of = _Cells(cells=cells, metric=study.metric, full=full)
    found: list[Values] = []
    left: list[Values] = []
    for group in groups(people(study.path, dataset)):
        known = cells_of.against_rest(group)
        sizes = _both("n_patients", known["patients"]) | _both("n_records", known["records"])
        row: Values = {"variable": group.variable, "group": group.name}
        if known["why"]:
            left.append(row | {"n_patients": known["patients"][0], "reason": known["why"]})
        row |= {"rest": group.rest, **sizes}
        row |= {"n_labels": len(known["labels"]), "labels": "+".join(known["labels"])}
        for one in known["settings"]:
            found.append({"leads": one["leads"], **row, **one})
    return found, left


def _both(name: str, values: Sequence[Any]) -> Values:
    """Of a group and of the rest."""
    return {name: values[0], f"{name}_rest": values[1]}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cells:
    """The cells of one column: lead draws, fits and folds of its settings."""

    cells: Mapping[str, Sequence[Result]]
    metric: str
    full: str

    @cached_property
    def folds(self) -> list[list[list[tuple[int, Predicted]]]]:
        """Of each fold, for each setting (seed of the fit, predictions) of its cells, all of the
        same records.
        """
        read: dict[str, dict[str, list[tuple[int, Predicted]]]] = {}
        for typed, own in self.cells.items():
            for r in own:
                place = read.setdefault(r.cell.fit.fold, {}).setdefault(typed, [])
                place.append((r.cell.fit.seed, r.predicted()))
        made = []
        for settings in read.values():
            if set(settings) == set(self.cells):  # else the settings' means were of other records
                every = [frozenset(one.records) for of in settings.values() for _, one in of]
                common = frozenset.intersection(*every)
                made.append(
                    [[(s, one.only(common)) for s, one in settings[typed]] for typed in self.cells]
                )
        return made

    def against_rest(self, group: Group) -> dict[str, Any]:
        """Sizes of a group, labels, a comparison by setting, or why there is none."""
        sides = group.records, group.others
        first = [[fold[0][0][1].only(side) for fold in self.folds] for side in sides]
        whose = [np.concatenate([one.patients for one in side]) for side in first]
        target = [np.concatenate([one.target for one in side]) for side in first]
        known: dict[str, Any] = {
            "patients": [len(set(own)) for own in whose],
            "records": [len(own) for own in whose],
            "labels": [],
            "settings": [],
            "why": "",
        }
        if min(known["patients"]) < LEAST:
            return known | {"why": f"fewer than {LEAST} patients in it, or in the rest"}
        both = np.logical_and(*(usable(t, own, LEAST) for t, own in zip(target, whose)))
        if not both.any():
            return known | {
                "why": f"no label has {LEAST} patients with it and as many without, here and there"
            }
        seeds = sorted({c.cell.fit.seed for own in self.cells.values() for c in own})
        fits = [None, *seeds] if len(seeds) > 1 else [None]
        placed = {s: [self._components(side, both, s) for side in sides] for s in fits}
        labels = [name for name, good in zip(first[0][0].labels, both) if good]
        return known | {"labels": labels, "settings": list(self._settings(placed))}

    def _settings(
        self, placed: Mapping[int | None, Sequence[Components]]
    ) -> Iterator[dict[str, Any]]:
        """`placed`: seed of a fit, or None of all of them -> the group and the rest."""
        one, typed, (group, rest) = np.eye(len(self.cells)), list(self.cells), placed[None]

        def difference(c: Floats) -> Estimate:
            by_seed = {
                seed: float(c @ (a.values - b.values))
                for seed, (a, b) in placed.items()
                if seed is not None
            }
            return gap(group, rest, c).plus(*between(by_seed))

        for at, leads in enumerate(typed):
            change = None
            if self.full in typed and leads != self.full:
                change = difference(one[at] - one[typed.index(self.full)])
            yield {
                "leads": leads,
                **_both("value", [float(side.values[at]) for side in (group, rest)]),
                "difference": difference(one[at]),
                "change": change,
            }

    def _components(
        self, records: frozenset[str], labels: np.ndarray, seed: int | None
    ) -> Components:
        """Of some records: a row per setting, a column per fold and label. seed: of one fit."""

        def read(every: Predicted) -> Predicted:
            one = every.only(records)
            own = replace(
                one,
                labels=[name for name, good in zip(one.labels, labels) if good],
                target=one.target[:, labels],
                probability=one.probability[:, labels],
                wins={},  # those stored are of comparisons with all records
            )
            return ordered(self.metric, own)

        rows = [
            [[partial(read, one) for s, one in row if seed in (None, s)] for row in fold]
            for fold in self.folds
        ]
        overlap = max(r.overlap for own in self.cells.values() for r in own)
        of = over([Fold(each, "undefined", overlap) for each in rows])
        folds = two_valued(of.target).reshape(len(self.folds), -1)
        weights = folds / np.maximum(folds.sum(axis=0), 1) / folds.shape[1]
        return replace(of, weights=weights.ravel()).components
