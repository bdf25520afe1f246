"""Predictions of a cell, as a table and as arrays, and its scores under each metric.

A report reads thousands of small cells: as tables of pandas they would take longer to read than to
score.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from ecgbench import metrics
from ecgbench.cards.cell import Absent
from ecgbench.cards.dataset import Task
from ecgbench.core.registry import numbers
from ecgbench.core.text import quoted
from ecgbench.errors import BadSetting, LeakError
from ecgbench.evaluate.predict import prediction_table
from ecgbench.stats.auroc import placements
from ecgbench.stats.known import UNKNOWN, known_of, parts, positives_of, two_valued

MACRO = "macro"
"""Name of the mean over the labels."""
COLUMNS = ("value", "low", "high", "n", "positives")
"""Numbers of one label under one metric."""
ROUNDING = 1e-9
"""How far a value may be outside the range of its metric."""
TARGET, PROBABILITY, WINS = "target:", "probability:", "wins:"
"""How columns of labels begin: `target:<label>`, `wins:<metric>:<label>`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """Predictions of one cell for the test records; refuses NaN and a missing or double record."""

    records: list[str]
    patients: list[str]
    leads: list[str]
    """Measured leads of each record: `II+V2`; under `scoring.draw=window` one set per window,
    `II|V1`.
    """
    labels: tuple[str, ...]
    probability: np.ndarray
    """(record, label) float64."""
    target: np.ndarray
    """(record, label) int8; -1 where a label is not known for a record."""
    expected: frozenset[str]
    """The records that must be there."""

    def __post_init__(self) -> None:
        if not np.isfinite(self.probability).all():
            raise LeakError(
                "a prediction is not finite: the network read a lead that was not measured, or "
                "overflowed"
            )
        if len(self.records) != len(set(self.records)) or set(self.records) != self.expected:
            raise LeakError(
                f"{len(self.records)} predictions for {len(self.expected)} test records, or one "
                f"twice"
            )

    def table(self) -> pd.DataFrame:
        """record, patient, leads, then `probability:<label>` and `target:<label>`."""
        columns = {"record": self.records, "patient": self.patients, "leads": self.leads}
        return prediction_table(columns, self.labels, self.probability, self.target)


@dataclass(frozen=True, kw_only=True, eq=False)
class Predicted:
    """Predictions of a cell for its test records. The arrays are cached and must not be changed."""

    records: list[str]
    patients: np.ndarray
    """(record,) str."""
    labels: list[str]
    target: np.ndarray
    """(record, label) int8; -1 where a label is not known for a record."""
    probability: np.ndarray
    """(record, label) float64."""
    wins: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Metric -> (record, label) twice the number of comparisons that each record wins; for metrics
    whose wins were stored.
    """
    codes: Mapping[str, str] = field(default_factory=dict)
    """Label -> its SNOMED CT code, of as many labels as have one."""

    @property
    def together(self) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """What a metric that reads all labels together is given: targets, probabilities, and
        (label,) codes, or names where there are none.
        """
        known_as = [self.codes.get(label, label) for label in self.labels]
        return self.target, self.probability, known_as

    @classmethod
    def of(cls, table: Any) -> "Predicted":
        """From a table of pandas or pyarrow with the columns record, patient, then
        `probability:<label>` and `target:<label>` of each label. KeyError where a column is
        missing.
        """
        if isinstance(table, Predicted):
            return table
        columns = getattr(table, "column_names", None) or table.columns
        names = list(map(str, columns))
        labels = [name.removeprefix(TARGET) for name in names if name.startswith(TARGET)]
        records, patients = (table[name].to_numpy() for name in ("record", "patient"))
        return cls(
            records=records.tolist(),
            patients=np.asarray(patients, dtype=str),
            labels=labels,
            target=_columns(table, TARGET, labels, len(records)),
            probability=_columns(table, PROBABILITY, labels, len(records)),
            wins={
                metric: _columns(table, f"{WINS}{metric}:", labels, len(records))
                for metric in {n.split(":", 2)[1] for n in names if n.startswith(WINS)}
            },
        )

    @property
    def fault(self) -> str:
        """What no run writes, and nothing can be computed from; "" where there is nothing."""
        if len({*self.records}) < len(self.records):
            return "holds a record twice"
        # NaN is not between
        if not ((self.probability >= 0) & (self.probability <= 1)).all():
            return "holds a probability that is not between 0 and 1"
        return (
            "" if np.isin(self.target, (-1, 0, 1)).all() else "holds targets other than 0, 1 and -1"
        )

    def only(self, names: frozenset[str]) -> "Predicted":
        """Only these records. If some are left out, without the stored wins."""
        there = np.array([name in names for name in self.records], bool)
        if there.all():
            return self
        return replace(
            self,
            records=[name for name in self.records if name in names],
            patients=self.patients[there],
            target=_of(self.target, there),
            probability=_of(self.probability, there),
            wins={},
        )

    @property
    def size(self) -> int:
        """Approximate bytes."""
        arrays = (self.patients, self.target, self.probability, *self.wins.values())
        return 64 * len(self.records) + sum(array.nbytes for array in arrays)


def _columns(table: Any, kind: str, labels: Sequence[str], records: int) -> np.ndarray:
    """(record, label), the records of a label one after the other in memory."""
    columns = [table[f"{kind}{label}"].to_numpy() for label in labels]
    made = np.stack(columns) if columns else np.empty((0, records))
    made.setflags(write=False)
    return made.T


def _of(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Some records of (record, label), in the same order of memory."""
    return np.ascontiguousarray(values.T[:, there]).T


