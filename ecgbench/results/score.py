"""From predictions to scores: AUROC per label, the macro AUROC, and bootstrap replicates over patients."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ecgbench.cells import Bootstrap
from ecgbench.errors import LeakError
from ecgbench.seeds import rng
from ecgbench.stats.auroc import per_label
from ecgbench.stats.bootstrap import macro_replicates, patient_weights, percentile_interval

MACRO = "macro"
"""Name of the row of scores.parquet that holds the mean over the labels."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """What one cell predicts for the test records; refuses NaN and a record that is missing or there twice."""

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Scores of one cell."""

    table: pd.DataFrame
    """label, auroc, low, high, n, positives: the macro row first (n: records, positives: defined labels)."""
    replicates: np.ndarray
    """(draw, 1 + label) float64: macro first; NaN where a class was lost."""
    lost: int
    """Labels lost in a draw, summed over draws (multinomial only)."""


def draws_of_patients(dataset: str, patients: Sequence[str], draws: int, kind: Bootstrap) -> np.ndarray:
    """(draw, record) weights, the same for every model, setting and task of a dataset."""
    return np.asarray(patient_weights(np.asarray(patients, dtype=str), draws, rng("bootstrap", dataset, kind), kind))


def score(labels: Sequence[str], target: np.ndarray, probability: np.ndarray, weights: np.ndarray) -> Scores:
    """Scores of (record, label) predictions under weights (draw, record). An undefined label is NaN and outside the macro."""
    values = per_label(target, probability)
    replicates = macro_replicates(target, probability, weights)
    columns = np.column_stack([replicates.macro, replicates.labels])
    if (weights == weights[:, :1]).all():
        columns[:] = np.nan  # one patient: nothing is resampled, and an interval of no width would look like certainty
    macro = np.nanmean(values) if np.isfinite(values).any() else np.nan
    intervals = [percentile_interval(c) for c in columns.T]
    table = pd.DataFrame({
        "label": [MACRO, *labels],
        "auroc": [macro, *values],
        "low": [low for low, _ in intervals],
        "high": [high for _, high in intervals],
        "n": len(target),
        "positives": [int(np.isfinite(values).sum()), *target.sum(axis=0).astype(int)],
    })  # fmt: skip
    return Scores(table=table, replicates=columns, lost=int(replicates.lost.sum()))
