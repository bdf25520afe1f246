"""What the probabilities of a row of the main table say of each label, and of their mean.

A row averages over lead draws and fits, paired over the same patients. Records of all folds are put
together: each is predicted by the fit that was trained without it. Means over labels compare only
where they are over the same ones, so that the rows of a task are read twice: first for the labels
that have a number (`Question.labels`), then for the numbers, with means over the labels that all
rows have.

What is computed is a `Question`: see results/calibration.py and operating.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any, ClassVar

import numpy as np

from ecgbench.core.keys import grouped
from ecgbench.core.seeds import rng
from ecgbench.stats.clustered import Ends, Floats, Influence, Patients, mean_of_labels, together
from ecgbench.stats.known import UNKNOWN
from ecgbench.stats.operating import halves
from ecgbench.study.recent import Recent
from ecgbench.study.stored import Result

LEAST = 20
"""Patients with a label, and patients without it, below which nothing is said of it."""
TOO_RARE = f"{LEAST} of each are needed"
"""How the reason ends why nothing is said of such a label."""
NOT_KNOWN = "of no record are its value and a prediction known"
"""Why nothing is said of a label that the test set or a classifier does not know."""

Repeats = Sequence[Sequence[Result]]
"""Of each lead draw of each fit its folds."""
Columns = Mapping[str, Sequence[float | None]]
"""Name -> the mean over labels, then a number of each label; None: there is none."""
ENDS = ("_low", "_high")
"""What the columns of the ends of an interval are called."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """What one cell, or the folds of one, predict of labels that are known of the same records."""

    names: Sequence[str]
    """(label,)."""
    places: Sequence[int]
    """(label,) among all labels of the cell."""
    target: np.ndarray
    """(label, record) bool."""
    probability: np.ndarray
    """(label, record)."""
    patients: Patients
    fold: np.ndarray
    """(record,) place of the fold, among those of its repeat, that a record comes from."""
    folds: Sequence[Result]

    def only(self, labels: np.ndarray) -> "Block":
        """Some of its labels, (label,) bool."""
        return replace(
            self,
            names=list(compress(self.names, labels)),
            places=list(compress(self.places, labels)),
            target=self.target[labels],
            probability=self.probability[labels],
        )

    @property
    def size(self) -> int:
        """Bytes, about."""
        return 2 * self.target.nbytes + self.probability.nbytes

    @cached_property
    def by_fold(self) -> list[tuple[Result, np.ndarray]]:
        """Each fold, and (record,) which records come from it."""
        return [(result, self.fold == place) for place, result in enumerate(self.folds)]

    @cached_property
    def first_half(self) -> np.ndarray:
        """(label, record) which are in the first half of their fold; the same for every lead
        setting.
        """
        first = np.zeros(self.target.shape, bool)
        for result, there in self.by_fold:
            patients, of = self.patients.only(there), (result.dataset, result.cell.fit.fold)
            for k, name in enumerate(self.names):
                first[k, there] = _halves(*of, name, self.target[k, there], patients)
        return first

    @cached_property
    def too_rare(self) -> list[str]:
        """(label,) why nothing is said of it; "" where enough is there."""
        numbers = zip(*(self.patients.number(own).tolist() for own in (self.target, ~self.target)))
        return [
            ""
            if min(with_it, without) >= LEAST
            else f"{with_it} patients with it and {without} without; {TOO_RARE}"
            if with_it + without
            else NOT_KNOWN
            for with_it, without in numbers
        ]


_HALVES: Recent[np.ndarray] = Recent(size=lambda one: 10 * one.nbytes, most=2**26)
"""Halves of the labels that were asked for last: every row of a task has the same."""


def _halves(
    dataset: str, fold: str, label: str, target: np.ndarray, patients: Patients
) -> np.ndarray:
    """(record,) which are in the first half."""
    known = dataset, fold, label, target.tobytes(), patients.of_record.tobytes(), patients.count
    return _HALVES(known, lambda: halves(target, patients, rng("halves", dataset, fold, label)))


Own = Sequence[Block]
"""The same labels in all repeats of a row."""


Labels = Mapping[str, Sequence[Any]]
"""Of the labels of a row: `label`, patients, positives, negatives, and by key why there is no
number, or "".
"""
Shared = Mapping[str, Sequence[str]]
"""By key, the labels that a mean is over."""
Answer = Influence | np.ndarray
"""Of some labels (label,)."""


class Question(ABC):
    """What is computed of the labels of a row, by key."""

    name: ClassVar[str]
    keys: ClassVar[Sequence[str]]
    averaged: ClassVar[Sequence[str]] = ()
    """Columns of plain numbers that have a mean over labels, as estimates have."""

    @abstractmethod
    def answers(self, own: Own, key: str) -> dict[str, Answer]:
        """Column -> what it holds of each label; an estimate makes three, value, `_low` and
        `_high`.
        """

    def unmet(self, own: Own, key: str) -> Sequence[str]:
        """(label,) why a label with enough patients has no number; "" where it has."""
        return [""] * len(own[0].names)

    def interval(self, estimate: Influence) -> Ends:
        """95 %."""
        return estimate.interval()

    def shared(self, rows: Sequence[Labels]) -> Shared:
        """Of the rows of a task that have a score (`labels` of each), by key the labels that means
        are over: those that have a number in all of them.
        """
        return {key: in_all([known(row, key) for row in rows]) for key in self.keys}

    def labels(self, row: Sequence[Own]) -> Labels:
        """Of which labels a row (its `blocks`) has numbers."""
        rows = []
        for own in row:
            first = own[0]
            rare = [next(filter(None, each), "") for each in zip(*(one.too_rare for one in own))]
            enough = np.array([not why for why in rare])
            chosen = [one.only(enough) for one in own] if enough.any() else []
            unmet = {k: iter(self.unmet(chosen, k) if chosen else ()) for k in self.keys}
            records, positives = first.target.shape[1], np.count_nonzero(first.target, axis=1)
            patients = int(first.patients.number(np.ones(records, bool)))
            for place, name, n, why in zip(first.places, first.names, positives.tolist(), rare):
                line = {"label": name, "patients": patients, "positives": n}
                line |= {"negatives": records - n, "place": place}
                rows.append(line | {key: why or next(unmet[key]) for key in self.keys})
        rows.sort(key=lambda line: line["place"])
        return {name: [line[name] for line in rows] for name in rows[0] if name != "place"}

    def numbers(self, row: Sequence[Own], there: Labels, shared: Shared) -> dict[str, Columns]:
        """By key, the numbers of a row: the mean over the labels of `shared`, then each of `there`,
        which are its `labels`.
        """
        return {key: self._columns(row, key, there, shared[key]) for key in self.keys}

    def _columns(
        self, row: Sequence[Own], key: str, there: Labels, shared: Sequence[str]
    ) -> Columns:
        """The numbers of a key; `shared`: the labels that its mean is over."""
        names: list[str] = []
        found: list[dict[str, Answer]] = []
        for own in row:
            chosen = np.isin(own[0].names, known(there, key))
            if chosen.any():
                some = [one.only(chosen) for one in own]
                names += some[0].names
                found.append(self.answers(some, key))
        at = {name: place for place, name in enumerate(names)}
        over = [at[name] for name in shared] if at.keys() >= set(shared) else []
        made: dict[str, Sequence[float | None]] = {}
        places = np.array([0, *(1 + at.get(name, len(at)) for name in there["label"])])
        for column in found[0] if found else ():
            for name, values in self._averaged(column, [one[column] for one in found], over):
                picked = np.append(values, np.nan)[places].tolist()  # no number stands at the end
                made[name] = [None if value != value else value for value in picked]
        return made

    def _averaged(
        self, column: str, found: Sequence[Answer], over: Sequence[int]
    ) -> Iterator[tuple[str, Floats]]:
        """Name -> (1 + label,) the mean over some labels, then each of the answers in `found`."""
        if not isinstance(found[0], Influence):
            values = np.concatenate([one for one in found if not isinstance(one, Influence)])
            mean = values[over].mean() if over and column in self.averaged else np.nan
            yield column, np.array([mean, *values])
            return
        every = together([one for one in found if isinstance(one, Influence)])
        numbers = [np.array(every.value), *self.interval(every)]
        means: list[Any] = [np.nan] * len(numbers)
        if over:
            whole = mean_of_labels(every[over])
            means = [whole.value, *self.interval(whole)]
        for end, mean, values in zip(("", *ENDS), means, numbers):
            yield column + end, np.hstack([mean, values])


def known(row: Labels, key: str) -> list[str]:
    """Those that have a number."""
    return [name for name, why in zip(row["label"], row[key]) if not why]


def in_all(rows: Sequence[Sequence[str]]) -> list[str]:
    """Names that are in all of these rows, so that means over them compare."""
    return [name for name in (rows[0] if rows else ()) if all(name in row for row in rows)]


def repeats_of(results: Sequence[Result]) -> Repeats:
    """The cells of a row of the main table: of each lead draw of each fit its folds."""
    return list(grouped(results, lambda r: (str(r.cell.setting), r.cell.fit.seed)).values())


def blocks(repeats: Repeats) -> list[Own]:
    """The labels of a row, those that are known of the same records in all repeats together."""
    tables = [[r.predicted() for r in folds] for folds in repeats]
    patients = [np.concatenate([t.patients for t in of]) for of in tables]
    everyone = np.unique(np.concatenate(patients))
    targets = [np.concatenate([t.target for t in of]).T for of in tables]
    probabilities = [np.concatenate([t.probability for t in of]).T for of in tables]
    known = [target != UNKNOWN for target in targets]
    alike = grouped(
        range(len(targets[0])), lambda k: tuple(np.packbits(one[k]).tobytes() for one in known)
    )

    def block(n: int, labels: Sequence[int]) -> Block:
        of, records = tables[n], known[n][labels[0]]
        whose = np.searchsorted(everyone, patients[n][records])
        return Block(
            names=[of[0].labels[k] for k in labels],
            places=labels,
            target=np.ascontiguousarray(targets[n][labels][:, records] == 1),
            probability=np.ascontiguousarray(probabilities[n][labels][:, records]),
            patients=Patients(of_record=whose, count=len(everyone), growth=grown(repeats[n])),
            fold=np.repeat(np.arange(len(of)), [len(t.records) for t in of])[records],
            folds=repeats[n],
        )

    return [[block(n, labels) for n in range(len(tables))] for labels in alike.values()]


def grown(folds: Sequence[Result]) -> float:
    """What a variance over these folds is taken times."""
    return 1 + len(folds) * max(result.overlap for result in folds)


def number(value: Any) -> float | None:
    """NaN as None."""
    return None if value is None or np.isnan(value) else float(value)
