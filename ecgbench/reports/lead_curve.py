"""The lead curve: scores against the number of measured leads, one panel per task, one line per
model and policy.

Random leads (one subset per record) form the curve; named sets (I, II, I+II) are separate hollow
markers beside their number of leads and never part of it. Where there are many, as the twelve
single leads, they have a figure of their own, side by side. The x axis is logarithmic: most of what
is lost is lost between one lead and three. lead_curve.csv and named_leads.csv hold exactly the
numbers drawn, as fractions.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ecgbench.core.cards import MetricCard
from ecgbench.core.text import enumerated, shortened
from ecgbench.reports import LONGEST, Figure, Numbers, ReportCard, Section, handle, lead_axis, look
from ecgbench.reports._facts import Task, gaps, heads_of, titles_of
from ecgbench.reports._lead_points import (
    UNDEFINED,
    Curve,
    Point,
    curve,
    named_leads,
    panels,
    placed,
    side_by_side,
    spots,
)
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Lead curve",
    summary="scores against the number of measured leads, a panel per task",
    reads="run",
    order=30,
)
COLUMNS = (
    "task",
    "model",
    "policy",
    "weights",
    "leads",
    "n_leads",
    "named",
    "metric",
    "value",
    "low",
    "high",
)
"""Columns of lead_curve.csv; every row is also a row of main_table.csv. `named`: drawn as a hollow
marker off the curve.
"""
_SIDE_BY_SIDE = "The named leads in every record. Bars: 95 % intervals over patients."
_SHOWN = 6
"""Gaps that the caption names."""


def sections(study: Study) -> list[Section]:
    """One figure per metric."""
    figures = []
    for name in study.metrics:
        drawn, apart = curve(study, name), named_leads(study, name)
        figures.append(_figure(study, name, "lead_curve", drawn, _caption(study, drawn, apart)))
        if apart:
            figures.append(_figure(study, name, "named_leads", apart, _SIDE_BY_SIDE))
    title = (
        f"Macro {enumerated([card.title for card in study.metrics.values()])} against the "
        f"number of measured leads"
    )
    return [Section(name="lead_curve", title=title, short=CARD.title, parts=figures)]


def _figure(study: Study, metric: str, which: str, drawn: Curve, caption: str) -> Figure:
    return Figure(
        name=which if metric == study.metric else f"{which}_{metric}",
        draw=partial(_draw, drawn),
        caption=caption,
        size=_shape(drawn)[2],
        panels=panels(drawn),
        numbers=Numbers(columns=COLUMNS, rows=drawn.rows, summary="the points of the figure"),
    )


def _caption(study: Study, curve: Curve, apart: Curve | None) -> str:
    """What the curve shows, and what it leaves out."""
    study = study.of(study.metric)
    points, titles = curve.points, titles_of(study)
    named = any(point["named"] for point in points)
    drawn = any(not point["named"] and point["n_leads"] < 12 for point in points)
    filled = "Filled markers: leads" if named else "Leads"
    sentences = [f"{filled} drawn at random for each record."] if drawn else []
    sentences += ["Hollow markers: the named leads in every record."] if named else []
    sentences += ["Named leads are in a figure of their own."] if apart else []
    sentences += ["Bars: 95 % intervals over patients."] if points else []
    sentences += [
        f"{data.title}: {data.limit} records only (--limit)."
        for data in study.datasets
        if data.limit is not None
    ]
    if undefined := [titles[block.task] for block in curve.blocks if block.task in curve.undefined]:
        title = curve.metric.title
        sentences.append(f"No {title} for {enumerated(undefined)}: {UNDEFINED}.")
    if lost := _left_out(study):
        more = len(lost) - _SHOWN
        rest = f"; and {more} more, see main_table.csv" if more > 0 else ""
        sentences.append(f"Left out: {'; '.join(lost[:_SHOWN])}{rest}.")
    return " ".join(sentences)


def _left_out(study: Study) -> list[str]:
    """`LAEF at 1, 2, PTB-XL Super (failed)`; the task is said where there are several."""
    heads, titles = heads_of(study), titles_of(study)
    where = {task: f", {title}" if len(titles) > 1 else "" for task, title in titles.items()}
    return [
        f"{heads[gap.model, gap.policy].label} at {', '.join(gap.leads)}{where[gap.task]} "
        f"({gap.word})"
        for gap in gaps(study)
    ]


def _shape(curve: Curve) -> tuple[int, int, tuple[float, float]]:
    """Panels across and down, and the size in inches."""
    count = len(curve.blocks)
    across = 2 if count in (2, 4) else min(count, 3) or 1
    down = max(1, math.ceil(count / across))
    return across, down, (7.4, 4.6) if across == 1 else (9.6, 2.9 * down + 1.1)


def _draw(curve: Curve, sheet: "Sheet") -> list[Any]:
    across, down, _ = _shape(curve)
    axes = sheet.subplots(down, across, squeeze=False).ravel().tolist()
    for ax, block in zip(axes, curve.blocks):
        _panel(ax, curve, block)
    for ax in axes[len(curve.blocks) :]:
        ax.set_visible(False)
    sheet.supylabel(f"Macro {curve.metric.title} × 100", fontsize=9)
    drawn = {point["series"] for point in curve.points}
    return [handle(_label(curve, at), at) for at in range(len(curve.heads)) if at in drawn]


def _label(curve: Curve, at: int) -> str:
    head = curve.heads[at]
    return shortened(head.label, LONGEST) + (" (random weights)" if head.untrained else "")


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
            bar = {"color": style["color"], "linewidth": 1.3, "alpha": 0.75}
            ends = [100 * point["low"], 100 * point["high"]]
            ax.plot([x, x], ends, solid_capstyle="butt", **bar)
    style |= {"linewidth": 1.6, "markersize": 6, "zorder": 3}
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
