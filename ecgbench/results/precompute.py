"""Computes what a report is about to say, on all cores.

What is quick is computed here. What takes longer than a moment is shared out among a process on
each core. What one of them could not do, or took with it when it ended, is computed here: an error
is then the same as if there were no others.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from itertools import islice
from threading import Timer
from typing import TypeVar

from ecgbench.cards.cell import Cell
from ecgbench.core.keys import grouped
from ecgbench.core.parallel import on_all_cores, one_thread
from ecgbench.results.compare import Row
from ecgbench.results.reader import Reader
from ecgbench.results.scorer import Known, Scorer
from ecgbench.study.recent import Recent

Stage = Callable[[str, int, str], AbstractContextManager[Callable[[int], None]]]
"""Shows a stretch of work: what it is, how many units it has, and what they are called."""
MOMENT = 2.0
"""Seconds of work before the rest is shared out."""
T = TypeVar("T")


def each(
    scorer: Scorer | None,
    stage: Stage | None,
    called: tuple[str, str],
    pieces: Sequence[Callable[[], T]],
) -> list[T]:
    """What each of these pieces of work returns; they are called in any order, and `scorer` knows
    the cells that they scored. `called`: what they are together, and what each is (in the plural).
    """
    began, made = time.monotonic(), list[T]()
    name, units = called
    with ExitStack() as shown:
        shown.callback(Recent.forget)
        shown.enter_context(one_thread())
        show = stage(name, len(pieces), units) if stage else nullcontext(lambda _: None)
        opened = list[Callable[[int], None]]()
        # the first piece alone may take minutes
        late = Timer(MOMENT, lambda: opened.append(shown.enter_context(show)))
        late.start()
        try:
            while len(made) < len(pieces) and time.monotonic() - began < MOMENT:
                made.append(pieces[len(made)]())
        finally:
            late.cancel()
            late.join()  # processes are made of one thread
        left = pieces[len(made) :]
        if left and not opened:
            late.function()
        for advance in opened:
            advance(len(made))
            found = on_all_cores([partial(_sent, scorer, piece) for piece in left], advance)
            for piece, sent in zip(left, found):
                value, scored = sent or _sent(scorer, piece)
                made.append(value)
                if scorer:
                    scorer.known.update(scored)
    return made


def _sent(scorer: Scorer | None, piece: Callable[[], T]) -> tuple[T, Known]:
    """What a piece returns, and what was scored for it."""
    before = len(scorer.known) if scorer else 0
    made = piece()
    return made, dict(islice(scorer.known.items(), before, None)) if scorer else {}


def rows(reader: Reader, stage: Stage | None) -> list[Row]:
    """All rows of the main table, in the order of the plan; see `Reader.rows`."""
    settings = grouped(reader.plan.cells, lambda cell: (cell.task, cell.setting.typed))
    pieces = [partial(_rows, reader, cells) for cells in settings.values()]
    found = each(reader.score, stage, ("scores", "lead settings of a task"), pieces)
    for _, damaged in found:
        reader.leave_out(damaged)
    names = [(c.task, c.fit.model, c.setting.typed, c.policy) for c in reader.plan.cells]
    made = {(r.metric, r.task, r.model, r.leads, r.policy): r for own, _ in found for r in own}
    return [made[metric, *own] for metric in reader.cards for own in dict.fromkeys(names)]


def _rows(reader: Reader, cells: Sequence[Cell]) -> tuple[list[Row], dict[str, str]]:
    """Some of them, and all cells that are damaged."""
    return reader.rows(cells), reader.damaged
