"""The keys of fits and cells: everything that can change the number, nothing that cannot."""

from dataclasses import asdict
from typing import Any

from ecgbench.benchmark.subject import Subject
from ecgbench.cards import Task
from ecgbench.cells import Cell, Fit, Scoring, Training, key


def fit_key(subject: Subject, fit: Fit, task: Task, training: Training) -> str:
    """Key of a fit: features at twelve leads, records, labels, training and its seed."""
    return key({
        "fit": task.name, "labels": list(task.labels), "records": subject.selection.digest, "training": training.facts(),
        "seed": fit.seed, **subject.facts(fit.policy or subject.contract.policy),
    })  # fmt: skip


def cell_key(subject: Subject, cell: Cell, task: Task, fitted: str, scoring: Scoring) -> str:
    """Key of a cell: its fit, setting, policy, draw, rows and bootstrap."""
    facts: dict[str, Any] = {"cell": task.name, "labels": list(task.labels), "fit": fitted, "setting": str(cell.setting)}
    return key({**facts, "scoring": asdict(scoring), **subject.facts(cell.policy)})
