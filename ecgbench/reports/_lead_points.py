"""The points of the lead curve, where they stand, and how they are drawn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ecgbench.core.cards import MetricCard
from ecgbench.core.text import shortened
from ecgbench.reports._facts import (
    FULL,
    Head,
    Task,
    columns,
    leads_of,
    records,
    tasks,
)
from ecgbench.reports._figure import LONGEST, handle, lead_axis, look
from ecgbench.reports._section import Figure
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

_GAP = 0.045
"""Distance between neighbouring lines at one number of leads, in doublings of the number of
leads.
"""
CROWD = 4
"""Named sets of one number of leads beyond which they stand in a figure of their own."""
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
        head = self.heads[at]
        return shortened(head.label, LONGEST) + (" (random weights)" if head.untrained else "")


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


def alone(study: Study, block: Task) -> Figure:
    """The curve of one task, of the first metric."""
    one = replace(curve(study, study.metric), blocks=[block])
    several = len(tasks(study)) > 1
    return Figure(
        name="opening_curve" if several else "lead_curve",
        draw=partial(draw, one),
        size=(5.6, 3.8) if several else shape(one)[2],
        caption="Bars: 95 % intervals over patients." if several else "",
    )


def shape(curve: Curve) -> tuple[int, int, tuple[float, float]]:
    """Panels across and down, and the size in inches."""
    count = len(curve.blocks)
    across = 2 if count in (2, 4) else min(count, 3) or 1
    down = max(1, math.ceil(count / across))
    return across, down, (7.4, 4.6) if across == 1 else (9.6, 2.9 * down + 1.1)


def draw(curve: Curve, sheet: "Sheet") -> list[Any]:
    across, down, _ = shape(curve)
    axes = sheet.subplots(down, across, squeeze=False).ravel().tolist()
    for ax, block in zip(axes, curve.blocks):
        _panel(ax, curve, block)
    for ax in axes[len(curve.blocks) :]:
        ax.set_visible(False)
    sheet.supylabel(f"Macro {curve.metric.title} × 100", fontsize=9)
    drawn = {point["series"] for point in curve.points}
    return [handle(curve.label(at), at) for at in range(len(curve.heads)) if at in drawn]


def _panel(ax: "Axes", curve: Curve, block: Task) -> None:
    points = curve.of(block.task)
    where = {} if curve.named else spots(points)
    by_series = side_by_side(curve, block.task) if curve.named else placed(points)
    for at, places in by_series.items():
        _line(ax, [(x, p) for x, p in places if not p["named"]], at)
        _line(ax, [(x, p) for x, p in places if p["named"]], at, hollow=True)
    upright = len(where) > 4 or len(curve.blocks) > 1
    for leads, x in where.items():
        tops = [max(p["high"] or 0, p["value"]) for p in points if p["leads"] == leads]
        _name(ax, leads, (x, 100 * max(tops)), upright)
    if curve.named:
        ax.set_xticks(range(len(curve.named)), curve.named)
        ax.set_xlabel("measured leads")
    else:
        counts = sorted({point["n_leads"] for point in points})
        lead_axis(ax, counts, max([*counts, *where.values()], default=12))
    _scale(ax, curve.metric)
    ax.set_title(shortened(block.title, LONGEST))
    if not points:
        ax.set(xticks=[], yticks=[])
        ax.text(
            0.5,
            0.5,
            curve.nothing(block.task),
            transform=ax.transAxes,
            ha="center",
            color="#777777",
        )


def _name(ax: "Axes", leads: str, where: tuple[float, float], upright: bool) -> None:
    from matplotlib.patheffects import withStroke

    ax.annotate(
        leads,
        where,
        (0, 3),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=7,
        zorder=4,
        rotation=90 if upright and "+" in leads else 0,
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
    )


def _line(ax: "Axes", points: Sequence[tuple[float, Point]], at: int, hollow: bool = False) -> None:
    style = look(at)
    for x, point in points:
        # Each bar is drawn from its own ends, not as lengths around the estimate: an estimate may
        # lie outside its interval.
        if None not in (point["low"], point["high"]):
            bar = {"color": style["color"], "linewidth": 1.3, "alpha": 0.75, "gid": f"column-{at}"}
            ends = [100 * point["low"], 100 * point["high"]]
            ax.plot([x, x], ends, solid_capstyle="butt", **bar)
    style |= {"linewidth": 1.6, "markersize": 6, "zorder": 3, "gid": f"column-{at}"}
    if hollow:
        style |= {"linestyle": "none", "markerfacecolor": "white", "markersize": 5}
    ax.plot([x for x, _ in points], [100 * point["value"] for _, point in points], **style)


def _scale(ax: "Axes", metric: MetricCard) -> None:
    """What the metric can reach, and the line of chance."""
    ax.margins(y=0.12)
    low, high = ax.get_ylim()
    lowest, highest = (100 * end for end in metric.range)
    ax.set_ylim(max(low, lowest), min(high, highest + 2))
    if metric.chance is not None and low < (level := 100 * metric.chance) < high:
        ax.axhline(level, color="#999999", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        ax.annotate(
            "chance",
            (1, level),
            (3, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=7,
            color="#777777",
        )
