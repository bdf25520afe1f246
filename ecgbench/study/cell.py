"""One cell: from features and a head to predictions, scores and files."""

import hashlib
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from ecgbench import datasets, metrics, models, policies
from ecgbench.cards.cell import FITS, FORMAT, SCORES, Cell, Scoring
from ecgbench.cards.dataset import Task
from ecgbench.core import provenance
from ecgbench.core.files import as_json, as_parquet
from ecgbench.core.folders import publish, read_json
from ecgbench.core.keys import key
from ecgbench.core.registry import folder_name
from ecgbench.evaluate import rows
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.evaluate.fits import Fitting
from ecgbench.evaluate.predict import averaged, defined, probabilities
from ecgbench.evaluate.rows import positions, records_of_windows
from ecgbench.study import controls
from ecgbench.study.jobs import Job
from ecgbench.study.scores import Predictions, score_table, with_wins
from ecgbench.study.store import Store, put_named
from ecgbench.study.stored import store_pooled


@dataclass(frozen=True, kw_only=True, eq=False)
class CellRequest:
    """A cell to be computed."""

    cell: Cell
    fitting: Fitting
    job: Job
    store: Store
    facts: dict[str, str]
    """`model` and `dataset` -> the facts in the store."""

    @cached_property
    def task(self) -> Task:
        """Task of the cell; its labels are among those of the fit."""
        task: Task = self.fitting.evaluation.selection.prepared.task(self.cell.task)
        return task

    @cached_property
    def key_facts(self) -> dict[str, Any]:
        """Everything that can change the number."""
        plan, fitting = self.job.plan, self.fitting
        evaluation, of = fitting.evaluation, (self.task, fitting.key)
        return cell_facts(evaluation, self.cell, *of, plan.scoring, plan.control)

    @cached_property
    def key(self) -> str:
        """The hash of these facts."""
        return key(self.key_facts)


def cell_facts(
    evaluation: Evaluation,
    cell: Cell,
    task: Task,
    fit_key: str,
    scoring: Scoring,
    control: str = "",
) -> dict[str, Any]:
    """Facts of a cell: its fit, setting, policy, labels and the records that are scored.

    Metrics, the draws of the bootstrap and the family of comparisons are not among them: they
    change no prediction.
    """
    return {
        "fits": FITS,
        "scores": SCORES,
        "cell": task.name,
        "labels": list(task.labels),
        "fit": fit_key,
        "records": evaluation.selection.labelled(task.columns),
        "setting": str(cell.setting),
        "scoring": scoring.of_predictions,
        **({"control": control, **controls.sources(control)} if control else {}),
        **evaluation.facts(cell.policy),
    }


def compute(evaluation: Evaluation, request: CellRequest) -> float:
    """Predict, score and store a cell from its features. Returns the macro value of the first
    metric.
    """
    head, started = request.fitting.head(), time.time()
    cell, store, network = request.cell, request.store, evaluation.network
    fit = read_json(request.fitting.folder, "fit.json").get("environments", [])
    others = {*fit, *evaluation.cache(cell.policy).environments} - {network.environment}
    scoring = request.job.plan.scoring
    needed, records = evaluation.rows(cell, scoring), evaluation.tested(cell.setting)
    features, record_of = evaluation.cache(cell.policy).take(needed), records_of_windows(records)
    predictions = predict(evaluation, request, needed, probabilities(features, record_of, **head))
    # an earlier run may have named a plug-in
    known = [m for m in scoring.metrics if m in metrics.names()]
    table = with_wins(known, predictions.table())
    scores = score_table(known, table, datasets.codes(evaluation.selection.prepared.name))
    pooled = None
    if request.job.settings.keep_features:
        averages = averaged(features, record_of).astype(np.float32)
        folder = evaluation.features_folder / folder_name(str(cell.setting))
        pooled = store_pooled(store.path, folder, [r.name for r in records], averages)
    note = {
        "format": FORMAT,
        "identity": cell.identity,
        "study": key(request.job.plan.shared()),
        "key": request.key,
        "key_facts": request.key_facts,
        "modules": models.ROOM.code_hash(network.name),
        "policy_modules": policies.ROOM.code_hash(cell.policy),
        "fit": request.fitting.folder.relative_to(store.path).as_posix(),
        **request.facts,
        "features": pooled,
        "policy_state": _learned(evaluation, cell.policy, store.path),
        "task": cell.task,
        "setting": str(cell.setting),
        "policy": cell.policy,
        "weights_name": network.weights,
        "weights_sha256": network.sha256,
        "device": network.device,
        "command": request.job.command,
        "environments": [network.environment, *sorted(others)],
        "dataset_name": evaluation.selection.prepared.name,
        "n_records": len(predictions.records),
        "n_patients": len(set(predictions.patients)),
        "excluded": evaluation.excluded,
        "lacking_leads": len(evaluation.records["test"]) - len(records),
        "blind": evaluation.blind(cell, scoring),
        "windows": evaluation.windows,
        "seconds": round(time.time() - started, 3),
        "finished": round(time.time(), 3),
        "code": provenance.code(),
        "features_code": evaluation.cache(cell.policy).code,
    }
    publish(
        store.cell_folder(cell),
        {
            "predictions.parquet": as_parquet(table),
            "scores.parquet": as_parquet(scores),
            "cell.json": as_json(note),
        },
    )
    store.reason_file(cell).unlink(missing_ok=True)
    return float(scores["value"].iloc[0])


def _learned(evaluation: Evaluation, policy: str, run: Path) -> str | None:
    """The file with what a policy learned, stored once; None where it learns nothing."""
    state = evaluation.policy(policy).state
    if not state:
        return None
    content = save(dict(state))
    name = f"policies/{hashlib.sha256(content).hexdigest()}.safetensors"
    put_named(run / name, content)
    return name


def predict(
    evaluation: Evaluation, request: CellRequest, wanted: np.ndarray, probability: np.ndarray
) -> Predictions:
    """Predictions of a task from (record, label) probabilities of its fit.

    The records must be those of the test split that have the leads of the setting.
    """
    task, (found, leads) = request.task, rows.described(wanted)
    table = evaluation.table.loc[found].assign(leads=leads)
    expected = evaluation.table.loc[positions(evaluation.tested(request.cell.setting))]
    if task.parent is not None and request.job.plan.scoring.rows == "labelled":
        labelled = table[task.columns].eq(1).any(axis=1).to_numpy()
        table, probability = table[labelled], probability[labelled]
        expected = expected[expected[task.columns].eq(1).any(axis=1)]
    ours = [request.fitting.task.columns.index(c) for c in task.columns]
    known, target = defined(probability[:, ours], table[task.columns].to_numpy(np.int8))
    return Predictions(
        records=list(table["record"]),
        patients=list(table["patient"]),
        labels=task.labels,
        leads=list(table["leads"]),
        target=target,
        probability=known,
        expected=frozenset(expected["record"]),
    )
