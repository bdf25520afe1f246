"""One cell: from features and a head to predictions, scores and files."""

import time
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from ecgbench import provenance
from ecgbench.benchmark.fit import Head
from ecgbench.benchmark.subject import Subject, owners
from ecgbench.cards import Task
from ecgbench.cells import Cell, Scoring
from ecgbench.files import as_json, as_npy, as_parquet
from ecgbench.inference import rows
from ecgbench.inference.predict import averaged, probabilities
from ecgbench.results import store as stored
from ecgbench.results.score import Predictions, Scores, draws_of_patients, score


def compute(subject: Subject, cell: Cell, tasks: tuple[Task, Task], head: Head, scoring: Scoring, folder: Path) -> float:
    """Predict, score and store a cell whose features are there; `tasks`: the cell's and its fit's. Returns the macro AUROC."""
    started = time.time()
    wanted = subject.rows(cell, scoring)
    features, owner = subject.cache(cell.policy).take(wanted), owners(subject.records["test"])
    predictions, kept = predict(subject, wanted, probabilities(features, owner, *head), tasks, scoring)
    scores = _scores(subject, predictions, scoring)
    note = {
        "task": cell.task, "fit": cell.fit.__dict__, "setting": str(cell.setting), "policy": cell.policy,
        "dataset": subject.selection.prepared.name, "weights": subject.network.weights, "facts": subject.facts(cell.policy),
        "records_digest": subject.selection.digest, "n_records": len(predictions.records), "n_patients": len(set(predictions.patients)),
        "excluded": subject.excluded, "blind": subject.blind(cell, scoring), "lost": scores.lost, "windows": subject.windows,
        "seconds": round(time.time() - started, 3), "code": provenance.code(),
    }  # fmt: skip
    learned = subject.policy(cell.policy).state
    stored.finish(folder, {
        **({"policy.safetensors": save(dict(learned))} if learned else {}),
        "predictions.parquet": as_parquet(predictions.table()), "features.npy": as_npy(averaged(features, owner).astype(np.float32)[kept]),
        "scores.parquet": as_parquet(scores.table), "replicates.npy": as_npy(scores.replicates), "cell.json": as_json(note),
    })  # fmt: skip
    return float(scores.table["auroc"].iloc[0])


def predict(
    subject: Subject, wanted: np.ndarray, probability: np.ndarray, tasks: tuple[Task, Task], scoring: Scoring
) -> tuple[Predictions, np.ndarray]:
    """Predictions of a task from (record, label) probabilities of its fit, and which records were kept.

    The records are named by the rows that were computed, and held against those of the test split.
    """
    task, fit_task = tasks
    positions, leads = rows.described(wanted)
    table = subject.selection.prepared.index.loc[positions]
    target = table[task.columns].to_numpy(np.int8)
    labelled_only = task.parent is not None and scoring.rows == "labelled"
    kept: np.ndarray = np.asarray(target.any(axis=1)) if labelled_only else np.ones(len(target), bool)
    chosen = table.iloc[np.flatnonzero(kept)]
    test = subject.selection.of("test").loc[[p for p, _, _ in subject.records["test"]]]
    if labelled_only:
        test = test[test[task.columns].any(axis=1)]
    predictions = Predictions(
        records=list(chosen["record"]), patients=list(chosen["patient"]), labels=task.labels,
        leads=[words for words, k in zip(leads, kept, strict=True) if k], target=target[kept],
        probability=probability[kept][:, [fit_task.columns.index(c) for c in task.columns]], expected=frozenset(test["record"]),
    )  # fmt: skip
    return predictions, kept


def _scores(subject: Subject, predictions: Predictions, scoring: Scoring) -> Scores:
    everyone = subject.selection.of("test")
    at = {r: i for i, r in enumerate(everyone["record"])}
    weights = draws_of_patients(subject.selection.prepared.name, list(everyone["patient"]), scoring.draws, scoring.bootstrap)
    return score(predictions.labels, predictions.target, predictions.probability, weights[:, [at[r] for r in predictions.records]])
