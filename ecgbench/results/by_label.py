"""What the probabilities of a row of the main table say of each label, and of their mean.

A row averages over lead draws and fits, paired over the same patients. Records of all folds are put
together: each is predicted by the fit that was trained without it. Means over labels compare only
where they are over the same ones, so that the rows of a task are read twice: first for the labels
that have a number (`There`), then for the numbers, with means over the labels that all rows have.
Both are kept beside the scores of the run.

What is computed is a `Question`: results/calibration.py, operating.py and net_benefit.py.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ecgbench.cells import grouped
from ecgbench.results.folders import DONE
from ecgbench.results.held import Held
from ecgbench.results.result import Result
from ecgbench.results.score import arrays
from ecgbench.results.scorer import Scorer
from ecgbench.stats.clustered import Estimate, Patients, mean_of_labels
from ecgbench.stats.components import Interval
from ecgbench.stats.known import UNKNOWN

VERSION = 2
"""Raised by hand when the same predictions begin to give other numbers."""
LEAST = 20
"""Patients with a label, and patients without it, below which nothing is said of it."""

Repeats = Sequence[Sequence[Result]]
"""Of each lead draw of each fit its folds."""
Columns = Mapping[str, Sequence[float | None]]
"""Name -> the mean over labels, then a number of each label; None: there is none."""
ENDS = ("_low", "_high")
"""What the columns of the ends of an interval are called."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Label:
    """What one cell, or the folds of one, predict of one label, of the records it is known of."""

    name: str
    target: np.ndarray
    """(record,) bool."""
    probability: np.ndarray
    patients: Patients
    fold: np.ndarray
    """(record,) place of the fold, among those of its repeat, that a record comes from."""
    folds: Sequence[Result]

    @property
    def every(self) -> np.ndarray:
        """(record,) all of them."""
        return np.ones(len(self.target), bool)

    @cached_property
    def lacking(self) -> str:
        """Why nothing is said of it; "" where enough is there."""
        with_it, without = (self.patients.number(own) for own in (self.target, ~self.target))
        if min(with_it, without) >= LEAST:
            return ""
        return f"{with_it} patients with it and {without} without; {LEAST} of each are needed"


Own = Sequence[Label]
"""One label in all repeats of a row."""


@dataclass(frozen=True, kw_only=True)
class There:
    """Of which labels a row has numbers; each list in the order of `names`."""

    names: Sequence[str]
    patients: Sequence[int]
    positives: Sequence[int]
    negatives: Sequence[int]
    lacking: Sequence[str]
    """Why nothing at all is said of a label, or ""."""
    unmet: Mapping[str, Sequence[str]]
    """By key, why a label has no number, or ""."""

    def known(self, key: str) -> list[str]:
        """Labels that have a number."""
        return [name for name, why in zip(self.names, self.unmet[key]) if not why]

    def counts(self, place: int) -> dict[str, int]:
        """How much there is of a label."""
        made = {"patients": self.patients[place], "positives": self.positives[place]}
        return made | {"negatives": self.negatives[place]}

    def prevalence(self, name: str) -> float:
        """Share of the test records with it."""
        place = list(self.names).index(name)
        return self.positives[place] / (self.positives[place] + self.negatives[place])


Shared = Mapping[str, Sequence[str]]
"""By key, the labels that a mean is over."""


def in_all(rows: Sequence[Sequence[str]]) -> list[str]:
    """Names that are in all of these rows, so that means over them compare."""
    return [name for name in (rows[0] if rows else ()) if all(name in row for row in rows)]


class Question(ABC):
    """What is asked of the labels of a row: one Columns for each of its keys."""

    name: ClassVar[str]
    keys: ClassVar[Sequence[str]]
    averaged: ClassVar[Sequence[str]] = ()
    """Columns of plain numbers that have a mean over labels, as estimates have."""

    @abstractmethod
    def answers(self, own: Own, key: str) -> dict[str, Estimate | float]:
        """Column -> what it holds; an estimate makes three, value, `_low` and `_high`."""

    def unmet(self, own: Own, key: str) -> str:
        """Why a label with enough patients has no number; "" where it has."""
        return ""

    def interval(self, estimate: Estimate) -> Interval:
        """95 %."""
        return estimate.interval()

    def shared(self, rows: Sequence[There]) -> Shared:
        """Of the rows of a task that have a score, the labels that means are over: those that have
        a number in all of them.
        """
        return {key: in_all([row.known(key) for row in rows]) for key in self.keys}


