"""Protocol `probe` of one model on one dataset: which windows it is fitted to, and what is stored
of it.
"""

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from ecgbench.core.cards import Task
from ecgbench.core.cells import Fit, Training
from ecgbench.core.files import lines
from ecgbench.ecg.draw import Fixed, given, training_leads
from ecgbench.ecg.leads import LeadSubset
from ecgbench.errors import BadSetting
from ecgbench.evaluate import probe, rows
from ecgbench.evaluate.evaluation import Evaluation, Record, owners, positions, windows_of
from ecgbench.evaluate.probe import PENALTIES, Examples, Windows
from ecgbench.stats.auroc import macro_auroc
from ecgbench.stats.known import two_valued


def features(evaluation: Evaluation, fit: Fit, training: Training) -> None:
    """The features that a fit needs, with progress."""
    policy = evaluation.trained(fit)
    shown, _ = _shown(evaluation, fit, training)
    evaluation.compute(policy, shown, "training windows", training.leads == "random")
    held_out = _complete(fit, _records(evaluation, fit))
    evaluation.compute(policy, held_out, "windows of held-out records")


def fitted(
    evaluation: Evaluation, fit: Fit, task: Task, training: Training, kept: Path
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Files of a fit, facts of its document, and a line for people; its features must be there.

    `kept`: a folder for the folds that are finished.
    """
    records = _records(evaluation, fit)
    cache, (shown, owner) = (
        evaluation.cache(evaluation.trained(fit)),
        _shown(evaluation, fit, training),
    )
    table = evaluation.table.loc[positions(records)]
    data = Examples(
        patients=[str(patient) for patient in table["patient"]],
        target=table[task.columns].to_numpy(np.int8),
        shown=Windows(features=cache.take(shown), owner=owner),
        complete=Windows(features=cache.take(_complete(fit, records)), owner=owners(records)),
    )
    total = probe.total(fit.seed, data)
    with evaluation.progress.stage(
        f"{evaluation.name}: probe {fit.task}, seed {fit.seed}", total, "penalties"
    ) as advance:
        found = probe.fit(fit.seed, data, advance, kept)
    heading = ("fold", "penalty", "log_loss", "steps", "gradient", "not_converged")
    files = {
        "head.safetensors": save({"weight": found.weight, "bias": found.bias}),
        "log.csv": lines([heading, *found.log]),
        "validation.parquet": evaluation.predicted(records, task, found.held_out),
    }
    score, penalty = macro_auroc(data.target, found.held_out), PENALTIES[found.chosen]
    note = {
        "fitted_to": "train + val",
        "records": len(records),
        "windows": len(owner),
        "penalty": penalty,
        "log_loss": dict(zip(map(str, PENALTIES), found.loss.tolist())),
        "validation": None if np.isnan(score) else score,
        "one_valued": [n for n, two in zip(task.labels, two_valued(data.target)) if not two],
        "gradient": found.last.gradient,
        "marks": found.marks,
    }
    return files, note, f"penalty {penalty:g}, held out {score:.4f}"


def _records(evaluation: Evaluation, fit: Fit) -> list[Record]:
    """Training and validation records, those that have the leads of a fit on some of them.

    BadSetting where there is none.
    """
    records = [*evaluation.records["train"], *evaluation.records["val"]]
    if not fit.shown:
        return records
    having = [r for r in records if given(Fixed(LeadSubset.parse(fit.shown)), r.available)]
    if not having:
        raise BadSetting(
            f"--train-leads same: no training record of {fit.task} has leads {fit.shown}; leave "
            f"these leads out, or choose --train-leads all"
        )
    return having


def _complete(fit: Fit, records: list[Record]) -> np.ndarray:
    """Rows of all windows, with all leads or those that the fit is for."""
    if not fit.shown:
        return rows.complete(records)
    return rows.measured(Fixed(LeadSubset.parse(fit.shown)), records, "record")


def _shown(evaluation: Evaluation, fit: Fit, training: Training) -> tuple[np.ndarray, np.ndarray]:
    """Rows of work that heads are fitted to, and which record each belongs to.

    All windows with all leads, or the leads that the fit is for; or LEAD_DRAWS sets of leads, each
    in the next window of the record, from the first one again behind the last. Where there are more
    windows than sets, the sets begin again.
    """
    records = _records(evaluation, fit)
    if training.leads != "random":
        return _complete(fit, records), owners(records)
    counts = [max(probe.LEAD_DRAWS, windows) for windows in windows_of(records)]

    def drawn(record: Record) -> np.ndarray:
        seen, own = evaluation.contract.leads, record.available
        each = (("train leads", fit.seed, i, record.name) for i in range(probe.LEAD_DRAWS))
        return np.array([training_leads(seen, *words, available=own) for words in each])

    shown = [
        rows.encode(r.position, np.arange(count) % r.windows, np.resize(drawn(r), count))
        for r, count in zip(records, counts)
    ]
    return np.concatenate(shown), np.repeat(np.arange(len(records)), counts)
