"""How sure the rows of a table and their differences are: from placements, or from draws of
patients.

A row is a list of cells: its lead draws, fits and folds. A mean over lead draws and fits is a mean
of placements; a score over folds is the mean of the scores within each, of those folds in which a
label has both values. Records of one fold are never placed among those of another: each fold has a
training of its own, whose scores may be higher or lower as a whole. Over folds errors are those of
`Components`, with what folds that train one another have in common.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ecgbench.cards.cell import Absent
from ecgbench.core.keys import grouped
from ecgbench.results.score import Scored, counted, label_weights
from ecgbench.stats.auroc import placements
from ecgbench.stats.bootstrap import percentile_interval
from ecgbench.stats.components import Components, Estimate, Interval
from ecgbench.stats.known import UNKNOWN, two_valued
from ecgbench.stats.paired import Difference, paired_difference
from ecgbench.study.recent import Recent
from ecgbench.study.scores import ROUNDING, Predicted, ranks_records, wins_of

NAN = float("nan")
SEPARATOR = "\x1f"
"""Between a task and what is called so within it."""
Rows = Sequence[Sequence[Scored]]
"""The cells of each row."""


class OfLabel(NamedTuple):
    """What a row says of one label, over all folds; NaN where that is not known."""

    label: str
    value: float
    low: float
    high: float
    patients_with: int
    """Patients with a record that has it."""
    patients_without: int
    """Patients of whom it is known, and who have none."""
    positives: int
    n: int
    """Records of which it is known."""


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
    labels: Sequence[OfLabel] = ()
    """Of a metric with placements."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """How sure some rows on the same records are, and their differences."""

    rows: Sequence[Sure]
    pairs: Sequence[Difference]
    """Row a less row b for all a < b, in order."""

    def difference(self, a: int, b: int) -> Difference:
        """Row a less row b."""
        first, second = sorted((a, b))
        n = len(self.rows)
        found = self.pairs[first * n - first * (first + 1) // 2 + second - first - 1]
        if a < b:
            return found
        return replace(found, difference=-found.difference, low=-found.high, high=-found.low)


def evidence(rows: Rows, absent: Absent) -> Evidence:
    """Of rows whose cells were scored by the same metric in the same way."""
    rows = [counted(cells) for cells in rows]
    placed = all(c.bootstrap == "none" for cells in rows for c in cells)
    how = _Placed(rows, absent) if placed else _Drawn(rows, absent)
    return Evidence(
        rows=[how.row(a) for a in range(len(rows))],
        pairs=[how.difference(a, b) for a, b in combinations(range(len(rows)), 2)],
    )


def drawn(cells: Sequence[Scored]) -> np.ndarray:
    """(draw,) the mean of some cells under draws of patients. Over folds it is as much further from
    their value as `Components` says of folds.
    """
    mean = np.mean([c.replicates for c in cells], axis=0)
    growth = 1 + len({c.cell.fit.fold for c in cells}) * max(c.overlap for c in cells)
    value = float(np.mean([c.value for c in cells]))
    return mean if growth == 1 else np.asarray(value + np.sqrt(growth) * (mean - value))


class _Drawn:
    """From values under the same draws of patients: a draw applies to all cells of a row."""

    def __init__(self, rows: Rows, absent: Absent) -> None:
        self.rows, self.absent = rows, absent
        self.values = [float(np.mean([c.value for c in cells])) for cells in rows]
        self.replicates = [drawn(cells) for cells in rows]

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
        return Sure(value=self.values[a], low=low, high=high)

    def difference(self, a: int, b: int) -> Difference:
        if placed := self._alike(a, b):
            return placed.difference(0, 1)
        return paired_difference(
            self.values[a], self.values[b], self.replicates[a], self.replicates[b]
        )


class _Placed:
    """From placements."""

    def __init__(self, rows: Rows, absent: Absent) -> None:
        of = over(by_fold(rows, absent))
        self.contrasts = Contrasts({"": rows}, {"": 1.0}, of.components, of.offset)
        self.one, self.counts = np.eye(len(rows)), of.counts

    def row(self, a: int) -> Sure:
        found = self.contrasts.of(self.one[a])
        low, high = self.contrasts.interval(a)
        labels = list(self._labels(a))
        return Sure(value=found.value, low=low, high=high, labels=labels, **self._known_of(found))

    def _labels(self, a: int) -> Iterator[OfLabel]:
        """Each label of a row."""
        known = dict(zip(map(str, self.contrasts.components.names), self.contrasts.labels(a)))
        for name, counts in self.counts.items():
            value, ends = known.get(name, (NAN, (NAN, NAN)))
            yield OfLabel(name, value, *ends, *counts)

    def difference(self, a: int, b: int) -> Difference:
        found = self.contrasts.of(self.one[a] - self.one[b])
        low, high = found.as_difference()
        return Difference(
            difference=found.value, low=low, high=high, p=found.p, **self._known_of(found)
        )

    def _known_of(self, found: Estimate) -> dict[str, Any]:
        known, labels = {"se": found.se, "df": found.df}, self.contrasts.components.names
        # of two labels one always carries more than half
        if len(labels) < 3 or found.label < 0:
            return known
        return {**known, "share": found.share, "share_label": str(labels[found.label])}


class Contrasts(NamedTuple):
    """Contrasts of rows, which are weights (row,), from placements of one task or of several, with
    what repeated fits add to their variance.
    """

    rows: Mapping[str, Rows]
    """Task -> the cells of each row."""
    weights: Mapping[str, float]
    """Task -> what it counts; they sum to 1."""
    components: Components
    """The names of its labels have their task and SEPARATOR before them, if the task has a name."""
    offset: float
    """What labels without both values add to each value (`scoring.absent=half`)."""

    def of(self, c: np.ndarray) -> Estimate:
        """In the mean over labels and tasks."""
        found = self.components.contrast(c).shifted(self.offset * float(c.sum()))
        for task, rows in self.rows.items():
            variance, df = repeated(rows, c)
            found = found.plus(variance * self.weights[task] ** 2, df)
        return found

    def by_label(self, c: np.ndarray) -> list[Estimate]:
        """In each of the names of the components by itself."""
        return [e.plus(*self._fits(c, k)) for k, e in enumerate(self.components.by_label(c))]

    def label(self, k: int) -> tuple[str, str]:
        """The task of one of the names of the components, and its label."""
        task, _, label = str(self.components.names[k]).rpartition(SEPARATOR)
        return task, label

    def _fits(self, c: np.ndarray, k: int) -> tuple[float, float]:
        """What repeated fits add to one of the names of the components."""
        task, label = self.label(k)
        rows = self.rows[task]
        return repeated(rows, c, list(rows[0][0].columns["label"][1:]).index(label))

    def interval(self, a: int) -> Interval:
        """Of the value of a row."""
        c = np.eye(len(self.components.aurocs))[a]
        if any(repeated(rows, c)[0] for rows in self.rows.values()):
            return self.of(c).as_share()
        return self.components.interval(a, self.offset)

    def labels(self, a: int) -> list[tuple[float, Interval]]:
        """Value and interval of a row in each of the names of the components: a score interval,
        where repeated fits add nothing to its variance.
        """
        c = np.eye(len(self.components.aurocs))[a]
        made = []
        for k, found in enumerate(self.components.by_label(c)):
            fits = self._fits(c, k)
            found, alone = found.plus(*fits), self.components.label_interval(a, k)
            made.append((found.value, found.as_share() if fits[0] else alone))
        return made


def repeated(rows: Rows, c: np.ndarray, label: int | None = None) -> tuple[float, float]:
    """What repeated fits add to a contrast of rows (row,), over the seeds that all have: of the
    macro, or of one label.
    """
    of = 0 if label is None else 1 + label

    def mean(cells: Sequence[Scored]) -> float:
        return float(np.nanmean([one.columns["value"][of] for one in cells]))

    used = [(w, grouped(cells, lambda one: one.cell.fit.seed)) for w, cells in zip(c, rows) if w]
    return between(
        {
            seed: sum(w * mean(fits[seed]) for w, fits in used)
            for seed in (used[0][1] if used else ())
            if all(seed in fits for _, fits in used)
        }
    )


def between(fits: Mapping[int, float]) -> tuple[float, float]:
    """Variance that repeated fits add to their mean, and its degrees of freedom; 0 for one fit."""
    if len(fits) < 2:
        return 0.0, 1.0
    return float(np.var(list(fits.values()), ddof=1) / len(fits)), len(fits) - 1.0


def ordered(metric: str, own: Predicted, probabilities: bool = False) -> Predicted:
    """What placements under a metric are made from: its wins, and records in alphabetical order;
    without probabilities, unless they are asked for.
    """
    records = np.asarray(own.records, dtype=str)
    order = np.argsort(records, kind="stable")
    return replace(
        own,
        records=records[order].tolist(),
        patients=own.patients[order],
        target=own.target[order],
        probability=own.probability[order] if probabilities else np.empty((0, len(own.labels))),
        wins={metric: wins_of(metric, own)[order]},
    )


def _placed(own: Predicted) -> np.ndarray:
    """(record, label) of what was `ordered`."""
    (wins,) = own.wins.values()
    return placements(own.target, wins)


class Fold:
    """Placements of some rows in the same records; `rows` read each cell when it is needed.
    overlap: n_test / n_train, in a cross-validation.
    """

    def __init__(
        self,
        rows: Sequence[Sequence[Callable[[], Predicted]]],
        absent: Absent,
        overlap: float = 0.0,
    ) -> None:
        self.overlap = overlap
        first = rows[0][0]()
        self.labels, self.target = np.asarray(first.labels), first.target
        self.records, self.patients = first.records, first.patients
        self.weights, self.offset = label_weights(two_valued(self.target), absent)
        self._rows = rows

    @cached_property
    def placed(self) -> np.ndarray:
        """(row, record, label)."""
        return np.stack([np.mean([_placed(read()) for read in row], axis=0) for row in self._rows])


_READ_LAST: Recent[Predicted] = Recent(size=lambda one: one.size, most=2**27)
"""Many tables of a report compare the same cells: each is read once."""


def by_fold(rows: Rows, absent: Absent) -> list[Fold]:
    """The folds of rows whose cells were scored by the same metric in the same way, each of the
    records that all cells of the fold have.
    """
    made = []
    for fold, cells in grouped([c for row in rows for c in row], lambda c: c.cell.fit.fold).items():
        alike = len({c.records for c in cells}) == 1
        common = None if alike else frozenset.intersection(*(c.names() for c in cells))
        own = [[_reader(c, common) for c in row if c.cell.fit.fold == fold] for row in rows]
        made.append(Fold(own, absent, max(c.overlap for c in cells)))
    return made


def _reader(cell: Scored, common: frozenset[str] | None) -> Callable[[], Predicted]:
    def read() -> Predicted:
        own = cell.predictions()
        return ordered(cell.metric, own if common is None else own.only(common))

    if common is not None or not cell.content:
        return read
    return lambda: _READ_LAST((cell.content, cell.records, cell.metric, cell.edited), read)


class Member(NamedTuple):
    """A fold beside others."""

    fold: Fold
    place: Hashable
    """Parts at one place are of the same records: tasks of a dataset."""
    weight: float
    called: Callable[[str], str] = str
    """What a label is called."""
    whose: Callable[[str], str] = str
    """What a patient is called."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Stacked:
    """Folds together: a column for each label in each of them, which is not known of the records of
    another.
    """

    target: np.ndarray
    """(record, column) int8."""
    placed: np.ndarray
    """(row, record, column)."""
    patients: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    """(column,) what each counts in the macro."""
    overlap: np.ndarray
    """(column,) n_test / n_train of its fold."""
    offset: float

    @classmethod
    def of(cls, parts: Sequence[Member], unknown: float = 0.0) -> "Stacked":
        """unknown: what stands where a column is not known."""
        at: dict[tuple[Hashable, str], int] = {}
        patients: list[str] = []
        rows_of: list[np.ndarray] = []
        for n, part in enumerate(parts):
            fold, place = part.fold, part.place
            # tasks of a data set nearly always have the very same records
            same = (m for m in range(n) if parts[m].place == place)
            if (
                m := next((m for m in same if parts[m].fold.records == fold.records), None)
            ) is None:
                for record, patient in zip(fold.records, fold.patients):
                    if (place, record) not in at:
                        at[place, record] = len(at)
                        patients.append(part.whose(str(patient)))
            rows_of.append(
                np.array([at[place, r] for r in fold.records], np.intp) if m is None else rows_of[m]
            )
        labels = [part.called(str(label)) for part in parts for label in part.fold.labels]
        target, column = np.full((len(at), len(labels)), UNKNOWN, np.int8), 0
        placed = np.full((len(parts[0].fold.placed), *target.shape), unknown)
        for part, rows in zip(parts, rows_of):
            own = slice(column, column + len(part.fold.labels))
            target[rows, own], placed[:, rows, own] = part.fold.target, part.fold.placed
            column = own.stop
        return cls(
            target=target,
            placed=placed,
            patients=np.array(patients),
            labels=np.array(labels),
            weights=np.concatenate([part.fold.weights * part.weight for part in parts]),
            overlap=np.repeat([p.fold.overlap for p in parts], [len(p.fold.labels) for p in parts]),
            offset=float(sum(part.fold.offset * part.weight for part in parts)),
        )

    @property
    def counts(self) -> dict[str, tuple[int, int, int, int]]:
        """Label -> patients with it, patients without it, records with it, records of which it is
        known.
        """
        made = {}
        for name in dict.fromkeys(self.labels.tolist()):
            own = self.target[:, self.labels == name]
            has, known = (own == 1).any(axis=1), (own != UNKNOWN).any(axis=1)
            whose = np.unique(self.patients[has])
            without = np.setdiff1d(self.patients[known], whose)
            made[name] = len(whose), len(without), int(has.sum()), int(known.sum())
        return made

    @property
    def components(self) -> Components:
        """Of all its columns."""
        return Components(
            self.target, self.patients, self.placed, self.weights, self.labels, self.overlap
        )


def over(folds: Sequence[Fold], unknown: float = 0.0) -> Stacked:
    """Folds of one task, which count alike."""
    parts = [Member(fold, n, 1 / len(folds)) for n, fold in enumerate(folds)]
    return Stacked.of(parts, unknown)
