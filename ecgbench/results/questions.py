"""What reports and verdicts ask of the predictions of a run: each row is read once for all."""

from collections.abc import Mapping
from typing import Any, TypeVar

from ecgbench.core.cells import grouped
from ecgbench.results import by_label
from ecgbench.results.by_label import Question, Repeats
from ecgbench.results.calibration import Calibration
from ecgbench.results.operating import NetBenefit, Operating
from ecgbench.results.study import Study, once

Q = TypeVar("Q", bound=Question)


def repeats_of(study: Study, row: Mapping[Any, Any]) -> Repeats:
    """The finished cells of a row of the main table; nothing where the row has no score."""
    names = (row["task"], row["model"], row["policy"], row["leads"])
    return by_label.repeats_of(study.finished.get(names, []))


@once
def _questions(study: Study) -> list[Question]:
    """All of them, computed on all cores."""
    every: list[Question] = [one(study.scorer) for one in (Calibration, Operating, NetBenefit)]
    main = study.main[(study.main["metric"] == study.metric) & (study.main["status"] == "ok")]
    rows = main[["task", "model", "policy", "leads"]].to_dict("records")
    by_task = grouped([row for row in rows if repeats_of(study, row)], lambda row: row["task"])
    by_label.compute(
        every, [[repeats_of(study, row) for row in own] for own in by_task.values()], study.stage
    )
    return every


def question(study: Study, kind: type[Q]) -> Q:
    """Of this kind, as it is asked of all rows of a study."""
    return next(one for one in _questions(study) if isinstance(one, kind))
