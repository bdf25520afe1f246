"""Scores of the paper by task, leads and model, and what is computed from them."""

from collections.abc import Mapping
from statistics import fmean

from ecgbench.published._claim import HALF
from ecgbench.published.tables import AVERAGE, MODELS, Printed
from ecgbench.stats.places import ranks

OURS = "laef"
LABELS = {"ptbxl_all": 71, "ptbxl_diag": 44, "ptbxl_form": 19, "ptbxl_rhythm": 12}
SHARED = 4
"""Codes that stand in two of Diag, Form and Rhythm."""


class Scores:
    """Scores by task, leads and model."""

    def __init__(self, rows: tuple[Printed, ...]) -> None:
        self.rows = {(row.task, row.leads, row.model): row for row in rows}
        self.tasks = [t for t in dict.fromkeys(row.task for row in rows) if t != AVERAGE]

    def value(self, task: str, leads: str, model: str = OURS) -> float:
        """A fraction."""
        return self.rows[task, leads, model].value

    def best_other(self, task: str, leads: str) -> float:
        """The highest of the models but LAEF."""
        return max(self.value(task, leads, name) for name in MODELS if name != OURS)

    def gains(self, leads: str) -> dict[str, float]:
        """Task -> LAEF less the best other model; rounded to the printed place, so that a tie is
        0.
        """
        return {
            task: round(self.value(task, leads) - self.best_other(task, leads), 3)
            for task in self.tasks
        }

    def mean(self, leads: str, model: str = OURS) -> float:
        """Over all tasks."""
        return fmean(self.value(task, leads, model) for task in self.tasks)


def recoloured(scores: Mapping[tuple[str, str, str], Printed]) -> list[tuple[str, str, str]]:
    """Task, leads and model of the cells whose colour is not the rank that the printed decimals
    give.
    """
    rows: dict[tuple[str, str], list[str]] = {}
    for task, leads, model in scores:
        rows.setdefault((task, leads), []).append(model)
    return [
        (task, leads, model)
        for (task, leads), row in rows.items()
        for model, rank in zip(row, ranks(scores[task, leads, model].value for model in row))
        if scores[task, leads, model].rank != rank
    ]


def implied(scores: Mapping[tuple[str, str, str], Printed], leads: str, model: str) -> float:
    """The mean AUROC of the four codes that stand in two of Diag, Form and Rhythm, if the printed
    means were of columns of the very same predictions: a fraction, which may lie above 1.
    """
    parts = {t: n * scores[t, leads, model].value for t, n in LABELS.items()}
    return (sum(parts.values()) - 2 * parts["ptbxl_all"]) / SHARED


def impossible(scores: Mapping[tuple[str, str, str], Printed]) -> dict[tuple[str, str], float]:
    """Model and leads -> `implied`, where that lies above 1 by more than rounding explains."""
    slack = HALF * sum(LABELS.values()) / SHARED
    found = {
        (model, leads): implied(scores, leads, model)
        for model in MODELS
        for leads in ("1", "2", "12")
    }
    return {cell: mean for cell, mean in found.items() if mean - slack > 1}
