"""Computes on all cores what a report is about to read, and keeps it beside the scores of the run.

Each core has a process of its own, which reads the run folder and computes its part of a step; what
it keeps is read by whoever asked. Where a process dies, or the folder cannot be written, the report
computes the rest by itself.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from ecgbench.processes import answer, end_group, start
from ecgbench.results.by_label import ByLabel, Question, Repeats, There, repeats_of
from ecgbench.results.calibration import Calibration
from ecgbench.results.compare import compare
from ecgbench.results.net_benefit import NetBenefit
from ecgbench.results.operating import Operating
from ecgbench.results.reader import Reader
from ecgbench.results.scorer import Scorer

Stage = Callable[[str, int, str], AbstractContextManager[Callable[[int], None]]]
"""Shows a stretch of work: what it is, how many units it has, and what they are called."""
LEAST = 100
"""Rows or cells that must lack, before processes of their own are worth their start."""
LONGEST = 24 * 3600
"""Seconds that a process may take."""
_PAUSE = 0.2
ROWS = "rows"
"""The step of scores, intervals and differences."""
_QUESTIONS: Mapping[str, Callable[[], Question]] = {
    question.name: question for question in (Calibration, NetBenefit, Operating)
}


def rows(reader: Reader, stage: Stage | None) -> None:
    """Scores of all cells, and how sure they and their differences are."""
    lacking = sum(
        not reader.score.keeps(result, metric)
        for result in reader.results.values()
        for metric in reader.metrics
    )
    _ahead(reader.score, ROWS, reader.metrics, lacking, ("scores", "cells"), stage)


def labels(asked: ByLabel, lines: Sequence[Repeats], stage: Stage | None) -> None:
    """What these rows of a run answer to a question, label by label."""
    if asked.scorer is None or asked.question.name not in _QUESTIONS:
        return
    # whether the numbers of a row are kept is known where its labels are
    lacking = sum(not asked.keeps("there", repeats, {}) for repeats in lines)
    for what in ("there", "numbers"):
        step = f"{what}:{asked.question.name}"
        name = asked.question.name
        said = (f"which labels have {name}" if what == "there" else name, "rows")
        _ahead(asked.scorer, step, (), lacking, said, stage)


def _ahead(
    scorer: Scorer,
    step: str,
    metrics: Sequence[str],
    lacking: int,
    said: tuple[str, str],
    stage: Stage | None,
) -> None:
    if lacking < LEAST:
        return
    cores = len(os.sched_getaffinity(0))
    words = [[str(scorer.run), step, str(at), str(cores), *metrics] for at in range(cores)]
    kept = scorer.derived
    before = seen = _count(kept)
    shown = stage(said[0], lacking, said[1]) if stage else nullcontext(lambda _: None)
    children = [start(__name__, own, LONGEST) for own in words]
    try:
        with shown as advance:
            while any(child.poll() is None for child in children):
                time.sleep(_PAUSE)
                now = min(_count(kept), before + lacking)
                advance(max(now - seen, 0))
                seen = max(now, seen)
    finally:
        for child in children:
            end_group(child)


def _count(folder: Path) -> int:
    return len(os.listdir(folder)) if folder.is_dir() else 0


def _part(words: Sequence[str]) -> dict[str, Any]:
    """In a process: this part of a step."""
    path, step, at, parts, *metrics = words
    reader = Reader.of(Path(path), metrics)
    own = slice(int(at), None, int(parts))
    if step == ROWS:
        for cells in list(reader.settings.values())[own]:
            rows_of = reader.rows(reader.outcomes(cells))
            for metric in reader.metrics:
                mine = [row for row in rows_of if row.metric == metric]
                compare(mine, reader.rescored, reader.score.evidence)
        return {}
    what, name = step.split(":", 1)
    asked = ByLabel(question=_QUESTIONS[name](), scorer=reader.score)
    lines = {row: repeats_of(results) for row, results in reader.whole_rows.items()}
    if what == "there":
        for repeats in list(lines.values())[own]:
            asked.there(repeats)
        return {}
    by_task: dict[str, list[There]] = {}
    for (task, *_), repeats in lines.items():
        by_task.setdefault(task, []).append(asked.there(repeats))
    shared = {task: asked.question.shared(there) for task, there in by_task.items()}
    for (task, *_), repeats in list(lines.items())[own]:
        asked.numbers(repeats, shared[task])
    return {}


if __name__ == "__main__":
    answer(_part)
