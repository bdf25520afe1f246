"""The scores of a run as a grid of tasks, lead settings and columns, ranked; and what is kept of
the skill above chance.

Ranks are taken on unrounded values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ecgbench.cards import MetricCard
from ecgbench.reports._facts import FULL, Head, Task, columns, gaps, main_rows, tasks
from ecgbench.reports._section import Score
from ecgbench.results.notes import PENDING
from ecgbench.results.study import Study

Names = tuple[str, str, str, str]
"""Task, model, leads, policy."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One lead setting of a task."""

    leads: str
    scores: Sequence[Score | None]
    """By column; None where nothing was asked for."""


@dataclass(frozen=True, kw_only=True)
class Block(Task):
    """A task and its scores."""

    lines: Sequence[Line]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All scores of a run by one metric."""

    metric: MetricCard
    columns: Sequence[Head]
    tasks: Sequence[Block]
    footnotes: Sequence[str]
    """Why scores are missing, and what must be said of fits; see Score.footnote."""


def reasons(study: Study) -> dict[Names, str]:
    """Why a row of the table has no number: the distinct reasons of its cells, failures first."""
    texts: dict[Names, list[str]] = {}
    for gap in sorted(gaps(study), key=lambda gap: ("failed", "skipped", PENDING).index(gap.word)):
        for leads in gap.leads:
            text = gap.reason if gap.word == PENDING else f"{gap.word}: {gap.reason}"
            texts.setdefault((gap.task, gap.model, leads, gap.policy), []).append(text)
    return {names: "; ".join(each) for names, each in texts.items()}


def grids(study: Study) -> dict[str, Grid]:
    """The grid of each metric."""
    return {name: grid(study, name) for name in study.metrics}


def grid(study: Study, metric: str = "") -> Grid:
    """All scores by one metric, the first of the study if left out, ranked."""
    study, card = study.of(metric or study.metric), study.metrics[metric or study.metric]
    heads, rows, why = columns(study), main_rows(study), reasons(study)
    footnotes: list[str] = []
    blocks = []
    for task in tasks(study):
        mine = [row for row in rows if row["task"] == task.task]
        lines = []
        for leads in dict.fromkeys(row["leads"] for row in mine):
            by_column = {
                (row["model"], row["policy"]): row for row in mine if row["leads"] == leads
            }
            in_order = [by_column.get(head.names) for head in heads]
            lines.append(Line(leads=leads, scores=_scores(in_order, why, footnotes, card)))
        blocks.append(Block(**vars(task), lines=lines))
    return Grid(metric=card, columns=heads, tasks=blocks, footnotes=footnotes)


def _scores(
    rows: list[dict[str, Any] | None],
    why: Mapping[Names, str],
    footnotes: list[str],
    metric: MetricCard,
) -> list[Score | None]:
    rank = ranks(
        (row["value"] if row and row["status"] == "ok" else None for row in rows), metric.direction
    )
    return [
        None if row is None else _score(row, place, why, footnotes)
        for row, place in zip(rows, rank)
    ]


def _score(
    row: dict[str, Any], rank: int | None, why: Mapping[Names, str], footnotes: list[str]
) -> Score:
    ok, footnote, text = row["status"] == "ok", None, row["note"]
    if not ok:
        text = why.get((row["task"], row["model"], row["leads"], row["policy"]), row["status"])
    if text:
        footnotes += [] if text in footnotes else [text]
        footnote = footnotes.index(text) + 1
    star = (
        ok
        and row["not_significantly_worse"]
        and rank is not None
        and not (row["best"] or rank == 1)
    )
    spread = {name: row[name] for name in ("std", "low", "high")}
    return Score(value=row["value"], rank=rank, star=star, footnote=footnote, **spread)


def ranks(values: Iterable[float | None], direction: str = "higher") -> list[int | None]:
    """1, 2, 3 for the three best distinct values, equal values alike.

    None for the rest, and for all if nothing is compared.

    >>> ranks([0.94, 0.95, None, 0.95, 0.90, 0.80])
    [2, 1, None, 1, 3, None]
    >>> ranks([0.9, None])
    [None, None]
    """
    values = list(values)
    there = [value for value in values if value is not None]
    top = sorted(set(there), reverse=direction == "higher")[:3] if len(there) > 1 else []
    return [top.index(value) + 1 if value in top else None for value in values]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What a column keeps of its skill above chance in one task."""

    task: str
    head: Head
    full: float
    """Its score at 12 leads."""
    shares: Mapping[str, float | None]
    """Lead setting as typed -> (score - chance) / (score at 12 leads - chance).

    None where the interval at 12 leads reaches chance: a share of nothing says nothing."""


def survival(table: Grid) -> list[Kept]:
    """What is kept of the skill above chance, per task, column and lead setting; nothing where
    chance is not known.
    """
    rows = []
    for block in table.tasks if table.metric.chance is not None else ():
        full = next((line for line in block.lines if line.leads == FULL), None)
        others = [line for line in block.lines if line.leads != FULL]
        for at, head in enumerate(table.columns):
            base = full.scores[at] if full else None
            if base is not None and base.value is not None and others:
                shares = {
                    line.leads: _share(line.scores[at], base, table.metric) for line in others
                }
                rows.append(Kept(task=block.task, head=head, full=base.value, shares=shares))
    return rows


def _share(score: Score | None, base: Score, metric: MetricCard) -> float | None:
    assert base.value is not None
    assert metric.chance is not None
    bound, sign = (base.low, 1) if metric.direction == "higher" else (base.high, -1)
    least = min(
        sign * (value - metric.chance) for value in (base.value, bound) if value is not None
    )
    if score is None or score.value is None or least <= 0:
        return None
    return float((score.value - metric.chance) / (base.value - metric.chance))
