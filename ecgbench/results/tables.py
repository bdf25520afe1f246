"""The tables of a study: rows of settings, cells, labels and comparisons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ecgbench.cells import Cell
from ecgbench.results.compare import Row, Scored
from ecgbench.results.result import Result

MAIN_COLUMNS = (
    "task",
    "model",
    "leads",
    "policy",
    "weights",
    "metric",
    "value",
    "std",
    "low",
    "high",
    "n_records",
    "n_patients",
    "n_labels",
    "n_undefined",
    "p",
    "p_holm",
    "best",
    "not_significantly_worse",
    "status",
)
"""Columns of main_table.csv. Values are fractions; `leads` as typed; `status` is ok, skipped or
failed.
"""
CELL_COLUMNS = (
    "task",
    "model",
    "leads",
    "setting",
    "seed",
    "fit_seed",
    "fold",
    "policy",
    "weights",
    "status",
    "reason",
    "metric",
    "value",
    "low",
    "high",
    "n_records",
    "windows",
    "seconds",
    "blind",
    "excluded",
    "lost",
    "key",
    "path",
)
LABEL_COLUMNS = (
    "task",
    "model",
    "setting",
    "fit_seed",
    "fold",
    "policy",
    "metric",
    "label",
    "value",
    "low",
    "high",
    "n",
    "positives",
)
COMPARISON_COLUMNS = (
    "task",
    "leads",
    "metric",
    "model",
    "policy",
    "best_model",
    "best_policy",
    "difference",
    "low",
    "high",
    "p",
    "p_holm",
    "n_patients",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What became of one cell that was asked for."""

    cell: Cell
    status: str
    reason: str
    result: Result | None
    scored: Mapping[str, Scored]
    """By metric; empty where the cell has no number."""


def main(rows: Sequence[Row]) -> pd.DataFrame:
    """MAIN_COLUMNS."""
    return pd.DataFrame([_main(r) for r in rows], columns=list(MAIN_COLUMNS))


def _main(row: Row) -> dict[str, Any]:
    """What there is of the columns, and more; what is not there becomes NaN."""
    low, high = row.interval
    known = {**vars(row), "value": row.score, "std": row.std, "low": low, "high": high}
    known["not_significantly_worse"] = bool(row.difference and row.difference.not_significant)
    if row.difference:
        known["p"] = row.difference.p
    if row.status == "ok":
        first = row.cells[0]
        values = first.table["value"].iloc[1:]
        known |= {"n_records": first.n_records, "n_patients": first.n_patients}
        known |= {"n_labels": len(values), "n_undefined": int(values.isna().sum())}
    return known


def cells(outcomes: Sequence[Outcome], metrics: Sequence[str]) -> pd.DataFrame:
    """CELL_COLUMNS, one row per cell and metric."""
    rows = [_cell(o, m) for m in metrics for o in outcomes]
    return pd.DataFrame(rows, columns=list(CELL_COLUMNS))


def _cell(outcome: Outcome, metric: str) -> dict[str, Any]:
    """What there is of the columns, and more; what is not there becomes NaN."""
    cell, result = outcome.cell, outcome.result
    known: dict[str, Any] = {"key": "", "path": "", "weights_name": cell.fit.weights}
    if result:
        known |= result.document | {"path": result.folder.relative_to(result.run).as_posix()}
    known |= _names(cell, metric)
    known |= {"leads": cell.setting.typed, "weights": known["weights_name"]}
    known |= {"status": outcome.status, "reason": outcome.reason}
    if scored := outcome.scored.get(metric):
        known |= {**scored.table.iloc[0][["value", "low", "high"]], "lost": scored.lost}
    return known


def labels(outcomes: Sequence[Outcome], metrics: Sequence[str]) -> pd.DataFrame:
    """LABEL_COLUMNS, one row per finished cell, metric and label."""
    rows = [
        _names(o.cell, metric) | label
        for metric in metrics
        for o in outcomes
        if metric in o.scored
        for label in o.scored[metric].table.iloc[1:].to_dict("records")
    ]
    return pd.DataFrame(rows, columns=list(LABEL_COLUMNS))


def _names(cell: Cell, metric: str) -> dict[str, Any]:
    return {
        "task": cell.task,
        "model": cell.fit.model,
        "setting": str(cell.setting),
        "seed": getattr(cell.setting, "seed", None),
        "fit_seed": cell.fit.seed,
        "fold": cell.fit.fold,
        "policy": cell.policy,
        "metric": metric,
    }


def comparisons(groups: Sequence[Sequence[Row]]) -> pd.DataFrame:
    """COMPARISON_COLUMNS, one row per comparison with the best of its group."""
    rows = [
        {
            **vars(row),
            **vars(row.difference),
            "best_model": best.model,
            "best_policy": best.policy,
            "n_patients": row.cells[0].patients_shared(best.cells[0]),
        }
        for group in groups
        for best in group
        if best.best
        for row in group
        if row.difference
    ]
    return pd.DataFrame(rows, columns=list(COMPARISON_COLUMNS))
