"""From predictions to scores: values per label, their mean, and intervals over draws of
patients.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ecgbench import metrics
from ecgbench.cards.cell import Absent, Bootstrap, Cell
from ecgbench.core.division import OFFICIAL
from ecgbench.core.seeds import rng
from ecgbench.stats import bootstrap
from ecgbench.stats.auroc import placements
from ecgbench.stats.components import Components
from ecgbench.stats.known import parts, two_valued
from ecgbench.study import scores as stored
from ecgbench.study.scores import COLUMNS, Predicted, ranks_records


def label_weights(defined: np.ndarray, absent: Absent) -> tuple[np.ndarray, float]:
    """What each label counts in the macro, and what those without both values add to it."""
    if absent == "undefined":
        return defined / max(int(defined.sum()), 1), 0.0
    return np.full(len(defined), 1 / len(defined)), 0.5 * float((~defined).mean())


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Draws of patients, the same for every model, setting and task of a dataset."""

    dataset: str
    patients: tuple[str, ...]
    """Who may be drawn, each once, in alphabetical order; the records under "records"."""
    draws: int
    bootstrap: Bootstrap
    fold: str = OFFICIAL

    def weights(self, patients: Sequence[str]) -> np.ndarray:
        """(draw, record) how often each record is drawn, by its patient."""
        at = np.searchsorted(np.asarray(self.patients), np.asarray(patients, dtype=str))
        return np.asarray(_drawn(self)[:, at])

    @property
    def kind(self) -> Bootstrap:
        """The bootstrap of metrics that need one."""
        return "multinomial" if self.bootstrap == "none" else self.bootstrap