def with_wins(metric_names: Sequence[str], predictions: pd.DataFrame) -> pd.DataFrame:
    """Predictions, and `wins:<metric>:<label>` under the metrics that rank records
    (stats.auroc.wins): twice the number of comparisons that each record wins, from which intervals
    are made.
    """
    own = Predicted.of(predictions)
    # a record wins against all others at most
    small = np.uint16 if 2 * len(predictions) < 2**16 else np.uint32
    columns = {
        f"wins:{metric}:{label}": column
        for metric in metric_names
        if ranks_records(metric)
        for label, column in zip(
            own.labels, _wins(metric, own.target, own.probability).astype(small).T
        )
    }
    return predictions.assign(**columns)


def ranks_records(metric: str) -> bool:
    """Whether intervals under a metric are made from placements."""
    module = metrics.get(metric)
    return hasattr(module, "wins") and not module.CARD.together


def wins_of(metric: str, predictions: Predicted, values: np.ndarray | None = None) -> np.ndarray:
    """(record, label) as stored; computed where there are none, or where they do not give the
    `values` (label,), because the metric was edited since.
    """
    target = predictions.target
    if (stored := predictions.wins.get(metric)) is not None:
        if values is None:
            return stored
        placed = np.where(target == 1, placements(target, stored), 0.0)
        given = placed.sum(axis=0) / np.maximum(positives_of(target), 1)
        if np.allclose(given, values, rtol=0, atol=ROUNDING, equal_nan=True):
            return stored
    return _wins(metric, target, predictions.probability)


def _wins(metric: str, target: np.ndarray, probability: np.ndarray) -> np.ndarray:
    won = np.zeros(target.shape)
    for part in parts(target):
        known = part.of(target)
        module: Any = metrics.get(metric)  # one that has wins
        both = (known, part.of(probability))
        won[part.index] = own = called(metric, known.shape, module.wins, *both)
        if not metrics.ROOM.built_in(metric):
            values = called(metric, known.shape[1:], module.value, *both)
            demand_given(metric, known, own, values)
    return won


def demand_given(metric: str, target: np.ndarray, won: np.ndarray, values: np.ndarray) -> None:
    """BadSetting where wins (record, label) are no counts, or do not give the values (label,) of
    the metric: intervals made from them would be of another number.
    """
    two, positive = two_valued(target), target == 1
    others = np.where(positive, (target == 0).sum(axis=0), positive.sum(axis=0))
    counts = np.isfinite(won) & (won >= 0) & (won <= 2 * others) & (won == np.round(won))
    complaint = "" if counts[:, two].all() else "are no counts from 0 to twice the other class"
    placed = placements(target, np.where(counts, won, 0.0))
    for own, counted in ((positive, positive.sum(axis=0)), (~positive, (~positive).sum(axis=0))):
        given = np.where(own, placed, 0.0).sum(axis=0) / np.maximum(counted, 1)
        if not complaint and not np.allclose(given[two], values[two], rtol=0, atol=1e-6):
            complaint = f"give {given[two][0]:.4g}, and its value is {values[two][0]:.4g}"
    if complaint:
        raise wrong(metric, f"has wins that {complaint}")


def wrong(metric: str, fault: str) -> BadSetting:
    """What is raised for a metric that does not do what it promises."""
    argument = quoted(metrics.ROOM.argument(metric))
    return BadSetting(f"metric {metric!r} {fault}; try: ecgbench check metric {argument}")


