"""One cell: from features and a head to predictions, scores and files."""

import hashlib
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors.numpy import save

from ecgbench import metrics, provenance
from ecgbench.benchmark.evaluation import Evaluation, owners
from ecgbench.benchmark.fit import Head
from ecgbench.cards import Task
from ecgbench.cells import Cell, Scoring, key
from ecgbench.files import as_json, as_parquet, put
from ecgbench.inference import rows
from ecgbench.inference.predict import averaged, probabilities
from ecgbench.results.folders import publish
from ecgbench.results.pooled import store_pooled
from ecgbench.results.score import Predictions, score_table, with_wins
from ecgbench.results.store import FORMAT, Store
from ecgbench.room import folder_name


@dataclass(frozen=True, kw_only=True, eq=False)
class CellRequest:
    """A cell to be computed."""

    cell: Cell
    tasks: tuple[Task, Task]
    """The cell's and its fit's."""
    scoring: Scoring
    key_facts: dict[str, Any]
    references: dict[str, str]
    """`fit`: its folder inside the run; `model`, `dataset`: which facts."""
    keep_features: bool = True


def compute(evaluation: Evaluation, request: CellRequest, head: Head, store: Store) -> float:
    """Predict, score and store a cell whose features are there. Returns the macro value of the
    first metric.
    """
    started, cell, scoring = time.time(), request.cell, request.scoring
    needed, records = evaluation.rows(cell, scoring), evaluation.records["test"]
    features, owner = evaluation.cache(cell.policy).take(needed), owners(records)
    predictions = predict(
        evaluation, needed, probabilities(features, owner, *head), request.tasks, scoring
    )
    # an earlier run may have named a plug-in
    known = [m for m in scoring.metrics if m in metrics.names()]
    table = with_wins(known, predictions.table())
    scores = score_table(known, table)
    averages = averaged(features, owner).astype(np.float32)
    folder, names = (
        evaluation.features_folder / folder_name(str(cell.setting)),
        [r for _, r, _ in records],
    )
    pooled = store_pooled(store.path, folder, names, averages) if request.keep_features else None
    cell_key = key(request.key_facts)
    note = {
        "format": FORMAT,
        "identity": cell.identity,
        "key": cell_key,
        "key_facts": request.key_facts,
        **request.references,
        "features": pooled,
        "policy_state": _learned(evaluation, cell.policy, store),
        "task": cell.task,
        "setting": str(cell.setting),
        "policy": cell.policy,
        "weights_name": evaluation.network.weights,
        "weights_sha256": evaluation.network.sha256,
        "device": evaluation.network.device,
        "dataset_name": evaluation.selection.prepared.name,
        "n_records": len(predictions.records),
        "n_patients": len(set(predictions.patients)),
        "excluded": evaluation.excluded,
        "blind": evaluation.blind(cell, scoring),
        "windows": evaluation.windows,
        "seconds": round(time.time() - started, 3),
        "finished": round(time.time(), 3),
        "code": provenance.code(),
    }
    publish(
        store.cell_folder(cell, cell_key),
        {
            "predictions.parquet": as_parquet(table),
            "scores.parquet": as_parquet(scores),
            "cell.json": as_json(note),
        },
    )
    store.reason_file(cell).unlink(missing_ok=True)
    return float(scores["value"].iloc[0])


def _learned(evaluation: Evaluation, policy: str, store: Store) -> str | None:
    """The file with what a policy learned, stored once; None where it learns nothing."""
    state = evaluation.policy(policy).state
    if not state:
        return None
    content = save(dict(state))
    name = f"policies/{hashlib.sha256(content).hexdigest()}.safetensors"
    if not (store.path / name).exists():
        put(store.path / name, content)
    return name


def predict(
    evaluation: Evaluation,
    wanted: np.ndarray,
    probability: np.ndarray,
    tasks: tuple[Task, Task],
    scoring: Scoring,
) -> Predictions:
    """Predictions of a task from (record, label) probabilities of its fit.

    The records come from the rows that were computed; they are compared with those of the test
    split.
    """
    task, fit_task = tasks
    positions, leads = rows.described(wanted)
    table = evaluation.table.loc[positions]
    target = table[task.columns].to_numpy(np.int8)
    labelled_only = task.parent is not None and scoring.rows == "labelled"
    scored: np.ndarray = (
        np.asarray(target.any(axis=1)) if labelled_only else np.ones(len(target), bool)
    )
    chosen = table.iloc[np.flatnonzero(scored)]
    test = evaluation.table.loc[[p for p, _, _ in evaluation.records["test"]]]
    if labelled_only:
        test = test[test[task.columns].any(axis=1)]
    return Predictions(
        records=list(chosen["record"]),
        patients=list(chosen["patient"]),
        labels=task.labels,
        leads=[measured for measured, keep in zip(leads, scored, strict=True) if keep],
        target=target[scored],
        probability=probability[scored][:, [fit_task.columns.index(c) for c in task.columns]],
        expected=frozenset(test["record"]),
    )
