"""Which labels a task has: those of its card, or counted on the complete release."""

from dataclasses import replace

import pandas as pd

from ecgbench.core.cards import Task


def counted(task: Task, published: pd.DataFrame) -> Task:
    """The task with the labels that at least `task.least` records of the complete release have, the
    most frequent first; as it is where its labels are fixed or `published`, the index of every
    record, is not of the complete release.
    """
    if task.least is None or not is_counted(task, published):
        return task
    before = f"{task.name}:"
    columns = [c for c in published.columns if c.startswith(before)]
    records = {c.removeprefix(before): int((published[c] == 1).sum()) for c in columns}
    kept = sorted((-n, label) for label, n in records.items() if n >= task.least)
    return replace(task, labels=tuple(label for _, label in kept))


def is_counted(task: Task, published: pd.DataFrame) -> bool | None:
    """Whether its labels were counted on the complete release; None where they are fixed."""
    return None if task.least is None else len(published) == task.complete
