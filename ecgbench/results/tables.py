"""The tables of a study: rows of settings, cells, labels and comparisons."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.core.cells import Cell, grouped
from ecgbench.results.compare import Row
from ecgbench.results.reader import Reader
from ecgbench.results.score import Scored
from ecgbench.study.scores import COLUMNS

MAIN_COLUMNS = (
    *("task", "model", "leads", "policy", "weights", "metric", "value", "std", "low", "high", "se"),
    *("df", "share", "share_label", "n_records", "n_patients", "n_labels", "n_undefined"),
    *("fewest_positives", "value_distinct", "n_distinct", "p", "p_holm", "p_holm_all", "best"),
    *("not_significantly_worse", "note", "status"),
)
"""Columns of main_table.csv. Values are fractions; `leads` as typed; `status` is ok, skipped or
failed.
"""
CELL_COLUMNS = (
    *("task", "model", "leads", "setting", "seed", "fit_seed", "fold", "policy", "weights"),
    *("status", "reason", "metric", "value", "low", "high", "value_distinct", "n_records"),
    *("windows", "seconds", "blind", "excluded", "environment", "lost", "commit", "uncommitted"),
    *("key", "path"),
)
_OF_CELL = ("task", "model", "setting", "fit_seed", "fold", "policy", "weights", "metric")
_OF_LABEL = ("label", *COLUMNS)
LABEL_COLUMNS = (*_OF_CELL, *_OF_LABEL, "same_as")
COMPARISON_COLUMNS = (
    *("task", "leads", "metric", "model", "policy", "weights", "best_model", "best_policy"),
    *("best_weights", "difference", "low", "high", "se", "df", "share", "share_label", "p"),
    *("p_holm", "p_holm_all", "not_significantly_worse", "note", "n_records", "n_patients"),
)


def main(rows: Sequence[Row]) -> pd.DataFrame:
    """MAIN_COLUMNS."""
    return pd.DataFrame([_main(r) for r in rows], columns=list(MAIN_COLUMNS))


def _main(row: Row) -> dict[str, Any]:
    """What there is of the columns, and more; what is not there becomes NaN."""
    known = vars(row.sure) | _compared(row) | {"value": row.score, "std": row.std}
    if row.status == "ok":
        folds = [c.columns for c in row.folds]
        valued = np.any([np.isfinite(one["value"][1:]) for one in folds], axis=0)
        positives = np.sum([one["positives"][1:] for one in folds], axis=0)[valued]
        known |= {
            "n_records": row.records,
            "n_patients": sum(c.n_patients for c in row.folds),
            "n_labels": len(valued),
            "n_undefined": int((~valued).sum()),
            "fewest_positives": float(positives.min()) if len(positives) else np.nan,
            "value_distinct": row.distinct,
            "n_distinct": row.cells[0].n_distinct,
        }
    return known


def _compared(row: Row) -> dict[str, Any]:
    """The fields of a row, its note (what must be said of its fits, what its number rests on, and
    last why it is not tested), and whether it is as good as the best: None where not tested.
    """
    tested = row.difference is not None and np.isfinite(row.p)
    return vars(row) | {
        "note": "; ".join([*row.marks, *row.notes]),
        "not_significantly_worse": row.difference.not_significant if tested else None,  # type: ignore[union-attr]
    }


def cells(reader: Reader) -> tuple[pd.DataFrame, pd.DataFrame]:
    """CELL_COLUMNS, one row per cell and metric; and LABEL_COLUMNS, one row per finished cell,
    metric and label.
    """
    wanted = [(metric, cell) for metric in reader.metrics for cell in reader.plan.cells]
    scored = [reader.scored(cell, metric) for metric, cell in wanted]
    rows = [_cell(reader, *one, scores) for one, scores in zip(wanted, scored)]
    table = pd.DataFrame(rows, columns=list(CELL_COLUMNS))
    found = [one for one in scored if one]
    own = table.loc[[one is not None for one in scored], list(_OF_CELL)]
    labels = own.loc[own.index.repeat([len(one.same_as) for one in found])].reset_index(drop=True)
    for name in _OF_LABEL:
        labels[name] = [value for one in found for value in one.columns[name][1:].tolist()]
    labels["same_as"] = [same for one in found for same in one.same_as]
    return table, labels


def _cell(reader: Reader, metric: str, cell: Cell, scored: Scored | None) -> dict[str, Any]:
    """What there is of the columns, and more; what is not there becomes NaN. `weights` as loaded,
    or as wanted where none were.
    """
    known: dict[str, Any] = {"key": "", "path": "", "weights_name": cell.fit.weights}
    if scored:
        result = reader.results[cell.identity]
        known |= result.document | {
            "path": result.folder.relative_to(result.run).as_posix(),
            "environment": " + ".join(result.document.get("environments", [])),
            "commit": result.document["code"].get("commit"),
            "uncommitted": result.uncommitted,
            "lost": scored.lost,
            "value_distinct": scored.distinct,
            **{name: scored.columns[name][0] for name in ("value", "low", "high")},
        }
    status, reason = reader.state(cell)
    return known | {
        "task": cell.task,
        "model": cell.fit.model,
        "leads": cell.setting.typed,
        "setting": str(cell.setting),
        "seed": getattr(cell.setting, "seed", None),
        "fit_seed": cell.fit.seed,
        "fold": cell.fit.fold,
        "policy": cell.policy,
        "weights": str(known["weights_name"]),
        "metric": metric,
        "status": status,
        "reason": reason,
    }


def comparisons(rows: Sequence[Row]) -> pd.DataFrame:
    """COMPARISON_COLUMNS, one row per comparison with the best trained row of a setting."""
    made = [
        vars(row.difference)
        | _compared(row)
        | {f"best_{name}": getattr(row.rival, name) for name in ("model", "policy", "weights")}
        | {"difference": row.difference.difference}
        | dict(zip(("n_records", "n_patients"), row.shared))
        for mine in grouped(rows, lambda row: row.setting).values()
        for row in mine
        if row.difference
    ]
    return pd.DataFrame(made, columns=list(COMPARISON_COLUMNS))
