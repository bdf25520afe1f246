"""How sure the rows of a table and their differences are: from placements, or from draws of
patients.

A row is a list of cells: its lead draws, fits and folds. A mean over lead draws and fits is a mean
of placements; a score over folds is the mean of the scores within each, of those folds in which a
label has both values. Records of one fold are never placed among those of another: each fold has a
training of its own, whose scores may be higher or lower as a whole. That other training records
would give another fit is in no interval.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from ecgbench.core.cells import Absent
from ecgbench.results.score import Scored, counted, label_weights
from ecgbench.stats.auroc import placements
from ecgbench.stats.bootstrap import percentile_interval
from ecgbench.stats.components import Components, Estimate
from ecgbench.stats.known import UNKNOWN, two_valued
from ecgbench.stats.paired import Difference, paired_difference
from ecgbench.study.recent import Recent
from ecgbench.study.scores import ROUNDING, ranks_records, wins_of

NAN = float("nan")


@dataclass(frozen=True, kw_only=True)
class Sure:
    """A row's value, and how sure it is; NaN where that is not known."""

    value: float
    low: float = NAN
    high: float = NAN
    """95 % interval over patients."""
    se: float = NAN
    """Standard error; of macro AUROCs, whose interval is symmetric in logit."""
    df: float = NAN
    share: float = NAN
    """Largest share of the variance that one label of three or more carries."""
    share_label: str = ""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """How sure some rows on the same records are, and their differences."""

    rows: Sequence[Sure]
    pairs: Sequence[Difference]
    """Row a less row b for all a < b, in order."""

    def row(self, a: int) -> Sure:
        """A row."""
        return self.rows[a]

    def difference(self, a: int, b: int) -> Difference:
        """Row a less row b."""
        first, second = sorted((a, b))
        n = len(self.rows)
        found = self.pairs[first * n - first * (first + 1) // 2 + second - first - 1]
        if a < b:
            return found
        return replace(found, difference=-found.difference, low=-found.high, high=-found.low)


def evidence(rows: Sequence[Sequence[Scored]], absent: Absent) -> Evidence:
    """Of rows whose cells were scored by the same metric in the same way."""
    rows = [counted(cells) for cells in rows]
    placed = all(c.bootstrap == "none" for cells in rows for c in cells)
    how = _Placed(rows, absent) if placed else _Drawn(rows, absent)
    return Evidence(
        rows=[how.row(a) for a in range(len(rows))],
        pairs=[how.difference(a, b) for a, b in combinations(range(len(rows)), 2)],
    )


class _Drawn:
    """From values under the same draws of patients: a draw applies to all cells of a row."""

    def __init__(self, rows: Sequence[Sequence[Scored]], absent: Absent) -> None:
        self.rows, self.absent = rows, absent
        self.replicates = [np.mean([c.replicates for c in cells], axis=0) for cells in rows]

    def _alike(self, *rows: int) -> "_Placed | None":
        """What placements say where all draws give one value, which would look like certainty."""
        spread = self.replicates[rows[0]] - (self.replicates[rows[1]] if rows[1:] else 0.0)
        low, high = percentile_interval(spread)
        if not high - low < ROUNDING or not ranks_records(self.rows[0][0].metric):
            return None
        return _Placed([self.rows[a] for a in rows], self.absent)

    def row(self, a: int) -> Sure:
        if placed := self._alike(a):
            return placed.row(0)
        low, high = percentile_interval(self.replicates[a])
        low, high = (NAN, NAN) if high - low < ROUNDING else (low, high)
        return Sure(value=_mean(self.rows[a]), low=low, high=high)

    def difference(self, a: int, b: int) -> Difference:
        if placed := self._alike(a, b):
            return placed.difference(0, 1)
        return paired_difference(
            _mean(self.rows[a]), _mean(self.rows[b]), self.replicates[a], self.replicates[b]
        )


def _mean(cells: Sequence[Scored]) -> float:
    return float(np.mean([c.value for c in cells]))


class Fold:
    """Placements of some rows in the records that all their cells of a fold have, in alphabetical
    order.
    """

    def __init__(self, rows: Sequence[Sequence[Scored]], absent: Absent) -> None:
        cells = [c for row in rows for c in row]
        alike = len({c.records for c in cells}) == 1
        common = None if alike else frozenset.intersection(*(c.names() for c in cells))
        first = _ordered(cells[0], common)
        self.labels, self.target = np.asarray(first.labels), first.target
        self.records, self.patients = first.records, first.patients
        self._rows, self._common = rows, common
        self.weights, self.offset = label_weights(two_valued(self.target), absent)

    @cached_property
    def placed(self) -> np.ndarray:
        """(row, record, label)."""
        made = [[_ordered(c, self._common).placed for c in row] for row in self._rows]
        return np.stack([np.mean(each, axis=0) for each in made])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Ordered:
    """What placements are made from, of records in alphabetical order."""

    labels: list[str]
    target: np.ndarray
    """(record, label) int8."""
    wins: np.ndarray
    """(record, label), whole numbers where they were stored."""
    records: list[str]
    patients: np.ndarray

    @property
    def placed(self) -> np.ndarray:
        """(record, label)"""
        return placements(self.target, self.wins)

    @property
    def size(self) -> int:
        """Bytes, about."""
        return self.target.nbytes + self.wins.nbytes + self.patients.nbytes + 64 * len(self.records)


_READ_LAST: Recent[_Ordered] = Recent(size=lambda one: one.size, most=512 * 2**20)
"""Many tables of a report compare the same cells: each is read once."""


def _ordered(cell: Scored, common: frozenset[str] | None) -> _Ordered:
    def read() -> _Ordered:
        own = cell.predictions()
        own = own if common is None else own.only(common)
        records = np.asarray(own.records, dtype=str)
        order = np.argsort(records, kind="stable")
        return _Ordered(
            labels=own.labels,
            target=own.target[order],
            wins=wins_of(cell.metric, own)[order],
            records=records[order].tolist(),
            patients=own.patients[order],
        )

    if common is not None or not cell.content:
        return read()
    return _READ_LAST((cell.content, cell.records, cell.metric, cell.edited), read)


def by_fold(rows: Sequence[Sequence[Scored]], absent: Absent) -> list[Fold]:
    """The folds of rows whose cells were scored by the same metric in the same way."""
    folds = dict.fromkeys(c.cell.fit.fold for cells in rows for c in cells)
    return [
        Fold([[c for c in cells if c.cell.fit.fold == f] for cells in rows], absent) for f in folds
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Stacked:
    """Folds one after the other: a column for each label in each fold, which is not known of the
    records of another.
    """

    target: np.ndarray
    """(record, column) int8."""
    placed: np.ndarray
    """(row, record, column)."""
    patients: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    """(column,) what each counts in the macro."""
    offset: float

    @classmethod
    def of(cls, folds: Sequence[Fold], unknown: float = 0.0) -> "Stacked":
        """unknown: what stands where a column is not known."""
        sizes = [len(f.patients) for f in folds], [len(f.labels) for f in folds]
        target = np.full(tuple(map(sum, sizes)), UNKNOWN, np.int8)
        placed = np.full((len(folds[0].placed), *target.shape), unknown)
        record = column = 0
        for fold, records, labels in zip(folds, *sizes):
            own = slice(record, record + records), slice(column, column + labels)
            target[own], placed[(slice(None), *own)] = fold.target, fold.placed
            record, column = record + records, column + labels
        return cls(
            target=target,
            placed=placed,
            patients=np.concatenate([f.patients for f in folds]),
            labels=np.concatenate([f.labels for f in folds]),
            weights=np.concatenate([f.weights for f in folds]) / len(folds),
            offset=float(np.mean([f.offset for f in folds])),
        )


class _Placed:
    """From placements."""

    def __init__(self, rows: Sequence[Sequence[Scored]], absent: Absent) -> None:
        of = Stacked.of(by_fold(rows, absent))
        self.components = Components(of.target, of.patients, of.placed, of.weights, of.labels)
        self.labels = self.components.names
        self.offset = of.offset
        self.fits = [fits_of(cells) for cells in rows]

    def row(self, a: int) -> Sure:
        repeated = between(self.fits[a])
        found = self.components.row(a).plus(*repeated).shifted(self.offset)
        low, high = found.as_share() if repeated[0] else self.components.interval(a, self.offset)
        return Sure(value=found.value, low=low, high=high, **self._known_of(found))

    def difference(self, a: int, b: int) -> Difference:
        first, second = self.fits[a], self.fits[b]
        apart = {seed: value - second[seed] for seed, value in first.items() if seed in second}
        found = self.components.difference(a, b).plus(*between(apart))
        low, high = found.as_difference()
        return Difference(
            difference=found.value, low=low, high=high, p=found.p, **self._known_of(found)
        )

    def _known_of(self, found: Estimate) -> dict[str, Any]:
        known = {"se": found.se, "df": found.df}
        # of two labels one always carries more than half
        if len(self.labels) < 3 or found.label < 0:
            return known
        return {**known, "share": found.share, "share_label": str(self.labels[found.label])}


def fits_of(cells: Sequence[Scored]) -> dict[int, float]:
    """Seed of a fit -> mean over its settings and folds."""
    values: dict[int, list[float]] = {}
    for c in cells:
        values.setdefault(c.cell.fit.seed, []).append(c.value)
    return {seed: float(np.mean(v)) for seed, v in values.items()}


def between(fits: Mapping[int, float]) -> tuple[float, float]:
    """Variance that repeated fits add to their mean, and its degrees of freedom; 0 for one fit."""
    if len(fits) < 2:
        return 0.0, 1.0
    return float(np.var(list(fits.values()), ddof=1) / len(fits)), len(fits) - 1.0
