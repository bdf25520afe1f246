"""From predictions to scores: values per label, their mean, and intervals over draws of
patients.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from ecgbench import metrics
from ecgbench.cells import OFFICIAL, Bootstrap
from ecgbench.errors import BadSetting, LeakError
from ecgbench.seeds import rng
from ecgbench.stats.bootstrap import (
    macro_replicates,
    patient_weights,
    percentile_interval,
    resampled,
)

MACRO = "macro"
"""What the mean over the labels is called where labels are named."""
COLUMNS = ("value", "low", "high", "n", "positives")
"""Numbers of one label under one metric."""
ROUNDING = 1e-9
"""By how much a value may leave the range of its metric."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """What one cell predicts for the test records; refuses NaN and a record that is missing or
    double.
    """

    records: list[str]
    patients: list[str]
    leads: list[str]
    """What was measured in each record: `II+V2`; under `--draw window` one set per window,
    `II|V1`.
    """
    labels: tuple[str, ...]
    probability: np.ndarray
    """(record, label) float64."""
    target: np.ndarray
    """(record, label) int8."""
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


def prediction_table(
    columns: Mapping[str, Any], labels: Sequence[str], probability: np.ndarray, target: np.ndarray
) -> pd.DataFrame:
    """The columns, then `probability:<label>` and `target:<label>` of arrays (record, label)."""
    named = {f"probability:{n}": probability[:, i] for i, n in enumerate(labels)}
    return pd.DataFrame(
        {**columns, **named, **{f"target:{n}": target[:, i] for i, n in enumerate(labels)}}
    )


def arrays(predictions: pd.DataFrame) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Labels, target (record, label) int8 and probability (record, label) float64 of a table of
    predictions.
    """
    labels = [c.split(":", 1)[1] for c in map(str, predictions.columns) if c.startswith("target:")]
    target, probability = (
        predictions[[f"{kind}:{n}" for n in labels]].to_numpy()
        for kind in ("target", "probability")
    )
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
        """(draw, record) weights of records by their patients; `kind`: of another bootstrap than
        the run's.
        """
        drawn = _drawn(self, kind or self.bootstrap)
        return np.asarray(
            drawn[:, np.searchsorted(np.asarray(self.patients), np.asarray(patients, dtype=str))]
        )


@lru_cache(maxsize=2)
def _drawn(draws: Draws, kind: Bootstrap) -> np.ndarray:
    """(draw, patient) weights."""
    fold = [] if draws.fold == OFFICIAL else ["fold", draws.fold]
    names = np.asarray(draws.patients, dtype=str)
    return np.asarray(
        patient_weights(names, draws.draws, rng("bootstrap", draws.dataset, kind, *fold), kind)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Scores of one cell under one metric, with intervals."""

    table: pd.DataFrame
    """label, value, low, high, n, positives: the macro row first (n: records, positives: defined
    labels).
    """
    replicates: np.ndarray
    """(draw,) float64 of the macro; NaN where a draw lost every label."""
    lost: int
    """Labels lost in a draw, summed over draws."""
    bootstrap: Bootstrap
    """How patients were drawn: as asked, or "multinomial" where a metric can only be computed anew
    from whole records.
    """


def score_table(names: Sequence[str], predictions: pd.DataFrame) -> pd.DataFrame:
    """metric, label, value, n, positives under each metric: the mean over defined labels first,
    called "macro".

    An undefined label is NaN and outside the mean. n counts records; positives of the macro row:
    defined labels.
    """
    labels, target, probability = arrays(predictions)
    return pd.concat(
        [_table(n, labels, target, _values(n, target, probability)) for n in names],
        ignore_index=True,
    )


def score(metric: str, predictions: pd.DataFrame, draws: Draws) -> Scores:
    """Scores of a table of predictions under a metric, with 95 % intervals over patients."""
    labels, target, probability = arrays(predictions)
    values, patients = _values(metric, target, probability), list(predictions["patient"])
    of_labels, kind = _replicates(metric, (target, probability, values), draws, patients)
    macro, lost = macro_replicates(of_labels, np.isfinite(values))
    # nothing is resampled, and an interval of no width would look like certainty
    if len(set(patients)) == 1:
        of_labels[:], macro[:] = np.nan, np.nan
    low, high = zip(*(percentile_interval(column) for column in (macro, *of_labels.T)), strict=True)
    table = _table(metric, labels, target, values).assign(low=low, high=high)
    return Scores(
        table=table[["label", *COLUMNS]], replicates=macro, lost=int(lost.sum()), bootstrap=kind
    )


def _table(
    metric: str, labels: Sequence[str], target: np.ndarray, values: np.ndarray
) -> pd.DataFrame:
    macro = np.nanmean(values) if np.isfinite(values).any() else np.nan
    return pd.DataFrame(
        {
            "metric": metric,
            "label": [MACRO, *labels],
            "value": [macro, *values],
            "n": len(target),
            "positives": [int(np.isfinite(values).sum()), *target.sum(axis=0).astype(int)],
        }
    )


def _replicates(
    metric: str,
    known: tuple[np.ndarray, np.ndarray, np.ndarray],
    draws: Draws,
    patients: Sequence[str],
) -> tuple[np.ndarray, Bootstrap]:
    """(draw, label), and how patients were drawn for it.

    As the metric makes them; else from its influence values; else from the records of the drawn
    patients.
    """
    target, probability, values = known
    module, shape = metrics.get(metric), (draws.draws, len(values))
    if hasattr(module, "replicates"):
        return _called(
            metric, shape, module.replicates, target, probability, draws.weights(patients)
        ), draws.bootstrap
    if module.influence(target, probability) is None:
        counts = draws.weights(patients, "multinomial")
        return _called(
            metric, shape, resampled, module.value, target, probability, counts
        ), "multinomial"
    influence, weights = (
        _called(metric, target.shape, module.influence, target, probability),
        draws.weights(patients),
    )
    return values + weights @ influence / weights.sum(axis=1, keepdims=True), draws.bootstrap


def _values(metric: str, target: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """(label,); NaN where a label has no value. BadSetting where one lies outside the range that
    the metric declares.
    """
    module = metrics.get(metric)
    values = _called(metric, target.shape[1:], module.value, target, probability)
    low, high = module.CARD.range
    outside = values[(values < low - ROUNDING) | (values > high + ROUNDING)]
    if len(outside):
        fault = f"gives {outside[0]:.4g}, and its CARD says that it lies in {low:g} to {high:g}"
        raise BadSetting(f"metric {metric!r} {fault}; try: ecgbench check metric {metric}")
    return np.where(np.isfinite(values), values, np.nan)


def _called(
    metric: str, shape: tuple[int, ...], function: Callable[..., Any], *arguments: Any
) -> np.ndarray:
    """What a metric gives; BadSetting in one line where it fails or gives another shape."""
    with metrics.ROOM.calling(metric):
        given = np.asarray(function(*arguments), np.float64)
    if given.shape != shape:
        raise BadSetting(
            f"metric {metric!r} gives {given.shape} where {shape} belongs; try: ecgbench check "
            f"metric {metric}"
        )
    return given
