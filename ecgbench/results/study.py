"""Everything a report may say about a run, read from its store into tables and plain facts."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

MAIN_COLUMNS = (
    "task", "model", "leads", "policy", "weights", "macro_auroc", "std", "low", "high", "n_records", "n_patients", "n_labels",
    "n_undefined", "p", "p_holm", "best", "not_significantly_worse", "status",
)  # fmt: skip
"""Columns of main_table.csv. Scores are fractions; `leads` as typed; `status` is ok, skipped or failed."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A run, ready to be reported."""

    main: pd.DataFrame
    """MAIN_COLUMNS, one row per task x model x setting asked for x policy, in the order asked. `std` (over lead-drawing
    seeds, ddof 1) is NaN where there is one draw; `p`, `p_holm` compare with the best of the same task and setting (NaN in
    the best's own row); `best` and `not_significantly_worse` are bool; numbers are NaN where status is not ok."""
    cells: pd.DataFrame
    """One row per cell: task, model, leads, setting (`1@seed3`), seed, policy, weights, status, reason, macro_auroc, low,
    high, n_records, windows (per record), seconds, key, path (inside the run)."""
    labels: pd.DataFrame
    """One row per cell and label: task, model, setting, policy, label, auroc (NaN: undefined), low, high, n, positives."""
    tasks: list[dict[str, Any]]
    """name, title, dataset, evaluation_only, n_labels; in the order of the table."""
    models: list[dict[str, Any]]
    """name, title, summary, paper, licence, parameters, weights (random, released or a file name), weights_sha256, contract
    (facts of the InputContract), windows (evaluation windows averaged per record)."""
    datasets: list[dict[str, Any]]
    """name, title, version, licence, doi, synthetic, records (used), records_prepared, records_release, limit (None or N),
    test_records, test_patients, digest, quarantined (list of {record, reason}), flat (number of records with a flat lead)."""
    notes: list[str]
    """Sentences to print under the table: synthetic data, random weights, one fit, the meaning of (std), blind inputs, labels
    with fewer than 5 test positives, undefined labels, estimates outside their interval, limits."""
    provenance: dict[str, Any]
    """command, version, commit, dirty, python, packages (name -> version), platform, device, protocol, contract, draw,
    bootstrap, draws, seeds, fit_seeds, epochs, plan_hash, started, seconds."""
