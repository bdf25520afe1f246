"""The scores of a run as a grid of tasks, lead settings and columns, ranked.

Ranks are taken on unrounded values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ecgbench.core.cards import MetricCard
from ecgbench.reports._facts import Head, Task, columns, gaps, main_rows, once, tasks
from ecgbench.reports._section import Score
from ecgbench.reports._trace import line_of, names_of
from ecgbench.results.compare import UNTRAINED
from ecgbench.results.notes import PENDING
from ecgbench.results.origin import UNCOMMITTED
from ecgbench.results.study import Study
from ecgbench.stats.places import ranks

Names = tuple[str, str, str, str]
"""Task, model, leads, policy."""


@dataclass(frozen=True, kw_only=True)
class Block(Task):
    """A task and its scores."""

    lines: Mapping[str, Sequence[Score | None]]
    """Lead setting as typed -> scores by column; None where nothing was asked for."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All scores of a run by one metric."""

    metric: MetricCard
    columns: Sequence[Head]
    tasks: Sequence[Block]
    footnotes: Sequence[str]
    """Why scores are missing, and what must be said of others; see Score.footnote."""


@once
def reasons(study: Study) -> dict[Names, str]:
    """Why a row of the table has no number: the distinct reasons of its cells, failures first."""
    texts: dict[Names, list[str]] = {}
    order = ("failed", "damaged", "skipped", PENDING)
    for gap in sorted(gaps(study), key=lambda gap: order.index(gap.word)):
        for leads in gap.leads:
            text = gap.reason if gap.word == PENDING else f"{gap.word}: {gap.reason}"
            texts.setdefault((gap.task, gap.model, leads, gap.policy), []).append(text)
    return {names: "; ".join(each) for names, each in texts.items()}


@once
def grids(study: Study) -> dict[str, Grid]:
    """The grid of each metric."""
    lines = line_of(study)
    return {name: grid(study.of(name), lines) for name in study.metrics}


def grid(study: Study, lines: Mapping[tuple[str, ...], int] | None = None) -> Grid:
    """All scores of a study of one metric, ranked. lines: of main_table.csv; see
    `_trace.line_of`.
    """
    card, known = study.metrics[study.metric], lines or line_of(study)
    heads, rows, why = columns(study), main_rows(study), reasons(study)
    footnotes: list[str] = []
    blocks = []
    for task in tasks(study):
        mine = [row for row in rows if row["task"] == task.task]
        scores = {}
        for leads in dict.fromkeys(row["leads"] for row in mine):
            by_column = {(r["model"], r["policy"]): r for r in mine if r["leads"] == leads}
            in_order = [by_column.get(head.names) for head in heads]
            competing = [None if head.untrained else row for head, row in zip(heads, in_order)]
            rank = ranks((row["value"] if row else None for row in competing), card.direction)
            scores[leads] = [
                replace(_score(row, place, why, footnotes), line=known[names_of(row)])
                if row
                else None
                for row, place in zip(in_order, rank)
            ]
        blocks.append(Block(**vars(task), lines=scores))
    return Grid(metric=card, columns=heads, tasks=blocks, footnotes=footnotes)


def part(whole: Grid, kept: Sequence[int], settings: Callable[[str], bool]) -> Grid:
    """Some of its columns and lead settings, with the places they have among all; of its footnotes
    those that are used, numbered anew. Tasks without such a setting are left out.
    """
    used: list[int] = []

    def own(score: Score | None) -> Score | None:
        if score is None or score.footnote is None:
            return score
        if score.footnote not in used:
            used.append(score.footnote)
        return replace(score, footnote=used.index(score.footnote) + 1)

    tasks = [
        replace(
            block,
            lines={
                typed: [own(scores[at]) for at in kept]
                for typed, scores in block.lines.items()
                if settings(typed)
            },
        )
        for block in whole.tasks
    ]
    return replace(
        whole,
        columns=[whole.columns[at] for at in kept],
        tasks=[block for block in tasks if block.lines],
        footnotes=[whole.footnotes[number - 1] for number in used],
    )


def _score(
    row: dict[str, Any], rank: int | None, why: Mapping[Names, str], footnotes: list[str]
) -> Score:
    text = ""
    if row["status"] != "ok":
        text = why.get((row["task"], row["model"], row["leads"], row["policy"]), row["status"])
    else:  # the sign of the column says that it is untrained, and a banner what was not committed
        said = row["note"].split("; ")
        text = "; ".join(part for part in said if part not in (UNTRAINED, UNCOMMITTED))
    if text and text not in footnotes:
        footnotes.append(text)
    footnote = footnotes.index(text) + 1 if text else None
    star = bool(row["not_significantly_worse"]) and not row["best"]
    numbers = {name: row[name] for name in ("value", "std", "low", "high")}
    return Score(rank=rank, star=star, footnote=footnote, **numbers)
