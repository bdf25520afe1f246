"""Computes what a report is about to read on all cores, and keeps it beside the scores of the run.

What is quick is computed by whoever asks. What takes longer than a moment is computed by a process
on each core; the report then reads what they kept, and computes itself what they did not.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

from ecgbench.cells import Cell
from ecgbench.forks import Piece, on_all_cores, one_thread
from ecgbench.results.by_label import ByLabel, Question, Repeats, Shared
from ecgbench.results.calibration import Calibration
from ecgbench.results.compare import compare
from ecgbench.results.net_benefit import NetBenefit
from ecgbench.results.operating import Operating
from ecgbench.results.reader import Reader
from ecgbench.results.scorer import Scorer

Stage = Callable[[str, int, str], AbstractContextManager[Callable[[int], None]]]
"""Shows a stretch of work: what it is, how many units it has, and what they are called."""
QUESTIONS: Sequence[Callable[[], Question]] = (Calibration, NetBenefit, Operating)
MOMENT = 2.0
"""Seconds of work before the rest is shared out."""


def each(
    scorer: Scorer | None,
    stage: Stage | None,
    said: tuple[str, str],
    pieces: Sequence[Piece],
) -> None:
    """Call these pieces of work, in any order, for what they keep. `said`: what they are together,
    and what each is (in the plural). Nothing where the run keeps nothing.
    """
    if scorer is None or not scorer.keep or not os.access(scorer.run, os.W_OK):
        return
    began, left = time.monotonic(), list(pieces)
    with one_thread():
        while left and time.monotonic() - began < MOMENT:
            left.pop(0)()
    if left:
        shown = stage(said[0], len(pieces), said[1]) if stage else nullcontext(lambda _: None)
        with shown as advance:
            advance(len(pieces) - len(left))
            on_all_cores(left, advance)


def rows(reader: Reader, stage: Stage | None) -> None:
    """Scores of all cells, and how sure they and their differences are."""
    pieces = [partial(_compared, reader, cells) for cells in reader.settings.values()]
    each(reader.score, stage, ("scores", "lead settings of a task"), pieces)


def _compared(reader: Reader, cells: Sequence[Cell]) -> None:
    made = reader.rows(reader.outcomes(cells))
    for metric in reader.metrics:
        mine = [row for row in made if row.metric == metric]
        compare(mine, reader.rescored, reader.score.evidence)


def labels(asked: ByLabel, by_task: Sequence[Sequence[Repeats]], stage: Stage | None) -> None:
    """What the rows of each task answer to a question, label by label."""
    # of a row that is read, all questions know which labels they have
    every = [asked, *(replace(asked, question=one()) for one in QUESTIONS)]
    pieces: list[Piece] = [partial(_there, every, repeats) for mine in by_task for repeats in mine]
    each(asked.scorer, stage, ("which labels have numbers", "rows"), pieces)
    pieces = []
    for mine in by_task:
        shared: Shared = asked.question.shared([asked.there(repeats) for repeats in mine])
        pieces += [partial(asked.numbers, repeats, shared) for repeats in mine]
    each(asked.scorer, stage, (asked.question.name, "rows"), pieces)


def _there(every: Sequence[ByLabel], repeats: Repeats) -> None:
    for asked in every:
        asked.there(repeats)
