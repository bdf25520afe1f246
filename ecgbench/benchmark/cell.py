"""One cell: from features and a head to predictions, scores and files."""

import hashlib
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors.numpy import save

from ecgbench import provenance
from ecgbench.benchmark.evaluation import Evaluation, owners
from ecgbench.benchmark.fit import Head
from ecgbench.cards import Task
from ecgbench.cells import Cell, Scoring, key
from ecgbench.files import as_json, as_parquet, put
from ecgbench.inference import rows
from ecgbench.inference.predict import averaged, probabilities
from ecgbench.results.folders import publish
from ecgbench.results.pooled import store_pooled
from ecgbench.results.score import Predictions, Scores, draws_of_patients, score
from ecgbench.results.store import FORMAT, Store
from ecgbench.room import folder_name


@dataclass(frozen=True, kw_only=True, eq=False)
class Wanted:
    """A cell to be computed."""

    cell: Cell
    tasks: tuple[Task, Task]
    """The cell's and its fit's."""
    scoring: Scoring
    key_facts: dict[str, Any]
    references: dict[str, str]
    """`fit`: its folder inside the run; `model`, `dataset`: which facts."""


def compute(evaluation: Evaluation, wanted: Wanted, head: Head, store: Store) -> float:
    """Predict, score and store a cell whose features are there. Returns the macro AUROC."""
    started, cell, scoring = time.time(), wanted.cell, wanted.scoring
    needed, records = evaluation.rows(cell, scoring), evaluation.records["test"]
    features, owner = evaluation.cache(cell.policy).take(needed), owners(records)
    predictions = predict(evaluation, needed, probabilities(features, owner, *head), wanted.tasks, scoring)
    scores = _scores(evaluation, predictions, scoring)
    pooled = store_pooled(
        store.path, evaluation.features_folder / folder_name(str(cell.setting)), [r for _, r, _ in records],
        averaged(features, owner).astype(np.float32),
    )  # fmt: skip
    cell_key = key(wanted.key_facts)
    note = {
        "format": FORMAT, "identity": cell.identity, "key": cell_key, "key_facts": wanted.key_facts,
        **wanted.references, "features": pooled, "policy_state": _learned(evaluation, cell.policy, store),
        "task": cell.task, "setting": str(cell.setting), "policy": cell.policy,
        "weights_name": evaluation.network.weights, "weights_sha256": evaluation.network.sha256,
        "device": evaluation.network.device, "dataset_name": evaluation.selection.prepared.name,
        "n_records": len(predictions.records), "n_patients": len(set(predictions.patients)),
        "excluded": evaluation.excluded, "blind": evaluation.blind(cell, scoring), "lost": scores.lost,
        "windows": evaluation.windows, "seconds": round(time.time() - started, 3),
        "finished": round(time.time(), 3), "code": provenance.code(),
    }  # fmt: skip
    publish(store.cell_folder(cell, cell_key), {
        "predictions.parquet": as_parquet(predictions.table()), "scores.parquet": as_parquet(scores.table),
        "cell.json": as_json(note),
    })  # fmt: skip
    store.reason_file(cell).unlink(missing_ok=True)
    return float(scores.table["auroc"].iloc[0])


def _learned(evaluation: Evaluation, policy: str, store: Store) -> str | None:
    """Where lies what a policy learned, None where it learns nothing; stored once."""
    state = evaluation.policy(policy).state
    if not state:
        return None
    content = save(dict(state))
    name = f"policies/{hashlib.sha256(content).hexdigest()}.safetensors"
    if not (store.path / name).exists():
        put(store.path / name, content)
    return name


def predict(evaluation: Evaluation, wanted: np.ndarray, probability: np.ndarray, tasks: tuple[Task, Task], scoring: Scoring) -> Predictions:
    """Predictions of a task from (record, label) probabilities of its fit.

    The records are named by the rows that were computed, and held against those of the test split.
    """
    task, fit_task = tasks
    positions, leads = rows.described(wanted)
    table = evaluation.table.loc[positions]
    target = table[task.columns].to_numpy(np.int8)
    labelled_only = task.parent is not None and scoring.rows == "labelled"
    kept: np.ndarray = np.asarray(target.any(axis=1)) if labelled_only else np.ones(len(target), bool)
    chosen = table.iloc[np.flatnonzero(kept)]
    test = evaluation.table.loc[[p for p, _, _ in evaluation.records["test"]]]
    if labelled_only:
        test = test[test[task.columns].any(axis=1)]
    return Predictions(
        records=list(chosen["record"]), patients=list(chosen["patient"]), labels=task.labels,
        leads=[words for words, k in zip(leads, kept, strict=True) if k], target=target[kept],
        probability=probability[kept][:, [fit_task.columns.index(c) for c in task.columns]], expected=frozenset(test["record"]),
    )  # fmt: skip


def _scores(evaluation: Evaluation, predictions: Predictions, scoring: Scoring) -> Scores:
    everyone = evaluation.selection.of("test")
    at = {r: i for i, r in enumerate(everyone["record"])}
    weights = draws_of_patients(evaluation.selection.prepared.name, list(everyone["patient"]), scoring.draws, scoring.bootstrap)
    return score(predictions.labels, predictions.target, predictions.probability, weights[:, [at[r] for r in predictions.records]])