@lru_cache(maxsize=2)
def _drawn(draws: Draws) -> np.ndarray:
    """(draw, patient) how often each is drawn."""
    fold = [] if draws.fold == OFFICIAL else ["fold", draws.fold]
    names = np.asarray(draws.patients, dtype=str)
    random = rng("bootstrap", draws.dataset, draws.kind, *fold)
    return bootstrap.patient_weights(names, draws.draws, random)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Scores of one cell under one metric, with intervals."""

    columns: Mapping[str, np.ndarray]
    """label, value, low, high, n, positives, each (1 + label,): the macro first (n: records,
    positives: defined labels); n of a label: the records that it is known of.
    """
    replicates: np.ndarray
    """(draw,) float64 of the macro; NaN where a draw lost every label. Empty where intervals are
    made from placements.
    """
    lost: int
    """Labels lost in a draw, summed over draws."""
    bootstrap: Bootstrap
    """How patients were drawn: "none" where intervals are made from placements."""
    distinct: float
    """The macro with labels of the very same records counted once."""
    n_distinct: int
    """How many labels that leaves of those that count."""
    same_as: Sequence[str]
    """(label,) the label before it with the very same records, or ""."""

    @property
    def table(self) -> pd.DataFrame:
        """The columns as a table, a row for the macro and one for each label."""
        return pd.DataFrame({name: self.columns[name] for name in ("label", *COLUMNS)})


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored(Scores):
    """The scores of a finished cell, as far as a comparison needs them."""

    cell: Cell
    metric: str
    records: str
    """Which records it has: a digest of their names."""
    content: str = ""
    """Which cell: a digest of all its files."""
    predictions: Callable[[], Predicted]
    """Reads those of its records."""
    n_records: int = 0
    n_patients: int = 0
    overlap: float = 0.0
    """n_test / n_train of a fold of a cross-validation; 0 where there is one test set."""
    edited: bool = False
    """Whether the metric gave other values when the cell was computed: its file has been edited
    since.
    """

    @cached_property
    def value(self) -> float:
        """Mean over the labels, of all its records."""
        return float(self.columns["value"][0])

    @cached_property
    def known(self) -> frozenset[str]:
        """The labels that are known of any of its records."""
        there = self.columns["n"][1:] > 0
        return frozenset(self.columns["label"][1:][there].tolist())

    @cached_property
    def empty(self) -> bool:
        """Whether no label has both values in its records, so that there is nothing to score."""
        if not np.isnan(self.value):
            return False
        n, positives = (self.columns[name][1:] for name in ("n", "positives"))
        both = (positives > 0) & (positives < n)
        return not bool(both.any())

    def names(self) -> frozenset[str]:
        """Names of its records."""
        return frozenset(self.predictions().records)


def counted(cells: Sequence[Scored]) -> list[Scored]:
    """The cells that a row averages: without folds in which no label has both values; all of them
    where that leaves none.
    """
    return [c for c in cells if not c.empty] or list(cells)


def firsts(cells: Sequence[Scored]) -> list[Scored]:
    """The first cell of each fold: what all cells of a fold share can be read from it."""
    return list({c.cell.fit.fold: c for c in reversed(cells)}.values())[::-1]


def over_folds(cells: Sequence[Scored]) -> pd.DataFrame:
    """label, n and positives of all folds together, and in how many of them it has both values."""
    tables = [c.table.iloc[1:].reset_index(drop=True) for c in firsts(cells)]
    return pd.DataFrame(
        {
            "label": tables[0]["label"],
            **{name: sum(t[name] for t in tables) for name in ("n", "positives")},
            "valued": sum(
                ((t["positives"] > 0) & (t["positives"] < t["n"])).astype(int) for t in tables
            ),
        }
    )


def score(
    metric: str, predictions: pd.DataFrame | Predicted, draws: Draws, absent: Absent = "undefined"
) -> Scores:
    """Scores of predictions under a metric, with 95 % intervals over patients."""
    own = Predicted.of(predictions)
    labels, target = own.labels, own.target
    values = stored.values_of(metric, own, absent)
    bounds = np.full((1 + len(labels), 2), np.nan)
    if ranks_records(metric):
        placed = placements(target, stored.wins_of(metric, own, values[1:]))
        weights, offset = label_weights(np.isfinite(values[1:]), absent)
        made = Components(target, own.patients, placed[None], weights)
        bounds[0] = made.interval(0, offset)
        for at, k in enumerate(np.flatnonzero(made.defined)):
            bounds[1 + k] = made.label_interval(0, at)
    if draws.bootstrap == "none" and ranks_records(metric):
        macro, lost = np.empty(0), 0
        kind: Bootstrap = "none"
    else:
        kind = draws.kind
        units = own.records if kind == "records" else own.patients.tolist()
        every = _replicates(metric, own, values, draws, units, absent)
        macro, of_labels = every[:, 0], every[:, 1:]
        lost = int(np.isnan(of_labels[:, np.isfinite(values[1:])]).sum())
        # nothing is resampled, and an interval of no width would look like certainty
        for part in parts(target):
            if len(set(np.asarray(units, dtype=str)[part.records])) == 1:
                of_labels[:, part.labels] = np.nan
        if len(set(units)) == 1:
            macro[:] = np.nan
        drawn = np.array(
            [bootstrap.percentile_interval(column) for column in (macro, *of_labels.T)]
        )
        bounds = np.where(drawn[:, 1:] - drawn[:, :1] < stored.ROUNDING, bounds, drawn)
    columns = stored.columns_of(own, values)
    distinct, n_distinct = float(values[0]), int(columns["positives"][0])
    if not metrics.card(metric).together:
        distinct, n_distinct = distinct_mean(values[1:], target, absent)
    return Scores(
        columns={**columns, "low": bounds[:, 0], "high": bounds[:, 1]},
        replicates=macro,
        lost=lost,
        bootstrap=kind,
        distinct=distinct,
        n_distinct=n_distinct,
        same_as=same_as(target, labels),
    )


def _replicates(
    metric: str,
    own: Predicted,
    values: np.ndarray,
    draws: Draws,
    patients: Sequence[str],
    absent: Absent,
) -> np.ndarray:
    """(draw, 1 + label) the macro, and each label from the records that it is known of."""
    if metrics.card(metric).together:
        return _replicates_of(metric, own.together, values, draws.weights(patients))
    made = np.full((draws.draws, len(values)), np.nan)
    of_labels = made[:, 1:]
    for part in parts(own.target):
        known = part.of(own.target), part.of(own.probability)
        weights = draws.weights(list(np.asarray(patients, dtype=str)[part.records]))
        of_labels[:, part.labels] = _replicates_of(metric, known, values[1:][part.labels], weights)
    made[:, 0] = bootstrap.macro_replicates(of_labels, np.isfinite(values[1:]))[0]
    if absent == "half":
        made[:, 0] = np.where(np.isfinite(of_labels), of_labels, 0.5).mean(axis=1)
    return made


def _replicates_of(
    metric: str, known: tuple[Any, ...], values: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """(draw, value): as the metric makes them; else from its influence values; else from the
    records of the drawn patients. weights: (draw, record); known: what the metric is given.
    """
    target, probability, *names = known
    module, shape = metrics.get(metric), (len(weights), len(values))
    call = partial(stored.called, metric)
    if hasattr(module, "replicates"):
        return call(shape, module.replicates, target, probability, weights, *names)
    if module.influence(*known) is None:

        def value(t: np.ndarray, p: np.ndarray) -> np.ndarray:  # a draw may have one class only
            return np.where(True if names else two_valued(t), module.value(t, p, *names), np.nan)

        return call(shape, partial(bootstrap.resampled, value), target, probability, weights)
    influence = call((len(target), len(values)), module.influence, *known)
    made: np.ndarray = values + weights @ influence / weights.sum(axis=1, keepdims=True)
    if not metrics.ROOM.built_in(metric):
        _demand_around(metric, values, influence, made)
        # the slope knows no end of the range
        made = made.clip(*module.CARD.ends)
    return made


def _demand_around(
    metric: str, values: np.ndarray, influence: np.ndarray, replicates: np.ndarray
) -> None:
    """BadSetting where influence values (record, label) do not sum to 0, or give an interval that
    does not hold its value.
    """
    defined = np.isfinite(values)
    own, made = influence[:, defined], replicates[:, defined]
    if not np.isfinite(own).all():
        raise stored.wrong(metric, "has influence values that are not finite")
    if (np.abs(own.sum(axis=0)) > 1e-6 * np.abs(own).sum(axis=0) + stored.ROUNDING).any():
        raise stored.wrong(metric, "has influence values that do not sum to 0")
    for value, column in zip(values[defined], made.T):
        low, high = bootstrap.percentile_interval(column)
        if not low - stored.ROUNDING <= value <= high + stored.ROUNDING:
            fault = f"has an interval of {low:.4g} to {high:.4g} around {value:.4g}"
            raise stored.wrong(metric, f"{fault}, from its influence values")


# labels that count the same records twice


def first_alike(target: ArrayLike) -> NDArray[np.intp]:
    """(label,) the first label with the very column of each in `target` (record, label), itself
    where there is none before it. Columns that are known of different records (-1) are not alike.

    >>> first_alike([[1, 0, 1], [0, 0, 0], [1, 1, 1]]).tolist()
    [0, 1, 0]
    """
    first: dict[bytes, int] = {}
    columns = np.asarray(target, np.int8).T
    return np.array([first.setdefault(c.tobytes(), k) for k, c in enumerate(columns)], np.intp)


def same_as(target: ArrayLike, labels: Sequence[str]) -> list[str]:
    """(label,) the label before it with the very same records; "" where there is none, and where a
    label has not both values.
    """
    first, defined = first_alike(target), two_valued(target)
    return [labels[f] if f != k and defined[k] else "" for k, f in enumerate(first)]


def distinct_mean(values: ArrayLike, target: ArrayLike, absent: Absent) -> tuple[float, int]:
    """The mean over labels in which those with the very same records count once, by the mean of
    their `values` (label,); and how many labels that leaves. NaN and 0 where none has a value.
    """
    known = np.asarray(values, np.float64)
    if absent == "half":
        known = np.where(np.isfinite(known), known, 0.5)
    first, defined = first_alike(target), np.isfinite(known)
    groups = np.unique(first[defined])
    if not len(groups):
        return float("nan"), 0
    return float(np.mean([known[defined & (first == g)].mean() for g in groups])), len(groups)
