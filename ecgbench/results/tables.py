"""The tables of a study: rows of settings, cells, labels and comparisons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cells import Cell
from ecgbench.results.compare import Row, Scored
from ecgbench.results.result import Result
from ecgbench.results.score import MACRO

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
    "note",
)
"""Columns of main_table.csv. Values are fractions; `leads` as typed; `status` is ok, skipped or
failed; `note` says what must be said of its fits, nothing as a rule.
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


def main(rows: Sequence[Row], weights: Mapping[str, str]) -> pd.DataFrame:
    """MAIN_COLUMNS; `weights`: by model, as loaded."""
    return pd.DataFrame(
        [_main(r, weights.get(r.model) or r.weights) for r in rows], columns=list(MAIN_COLUMNS)
    )


def _main(row: Row, weights: str) -> dict[str, Any]:
    first = row.cells[0] if row.status == "ok" else None
    low, high = row.interval
    labels = first.table.iloc[1:] if first else None
    return {
        "task": row.task,
        "model": row.model,
        "leads": row.leads,
        "policy": row.policy,
        "weights": weights,
        "metric": row.metric,
        "value": row.score,
        "std": row.std,
        "low": low,
        "high": high,
        "n_records": first.n_records if first else np.nan,
        "n_patients": first.n_patients if first else np.nan,
        "n_labels": np.nan if labels is None else len(labels),
        "n_undefined": np.nan if labels is None else int(labels["value"].isna().sum()),
        "p": row.difference.p if row.difference else np.nan,
        "p_holm": row.p_holm,
        "best": row.best,
        "not_significantly_worse": bool(row.difference and row.difference.not_significant),
        "status": row.status,
        "note": "; ".join(row.marks),
    }


def cells(outcomes: Sequence[Outcome], metrics: Sequence[str]) -> pd.DataFrame:
    """CELL_COLUMNS, one row per cell and metric."""
    return pd.DataFrame(
        [_cell(o, m) for m in metrics for o in outcomes], columns=list(CELL_COLUMNS)
    )


def _cell(outcome: Outcome, metric: str) -> dict[str, Any]:
    cell, scored, result = outcome.cell, outcome.scored.get(metric), outcome.result
    document = result.document if result else {}
    macro: Mapping[Any, Any] = scored.table.iloc[0].to_dict() if scored else {}
    return {
        "task": cell.task,
        "model": cell.fit.model,
        "leads": cell.setting.typed,
        "setting": str(cell.setting),
        "seed": getattr(cell.setting, "seed", None),
        "fit_seed": cell.fit.seed,
        "fold": cell.fit.fold,
        "policy": cell.policy,
        "weights": document.get("weights_name", cell.fit.weights),
        "status": outcome.status,
        "reason": outcome.reason,
        "metric": metric,
        **{name: macro.get(name, np.nan) for name in ("value", "low", "high")},
        **{
            name: document.get(name, np.nan)
            for name in ("n_records", "windows", "seconds", "blind", "excluded")
        },
        "lost": scored.lost if scored else np.nan,
        "key": document.get("key", ""),
        "path": result.folder.relative_to(result.run).as_posix() if result else "",
    }


def labels(outcomes: Sequence[Outcome], metrics: Sequence[str]) -> pd.DataFrame:
    """LABEL_COLUMNS, one row per finished cell, metric and label."""
    parts = []
    for metric, outcome in ((m, o) for m in metrics for o in outcomes if m in o.scored):
        cell, table = outcome.cell, outcome.scored[metric].table
        parts.append(
            table[table["label"] != MACRO].assign(
                task=cell.task,
                model=cell.fit.model,
                setting=str(cell.setting),
                fit_seed=cell.fit.seed,
                fold=cell.fit.fold,
                policy=cell.policy,
                metric=metric,
            )
        )
    return (
        pd.concat(parts, ignore_index=True)[list(LABEL_COLUMNS)]
        if parts
        else pd.DataFrame(columns=list(LABEL_COLUMNS))
    )


def comparisons(groups: Sequence[Sequence[Row]]) -> pd.DataFrame:
    """COMPARISON_COLUMNS, one row per comparison with the best of its group."""
    compared = [
        _comparison(row, best)
        for rows in groups
        for best in rows
        if best.best
        for row in rows
        if row.difference is not None
    ]
    return pd.DataFrame(compared, columns=list(COMPARISON_COLUMNS))


def _comparison(row: Row, best: Row) -> dict[str, Any]:
    d = row.difference
    assert d is not None
    return {
        "task": row.task,
        "leads": row.leads,
        "metric": row.metric,
        "model": row.model,
        "policy": row.policy,
        "best_model": best.model,
        "best_policy": best.policy,
        "difference": d.difference,
        "low": d.low,
        "high": d.high,
        "p": d.p,
        "p_holm": row.p_holm,
        "n_patients": row.cells[0].patients_shared(best.cells[0]),
    }
