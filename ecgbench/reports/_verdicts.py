"""Who is best in a task at a lead setting, and whether that could be chance: of trained columns, on
real recordings, and only where there is something to compare.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ecgbench.reports._facts import Compared, Head
from ecgbench.reports._grid import Block, Grid

LEVEL = 0.05
"""Of p after Holm: a verdict is one of many."""
CLEAR, CHANCE, UNTESTED, EQUAL = "clear", "could be chance", "not tested", "equal"

Standing = list[tuple[Head, float]]
"""Columns and scores of one task and setting, the best first."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Of one task and lead setting."""

    task: str
    leads: str
    best: Head
    score: float
    second: Head
    word: str
    """CLEAR, CHANCE or UNTESTED, of the best and the second; EQUAL."""
    difference: float
    """Best less second."""
    low: float | None
    high: float | None
    p_holm: float | None
    rivals: int
    """Trained columns it is compared with."""
    beaten: int
    """Of them, those that score lower by more than chance explains."""


def standing(grid: Grid, block: Block, leads: str) -> Standing:
    """The trained columns that have a score, the best first."""
    scores = [
        (head, score.value)
        for head, score in zip(grid.columns, block.lines.get(leads, ()))
        if score and score.value is not None and not head.untrained
    ]
    return sorted(scores, key=lambda pair: pair[1], reverse=grid.metric.direction == "higher")


def verdicts(grid: Grid, compared: Sequence[Compared]) -> list[Verdict]:
    """In the order of the table; none of synthetic tasks, and none where one column stands
    alone.
    """
    tests = {test.names: test for test in compared}
    return [
        verdict
        for block in grid.tasks
        if not block.synthetic
        for leads in block.lines
        for verdict in _verdict(standing(grid, block, leads), block.task, leads, tests)
    ]


def beyond(test: Compared | None) -> bool | None:
    """Whether a difference is larger than chance explains, p after Holm below 0.05; None where it
    was not tested. The asterisk of the main table follows the paper's rule instead, each interval
    by itself.
    """
    if test is None or test.worse is None or test.p_holm is None:
        return None if test is None else test.worse
    return test.p_holm < LEVEL


def _verdict(
    order: Standing, task: str, leads: str, tests: dict[tuple[str, ...], Compared]
) -> Iterator[Verdict]:
    if len(order) < 2:
        return
    (best, top), (second, following) = order[:2]
    found = [tests.get((task, leads, *best.names, *head.names)) for head, _ in order[1:]]
    test, clear = found[0], beyond(found[0])
    word = UNTESTED if clear is None else CLEAR if clear else CHANCE
    yield Verdict(
        task=task,
        leads=leads,
        best=best,
        score=top,
        second=second,
        word=EQUAL if top == following else word,
        difference=test.difference if test else top - following,
        low=test.low if test else None,
        high=test.high if test else None,
        p_holm=test.p_holm if test else None,
        rivals=len(order) - 1,
        beaten=sum(bool(beyond(each)) for each in found),
    )
