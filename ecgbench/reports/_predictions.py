"""predictions.csv: what each finished cell of a run predicts, a row per test record and label."""

from collections.abc import Callable
from io import TextIOWrapper
from typing import BinaryIO

from ecgbench.results.study import Run, long

NAME = "predictions.csv"
MOST = 5_000_000
"""Rows; a run with more has no such file, which would be larger than all its stored predictions."""
SUMMARY = "one row per cell, test record and label; target -1: not known"


def rows(study: Run) -> int:
    """How many the file has."""
    labels = {task.name: task.n_labels for task in study.tasks}
    return sum(r.document["n_records"] * labels[r.cell.task] for r in study.results)


def content(study: Run) -> Callable[[BinaryIO], None]:
    """What writes the file, one cell after the other in the order of the plan; floats read back
    equal.
    """

    def write(out: BinaryIO) -> None:
        text = TextIOWrapper(out, encoding="utf-8", newline="")
        for at, r in enumerate(study.results):
            table = long(r)
            table.insert(0, "policy", r.cell.policy)
            table.insert(0, "leads", str(r.cell.setting))
            table.insert(0, "model", r.cell.fit.model)
            table.insert(0, "task", r.cell.task)
            table.to_csv(text, index=False, header=not at, lineterminator="\n")
        text.flush()
        text.detach()

    return write
