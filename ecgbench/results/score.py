"""From predictions to scores: values per label, their mean, and intervals over draws of patients."""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench import metrics
from ecgbench.cells import OFFICIAL, Bootstrap
from ecgbench.errors import BadSetting, LeakError
from ecgbench.seeds import rng
from ecgbench.stats.bootstrap import macro_replicates, patient_weights, percentile_interval, resampled

MACRO = "macro"
"""What the mean over the labels is called where labels are named."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """What one cell predicts for the test records; refuses NaN and a record that is missing or double."""

    records: list[str]
    patients: list[str]
    leads: list[str]
    """What was measured in each record: `II+V2`; under `--draw window` one set per window, `II|V1`."""
    labels: tuple[str, ...]
    probability: np.ndarray
    """(record, label) float64."""
    target: np.ndarray
    """(record, label) int8."""
    expected: frozenset[str]
    """The records that must be there."""

    def __post_init__(self) -> None:
        if not np.isfinite(self.probability).all():
            raise LeakError("a prediction is not finite: the network read a lead that was not measured, or overflowed")
        if len(self.records) != len(set(self.records)) or set(self.records) != self.expected:
            raise LeakError(f"{len(self.records)} predictions for {len(self.expected)} test records, or one twice")

    def table(self) -> pd.DataFrame:
        """record, patient, leads, then `probability:<label>` and `target:<label>`."""
        columns: dict[str, object] = {"record": self.records, "patient": self.patients, "leads": self.leads}
        columns |= {f"probability:{n}": self.probability[:, i] for i, n in enumerate(self.labels)}
        columns |= {f"target:{n}": self.target[:, i] for i, n in enumerate(self.labels)}
        return pd.DataFrame(columns)


def arrays(predictions: pd.DataFrame) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Labels, target (record, label) int8 and probability (record, label) float64 of a table of predictions."""
    labels = [c.split(":", 1)[1] for c in map(str, predictions.columns) if c.startswith("target:")]
    target, probability = (predictions[[f"{kind}:{n}" for n in labels]].to_numpy() for kind in ("target", "probability"))
    return labels, target, probability


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Draws of patients, the same for every model, setting and task of a dataset."""

    dataset: str
    patients: tuple[str, ...]
    """Who may be drawn, each once, in alphabetical order."""
    draws: int
    bootstrap: Bootstrap
    fold: str = OFFICIAL

    def weights(self, patients: Sequence[str], kind: Bootstrap | None = None) -> np.ndarray:
        """(draw, record) weights of records by their patients; `kind`: of another bootstrap than the run's."""
        drawn = _drawn(self, kind or self.bootstrap)
        return np.asarray(drawn[:, np.searchsorted(np.asarray(self.patients), np.asarray(patients, dtype=str))])


@lru_cache(maxsize=2)
def _drawn(draws: Draws, kind: Bootstrap) -> np.ndarray:
    """(draw, patient) weights."""
    fold = [] if draws.fold == OFFICIAL else ["fold", draws.fold]
    names = np.asarray(draws.patients, dtype=str)
    return np.asarray(patient_weights(names, draws.draws, rng("bootstrap", draws.dataset, kind, *fold), kind))


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Scores of one cell under one metric, with intervals."""

    table: pd.DataFrame
    """label, value, low, high, n, positives: the macro row first (n: records, positives: defined labels)."""
    replicates: np.ndarray
    """(draw,) float64 of the macro; NaN where a draw lost every label."""
    lost: int
    """Labels lost in a draw, summed over draws."""


def score_table(names: Sequence[str], predictions: pd.DataFrame) -> pd.DataFrame:
    """metric, label, value, n, positives under each metric: the mean over defined labels first, called "macro".

    An undefined label is NaN and outside the mean. n counts records; positives of the macro row: defined labels.
    """
    labels, target, probability = arrays(predictions)
    return pd.concat([_table(n, labels, target, _values(n, target, probability)) for n in names], ignore_index=True)


def score(metric: str, predictions: pd.DataFrame, draws: Draws) -> Scores:
    """Scores of a table of predictions under a metric, with 95 % intervals over patients."""
    labels, target, probability = arrays(predictions)
    values = _values(metric, target, probability)
    weights = draws.weights(list(predictions["patient"]))
    if (weights == weights[:, :1]).all():  # one patient: nothing is resampled, and no width would look like certainty
        replicates, lost = np.full((len(weights), 1 + len(labels)), np.nan), np.zeros(1, np.int64)
    else:
        of_labels = _replicates(metric, (target, probability, values), weights, lambda: draws.weights(list(predictions["patient"]), "multinomial"))
        macro, lost = macro_replicates(of_labels, np.isfinite(values))
        replicates = np.column_stack([macro, of_labels])
    low, high = zip(*(percentile_interval(column) for column in replicates.T), strict=True)
    table = _table(metric, labels, target, values).drop(columns="metric")
    table.insert(2, "low", low)
    table.insert(3, "high", high)
    return Scores(table=table, replicates=replicates[:, 0].copy(), lost=int(lost.sum()))


def _table(metric: str, labels: Sequence[str], target: np.ndarray, values: np.ndarray) -> pd.DataFrame:
    macro = np.nanmean(values) if np.isfinite(values).any() else np.nan
    return pd.DataFrame({
        "metric": metric, "label": [MACRO, *labels], "value": [macro, *values], "n": len(target),
        "positives": [int(np.isfinite(values).sum()), *target.sum(axis=0).astype(int)],
    })  # fmt: skip


def _replicates(
    metric: str, known: tuple[np.ndarray, np.ndarray, np.ndarray], weights: np.ndarray, counts: Callable[[], np.ndarray]
) -> np.ndarray:
    """(draw, label): as the metric makes them; else from its influence values; else from the drawn records themselves."""
    target, probability, values = known
    module, shape = metrics.get(metric), (len(weights), target.shape[1])
    if hasattr(module, "replicates"):
        return _called(metric, shape, module.replicates, target, probability, weights)
    if module.influence(target, probability) is None:
        return _called(metric, shape, resampled, module.value, target, probability, counts())
    influence = _called(metric, target.shape, module.influence, target, probability)
    return np.asarray(values + weights @ influence / weights.sum(axis=1, keepdims=True))


def _values(metric: str, target: np.ndarray, probability: np.ndarray) -> np.ndarray:
    return _called(metric, target.shape[1:], metrics.get(metric).value, target, probability)


def _called(metric: str, shape: tuple[int, ...], function: Callable[..., Any], *arguments: Any) -> np.ndarray:
    """What a metric gives; BadSetting in one line where it fails or gives another shape."""
    try:
        given = np.asarray(function(*arguments), np.float64)
    except Exception as error:  # a plug-in may raise anything
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        raise BadSetting(f"metric {metric!r} failed at {place}: {type(error).__name__}: {error}") from error
    if given.shape != shape:
        raise BadSetting(f"metric {metric!r} gives {given.shape} where {shape} belongs; try: ecgbench check metric {metric}")
    return given
