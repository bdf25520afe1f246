"""Computes what a report is about to read on all cores, and keeps it beside the scores of the run.

What is quick is computed by whoever asks. What takes longer than a moment is computed by a process
on each core; the report then reads what they kept, and computes itself what they did not.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from ecgbench.core.cells import grouped
from ecgbench.core.parallel import Piece, on_all_cores, one_thread
from ecgbench.results.reader import Reader
from ecgbench.results.scorer import Scorer
from ecgbench.study.recent import Recent

Stage = Callable[[str, int, str], AbstractContextManager[Callable[[int], None]]]
"""Shows a stretch of work: what it is, how many units it has, and what they are called."""
MOMENT = 2.0
"""Seconds of work before the rest is shared out."""


def each(
    scorer: Scorer | None, stage: Stage | None, called: tuple[str, str], pieces: Sequence[Piece]
) -> None:
    """Call these pieces of work, in any order, for what they keep. `called`: what they are
    together, and what each is (in the plural). Nothing where the run keeps nothing.
    """
    if scorer is None or not scorer.keep or not os.access(scorer.run, os.W_OK):
        return
    began, left = time.monotonic(), list(pieces)
    with one_thread(), scorer.cache.one_file():
        while left and time.monotonic() - began < MOMENT:
            left.pop(0)()
    if left:
        scorer.cache.write()
        name, units = called
        progress = stage(name, len(pieces), units) if stage else nullcontext(lambda _: None)
        with progress as advance:
            advance(len(pieces) - len(left))
            on_all_cores([partial(_keep, scorer, piece) for piece in left], advance)
        scorer.cache.refresh()
    Recent.forget()


def _keep(scorer: Scorer, piece: Piece) -> None:
    with scorer.cache.one_file():
        piece()
    scorer.cache.write()  # also where all that a report computes is one file


def rows(reader: Reader, stage: Stage | None) -> None:
    """Scores of all cells, and how sure they and their differences are."""
    settings = grouped(reader.plan.cells, lambda cell: (cell.task, cell.setting.typed))
    pieces = [partial(reader.rows, cells) for cells in settings.values()]
    each(reader.score, stage, ("scores", "lead settings of a task"), pieces)
