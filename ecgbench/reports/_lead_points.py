"""The points of the lead curve and where they stand, in the drawing beside the page and on it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ecgbench.core.cards import MetricCard
from ecgbench.core.text import enumerated
from ecgbench.reports._chart import Axis, Dot, Panel, Series, ticks
from ecgbench.reports._facts import (
    FULL,
    Head,
    Task,
    columns,
    leads_of,
    records,
    setting_words,
    tasks,
)
from ecgbench.reports._text import sure
from ecgbench.results.study import Study

_GAP = 0.045
"""Distance between neighbouring lines at one number of leads, in doublings of the number of
leads.
"""
CROWD = 4
"""Named sets of one number of leads beyond which they stand in a figure of their own."""
_ROOM = 0.12
"""Of the range of the scores, above and below them."""

UNDEFINED = "no label has both values among the test records"
"""Why a cell that was scored has no score."""

Point = dict[str, Any]
"""A row of the main table and more: `n_leads`, `named`, and `series`, the place of its column."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The scores of a run by one metric against the number of leads."""

    metric: MetricCard
    heads: Sequence[Head]
    blocks: Sequence[Task]
    points: Sequence[Point]
    """Those that have a score."""
    rows: Sequence[Point]
    """All of them."""
    undefined: frozenset[str] = frozenset()
    """Tasks of which cells were scored and none has a score."""
    named: Sequence[str] = ()
    """Of a figure of named sets: all of them, in the order asked."""

    def of(self, task: str) -> list[Point]:
        """The points of a task."""
        return [point for point in self.points if point["task"] == task]

    def nothing(self, task: str) -> str:
        """Why a task without points has none."""
        return UNDEFINED if task in self.undefined else "no number yet"

    def label(self, at: int) -> str:
        """A column as a legend names it."""
        return self.heads[at].label + (" (random weights)" if self.heads[at].untrained else "")


def lead_points(study: Study) -> list[Point]:
    """Of a study of one metric."""
    index = {head.names: at for at, head in enumerate(columns(study))}
    found = []
    for row in records(study.main[study.main["status"] == "ok"]):
        number, named = leads_of(row["leads"])
        series = index[row["model"], row["policy"]]
        found.append(row | {"n_leads": number, "named": named, "series": series})
    return found


def curve(study: Study, name: str) -> Curve:
    """Of a study, by one of its metrics; without named sets that would crowd it."""
    every = lead_points(study.of(name))
    crowd = _crowd(every)
    return _curve(study, name, [point for point in every if point["leads"] not in crowd])


def named_leads(study: Study, name: str) -> Curve | None:
    """The named sets that would crowd the curve; None where there is room for them."""
    every = lead_points(study.of(name))
    if not (crowd := _crowd(every)):
        return None
    named = dict.fromkeys(p["leads"] for p in every if p["named"] and p["leads"] != FULL)
    made = _curve(study, name, [point for point in every if point["leads"] in crowd])
    return replace(made, named=[leads for leads in named if leads in crowd])


def _crowd(points: Sequence[Point]) -> set[str]:
    """Named sets, where there are too many of some number of leads."""
    of: dict[int, set[str]] = {}
    for point in points:
        if point["named"]:
            of.setdefault(point["n_leads"], set()).add(point["leads"])
    return set().union(*of.values()) if any(len(sets) > CROWD for sets in of.values()) else set()


def _curve(study: Study, name: str, every: Sequence[Point]) -> Curve:
    points = [point for point in every if point["value"] is not None]
    return Curve(
        metric=study.metrics[name],
        heads=columns(study),
        blocks=tasks(study),
        points=points,
        rows=every,
        undefined=frozenset({p["task"] for p in every} - {p["task"] for p in points}),
    )


def spots(points: Sequence[Point]) -> dict[str, float]:
    """Where each named set stands: right of its number of leads, short of the next number, in the
    order asked.
    """
    counts = sorted({point["n_leads"] for point in points})
    named = {point["leads"]: point["n_leads"] for point in points if point["named"]}
    found: dict[str, float] = {}
    for number in counts:
        sets = [leads for leads, of in named.items() if of == number]
        following = next((count for count in counts if count > number), 2 * number)
        step = min(0.2, 0.8 * math.log2(following / number) / (len(sets) + 1))
        found |= {leads: number * 2 ** (step * (i + 1)) for i, leads in enumerate(sets)}
    return found


def placed(points: Sequence[Point]) -> Mapping[int, list[tuple[float, Point]]]:
    """The points of a panel by series, each with its number of leads, moved a little where others
    stand beside it; random leads in their order, then named sets.
    """
    where, drawn = spots(points), sorted({point["series"] for point in points})
    found: dict[int, list[tuple[float, Point]]] = {}
    for place, at in enumerate(drawn):
        shift = 2 ** ((place - (len(drawn) - 1) / 2) * min(_GAP, 0.12 / len(drawn)))
        mine = [point for point in points if point["series"] == at]
        random = sorted((p for p in mine if not p["named"]), key=lambda point: point["n_leads"])
        named = [p for p in mine if p["named"]]
        found[at] = [(p["n_leads"] * shift, p) for p in random]
        found[at] += [(where[p["leads"]] * shift, p) for p in named]
    return found