def score_table(
    names: Sequence[str], predictions: pd.DataFrame, codes: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """metric, label, value, n, positives under each metric: the macro first, which is the mean over
    defined labels, or what a metric that reads them together makes of them.

    An undefined label is NaN and outside the mean. n counts records, of a label those that it is
    known of; positives of the macro row: labels that count. codes: of labels, in SNOMED CT.
    """
    own, tables = replace(Predicted.of(predictions), codes=codes or {}), []
    for name in names:
        columns = columns_of(own, values_of(name, own))
        tables.append(pd.DataFrame({"metric": name, **columns}))
    return pd.concat(tables, ignore_index=True)


def columns_of(own: Predicted, values: np.ndarray) -> dict[str, np.ndarray]:
    """label, value, n, positives of `values_of`; see `score_table`."""
    target = own.target
    columns = {
        "label": np.array([MACRO, *own.labels], object),
        "value": values,
        "n": np.array([len(target), *known_of(target)]),
        "positives": np.array([0, *positives_of(target)]),
    }
    columns["positives"][0] = counting(columns).sum()
    return columns


def counting(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """(label,) the labels that the macro of such columns is of: those that have a value; where only
    the macro has one, those that have both values.
    """
    value, n, positives = (columns[name][1:] for name in ("value", "n", "positives"))
    valued = np.isfinite(value)
    both: np.ndarray = (positives > 0) & (positives < n)
    return both if np.isfinite(columns["value"][0]) and not valued.any() else valued


def macro_of(values: np.ndarray, absent: Absent) -> float:
    """The mean over the labels of (label,)."""
    defined = np.isfinite(values)
    if absent == "half":
        return float(np.where(defined, values, 0.5).mean())
    return float(values[defined].mean()) if defined.any() else np.nan


def values_of(metric: str, own: Predicted, absent: Absent = "undefined") -> np.ndarray:
    """(1 + label,) the macro first; NaN where a label has no value. BadSetting where a value is
    outside the range of the metric's card.
    """
    module, target = metrics.get(metric), own.target
    if module.CARD.together:
        if (target == UNKNOWN).any():
            raise BadSetting(
                f"metric {metric!r} reads all labels of a record together, and here some are not "
                f"known of all records; leave it out"
            )
        values = called(metric, (1 + target.shape[1],), module.value, *own.together)
    else:
        of_labels = np.full(target.shape[1], np.nan)
        for part in parts(target):
            both = part.of(target), part.of(own.probability)
            of_labels[part.labels] = called(metric, both[0].shape[1:], module.value, *both)
        values = np.array([macro_of(of_labels, absent), *of_labels])
    _demand_possible(metric, target, values)
    return values


def demand_labels(metric: str, task: Task, codes: Mapping[str, str]) -> None:
    """BadSetting where a metric that reads all labels together cannot read those of a task."""
    if not metrics.card(metric).together:
        return
    each = np.eye(len(task.labels), dtype=np.int8)
    names = list(task.labels)
    own = Predicted(
        records=names,
        patients=np.array(names),
        labels=names,
        target=np.where(task.masked, UNKNOWN, each),
        probability=each.astype(float),
        codes=codes,
    )
    try:
        values_of(metric, own)
    except BadSetting as error:
        raise BadSetting(f"--tasks {task.name}: {error}") from error


def _demand_possible(metric: str, target: np.ndarray, values: np.ndarray) -> None:
    """BadSetting for values (1 + label,) that there cannot be."""
    low, high = metrics.card(metric).ends
    outside = values[(values < low - ROUNDING) | (values > high + ROUNDING)]
    if len(outside):
        fault = f"gives {outside[0]:.4g}, and its CARD says that it lies in {low:g} to {high:g}"
        raise wrong(metric, fault)
    if np.isinf(values).any():
        raise wrong(metric, "gives infinity, which no mean can hold; NaN where there is no value")
    if (given := values[1:][~two_valued(target) & np.isfinite(values[1:])]).size:
        fault = f"gives {given[0]:.4g} for a label that all known records have, or none"
        raise wrong(metric, f"{fault}; NaN belongs there")


def called(
    metric: str, shape: tuple[int, ...], function: Callable[..., Any], *arguments: Any
) -> np.ndarray:
    """The result of a metric; BadSetting in one line where it fails or has another shape."""
    ours = metrics.ROOM.built_in(metric)

    def computed() -> np.ndarray:
        # one that sorts in place changes no other metric
        own = (a.copy() if isinstance(a, np.ndarray) and not ours else a for a in arguments)
        with metrics.ROOM.calling(metric), warnings.catch_warnings(action="ignore"):
            made = function(*own)
        try:
            return numbers(made).astype(np.float64)
        except TypeError as error:
            raise wrong(metric, f"does not fit: {error}") from None

    given = computed()
    again = given if ours else computed()
    if not np.array_equal(given, again, equal_nan=True):
        raise wrong(metric, "gives other numbers when it is called again")
    if given.shape != shape:
        raise wrong(metric, f"gives {given.shape} where {shape} belongs")
    return given
