"""What reports and verdicts ask of the predictions of a run: each row is read once for all."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ecgbench.core.keys import grouped
from ecgbench.results.by_label import (
    Columns,
    Labels,
    Question,
    Repeats,
    Shared,
    blocks,
    repeats_of,
)
from ecgbench.results.calibration import Calibration
from ecgbench.results.operating import NetBenefit, Operating
from ecgbench.results.precompute import each
from ecgbench.results.study import Run, once

Names = tuple[str, str, str, str]
"""Task, model, policy, leads as typed: of a row of the main table."""


class Answer(NamedTuple):
    """What a row answers to a question."""

    labels: Labels
    shared: Shared
    """Of all rows of its task."""
    numbers: Mapping[str, Columns]


def answers(study: Run, question: type[Question]) -> dict[Names, Answer]:
    """Of all rows of the main table with a score, by the metric that tables lead with."""
    return _answers(study)[question]


@once
def _answers(study: Run) -> dict[type[Question], dict[Names, Answer]]:
    """To all questions, computed on all cores."""
    every = [Calibration(), Operating(), NetBenefit()]
    main = study.main[(study.main["metric"] == study.metric) & (study.main["status"] == "ok")]
    columns = (main[name] for name in ("task", "model", "policy", "leads"))
    names = [own for own in zip(*columns) if own in study.finished]
    rows = [repeats_of(study.finished[own]) for own in names]
    pieces = [partial(_labels, every, row) for row in rows]
    called = "which labels have numbers", "rows"
    labels = dict(zip(names, each(study.scorer, study.stage, called, pieces)))
    shared = {
        task: [one.shared([labels[n][k] for n in own]) for k, one in enumerate(every)]
        for task, own in grouped(names, lambda own: own[0]).items()
    }
    asked = [partial(_numbers, every, r, labels[n], shared[n[0]]) for n, r in zip(names, rows)]
    called = ", ".join(one.name for one in every), "rows"
    numbers = dict(zip(names, each(study.scorer, study.stage, called, asked)))
    return {
        type(one): {n: Answer(labels[n][k], shared[n[0]][k], numbers[n][k]) for n in names}
        for k, one in enumerate(every)
    }


def _labels(questions: Sequence[Question], row: Repeats) -> list[Labels]:
    own = blocks(row)
    return [one.labels(own) for one in questions]


def _numbers(
    questions: Sequence[Question], row: Repeats, labels: Sequence[Labels], shared: Sequence[Shared]
) -> list[dict[str, Columns]]:
    own = blocks(row)
    return [one.numbers(own, *known) for one, *known in zip(questions, labels, shared)]