def side_by_side(of: Curve, task: str) -> Mapping[int, list[tuple[float, Point]]]:
    """The points of named sets by series, each at the place of its set, 0, 1, ..., moved a little
    where others stand beside it.
    """
    mine = of.of(task)
    drawn = sorted({point["series"] for point in mine})
    shift = {at: (place + 0.5) / len(drawn) - 0.5 for place, at in enumerate(drawn)}
    order = {leads: place for place, leads in enumerate(of.named)}
    found: dict[int, list[tuple[float, Point]]] = {at: [] for at in drawn}
    for point in sorted(mine, key=lambda point: order[point["leads"]]):
        at = point["series"]
        found[at].append((order[point["leads"]] + 0.7 * shift[at], point))
    return found


def panels(of: Curve) -> list[Panel]:
    """A panel of the page per task."""
    return [panel(of, block) for block in of.blocks]


def panel(of: Curve, block: Task) -> Panel:
    """The panel of one task; scores x 100."""
    mine = of.of(block.task)
    if of.named:
        return _panel(of, block, side_by_side(of, block.task), _leads(of.named), {})
    where = spots(mine)
    counts = sorted({p["n_leads"] for p in mine}) or [int(FULL)]
    margin = 2**0.25 if len(counts) > 1 else 2
    right = max([counts[-1] * margin, *(2**0.18 * x for x in where.values())])
    shown = [n for n in counts if len(counts) <= 6 or n in (1, 2, 3, 4, 6, 8, 12)]
    numbers = Axis(
        label="measured leads",
        low=counts[0] / margin,
        high=right,
        ticks=[(n, str(n)) for n in shown],
        scale="log",
    )
    return _panel(of, block, placed(mine), numbers, where)


def _leads(named: Sequence[str]) -> Axis:
    places = list(enumerate(named))
    return Axis(label="measured leads", low=-0.6, high=len(named) - 0.4, ticks=places)


def _panel(
    of: Curve,
    block: Task,
    by_series: Mapping[int, list[tuple[float, Point]]],
    x: Axis,
    where: Mapping[str, float],
) -> Panel:
    """`where`: sets whose name stands above them."""
    mine, chance = of.of(block.task), of.metric.chance
    series = [
        Series(at=at, label=of.label(at), dots=[_dot(of, at_x, point) for at_x, point in places])
        for at, places in by_series.items()
    ]
    return Panel(
        title=block.title,
        x=x,
        y=_scores(of, mine),
        series=series,
        said=_said(of, block.task, by_series),
        level=None if chance is None else (100 * chance, "chance"),
        names=[(x, _top(mine, leads), leads) for leads, x in where.items()],
        task=block.title,
    )


def _dot(of: Curve, x: float, point: Point) -> Dot:
    ends = point["low"], point["high"]
    low, high = (None if end is None else 100 * end for end in ends)
    said = f"{of.label(point['series'])}, {setting_words(point['leads'])}: {_score(point)}"
    return Dot(
        x=x,
        y=100 * point["value"],
        said=said,
        low=low,
        high=high,
        leads=point["leads"],
        apart=point["named"],
    )


def _score(point: Point) -> str:
    return sure(point["value"], point["low"], point["high"])


def _top(mine: Sequence[Point], leads: str) -> float:
    return 100 * max(max(p["high"] or 0, p["value"]) for p in mine if p["leads"] == leads)


def _scores(of: Curve, mine: Sequence[Point]) -> Axis:
    """The axis of the scores: what the metric can reach, and a little room around what is there."""
    values = [100 * v for p in mine for v in (p["low"], p["value"], p["high"]) if v is not None]
    lowest, highest = (100 * end for end in of.metric.range)
    low, high = min(values, default=lowest), max(values, default=highest)
    room = _ROOM * (high - low) or 1.0
    low, high = max(low - room, lowest), min(high + room, highest + 2)
    label = f"macro {of.metric.title} × 100"
    return Axis(label=label, low=low, high=high, ticks=ticks(low, high))


def _said(of: Curve, task: str, by_series: Mapping[int, list[tuple[float, Point]]]) -> str:
    """`Macro AUROC × 100. LAEF: 1 random lead 72.3 [70.3, 74.3], ...`, for who hears the page."""
    if not by_series:
        nothing = of.nothing(task)
        return f"{nothing[0].upper()}{nothing[1:]}."
    lines = []
    for at, places in by_series.items():
        each = [f"{setting_words(p['leads'])} {_score(p)}" for _, p in places]
        lines.append(f"{of.label(at)}: {enumerated(each)}.")
    return " ".join([f"Macro {of.metric.title} × 100.", *lines])