@dataclass(frozen=True, kw_only=True)
class ByLabel:
    """Answers a question, and keeps the answers."""

    question: Question
    scorer: Scorer | None = field(repr=False)
    """Of the run; None: nothing is kept."""

    def there(self, repeats: Repeats) -> There:
        """Of which labels a row has numbers."""
        return There(**self.kept("there", repeats, {}, lambda: asdict(self._there(repeats))))

    def numbers(self, repeats: Repeats, shared: Shared) -> dict[str, Columns]:
        """By key, the numbers of a row: the mean over the labels of `shared`, then each of
        `There.names`.
        """
        return self.kept("numbers", repeats, {**shared}, lambda: self._numbers(repeats, shared))

    def kept(
        self,
        what: str,
        repeats: Repeats,
        facts: Mapping[str, Any],
        compute: Callable[[], dict[str, Any]],
    ) -> dict[str, Any]:
        """What was computed of these cells, their fits and these facts before, or is now."""
        if self.scorer is None:
            return compute()
        return self.scorer.kept(self._key(what, repeats, facts), compute)

    def keeps(self, what: str, repeats: Repeats, facts: Mapping[str, Any]) -> bool:
        """Whether that was computed before."""
        return self.scorer is not None and self.scorer.has(self._key(what, repeats, facts))

    def _key(self, what: str, repeats: Repeats, facts: Mapping[str, Any]) -> dict[str, Any]:
        cells = [[(r.content, _fit(r)) for r in folds] for folds in repeats]
        known = {"version": VERSION, "question": self.question.name, "what": what}
        return {**known, "cells": cells, "facts": facts}

    def _labels(self, repeats: Repeats) -> list[Own]:
        if self.scorer is None:  # tables that somebody changed have the content of others
            return labels(repeats)
        known = tuple(tuple((r.content, _fit(r)) for r in folds) for folds in repeats)
        return _HELD(known, lambda: labels(repeats))

    def _there(self, repeats: Repeats) -> There:
        rows = self._labels(repeats)
        first = [own[0] for own in rows]
        lacking = [next(filter(None, (one.lacking for one in own)), "") for own in rows]
        return There(
            names=[one.name for one in first],
            patients=[one.patients.number(one.every) for one in first],
            positives=[int(one.target.sum()) for one in first],
            negatives=[int((~one.target).sum()) for one in first],
            lacking=lacking,
            unmet={
                key: [why or self.question.unmet(own, key) for why, own in zip(lacking, rows)]
                for key in self.question.keys
            },
        )

    def _numbers(self, repeats: Repeats, shared: Shared) -> dict[str, Columns]:
        there = self.there(repeats)
        found: dict[str, dict[str, dict[str, Estimate | float]]] = {}
        for place, own in enumerate(self._labels(repeats)):
            for key in self.question.keys:
                if not there.unmet[key][place]:
                    answers = self.question.answers(own, key)
                    found.setdefault(key, {})[there.names[place]] = answers
        return {
            key: self._columns(found.get(key, {}), there.names, shared[key])
            for key in self.question.keys
        }

    def _columns(
        self,
        found: Mapping[str, Mapping[str, Estimate | float]],
        names: Sequence[str],
        shared: Sequence[str],
    ) -> dict[str, list[float | None]]:
        whole = bool(shared) and all(name in found for name in shared)
        made: dict[str, list[float | None]] = {}
        for column, example in next(iter(found.values()), {}).items():
            of = {name: answers[column] for name, answers in found.items()}
            if isinstance(example, Estimate):
                own = {name: e for name, e in of.items() if isinstance(e, Estimate)}
                mean = mean_of_labels([own[n] for n in shared]) if whole else None
                made |= self._estimated(column, [mean, *map(own.get, names)])
                continue
            there = whole and column in self.question.averaged
            average = float(np.mean([of[n] for n in shared])) if there else None
            made[column] = [number(average), *(number(of.get(n)) for n in names)]
        return made

    def _estimated(
        self, column: str, found: Sequence[Estimate | None]
    ) -> dict[str, list[float | None]]:
        ends = [(None, None) if e is None else self.question.interval(e) for e in found]
        made = {column: [None if e is None else number(e.value) for e in found]}
        return made | {
            column + end: list(map(number, values)) for end, values in zip(ENDS, zip(*ends))
        }


def repeats_of(results: Sequence[Result]) -> Repeats:
    """The cells of a row of the main table: of each lead draw of each fit its folds."""
    return list(grouped(results, lambda r: (str(r.cell.setting), r.cell.fit.seed)).values())


_HELD: Held[list[Own]] = Held(size=lambda rows: sum(_size(own) for own in rows), most=2**26)
"""Several questions are asked of a row."""


def labels(repeats: Repeats) -> list[Own]:
    """Each label of a row, in all repeats."""
    tables = [[r.predictions() for r in folds] for folds in repeats]
    patients = [[t["patient"].to_numpy(str) for t in of] for of in tables]
    names = np.unique(np.concatenate([p for of in patients for p in of]))
    made = (_of_repeat(of, folds, names) for of, folds in zip(tables, repeats))
    return list(zip(*made, strict=True))


def _size(own: Own) -> int:
    """Bytes, about."""
    return sum(4 * one.probability.nbytes for one in own)


def _of_repeat(
    tables: Sequence[pd.DataFrame], folds: Sequence[Result], names: np.ndarray
) -> Iterator[Label]:
    """`names`: the patients of the row, in alphabetical order."""
    made = [arrays(table) for table in tables]
    target, probability = (np.concatenate([m[k] for m in made]) for k in (1, 2))
    whose = np.concatenate([table["patient"].to_numpy(str) for table in tables])
    fold = np.repeat(np.arange(len(tables)), list(map(len, tables)))
    patients = Patients(of_record=np.searchsorted(names, whose), count=len(names))
    for k, name in enumerate(made[0][0]):
        known = target[:, k] != UNKNOWN
        yield Label(
            name=name,
            target=target[known, k] == 1,
            probability=probability[known, k],
            patients=patients.only(known),
            fold=fold[known],
            folds=folds,
        )


def number(value: Any) -> float | None:
    """NaN as None."""
    return None if value is None or np.isnan(value) else float(value)


def _fit(result: Result) -> str:
    """sha256 of what tells the hashes of its fit's files; "" where the fit is gone."""
    with suppress(OSError):
        done = result.run / result.document["fit"] / DONE
        return hashlib.sha256(done.read_bytes()).hexdigest()
    return ""
