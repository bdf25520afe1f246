"""The lead curve: scores against the number of measured leads, one panel per task, one line per
model and policy; the skill that is kept with fewer leads; and what mixing leads costs.

Random leads (one subset per record) form the curve; named sets (I, II, I+II) are separate hollow
markers beside their number of leads and never part of it. Where there are many, as the twelve
single leads, they have a figure of their own, side by side. The x axis is logarithmic: most of what
is lost is lost between one lead and three. lead_curve.csv and named_leads.csv hold exactly the
numbers drawn, as fractions.

One lead: the mean of the scores within each of the twelve leads, beside the score of one random
lead per record, in which records with different leads are ranked together. A record seen in V1 may
score higher or lower as a whole than one seen in II; the difference is what that costs.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ecgbench.core.cards import MetricCard
from ecgbench.core.text import enumerated, shortened
from ecgbench.ecg.leads import LEADS
from ecgbench.reports import (
    LONGEST,
    Cell,
    Column,
    Figure,
    Numbers,
    ReportCard,
    Row,
    Score,
    Section,
    Table,
    handle,
    lead_axis,
    look,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports._facts import (
    FULL,
    Head,
    Task,
    columns,
    gaps,
    heads_of,
    leads_of,
    setting_words,
    tasks,
    titles_of,
    untrained_marks,
)
from ecgbench.reports._grid import Grid, grids
from ecgbench.reports._section import records
from ecgbench.results import ahead
from ecgbench.results.by_label import number
from ecgbench.results.joint import Entry, joint, lacking
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Lead curve",
    summary="scores against the number of measured leads, and the skill that is kept with fewer",
    reads="run",
    order=30,
)
COLUMNS = (
    *("task", "model", "policy", "weights", "leads", "n_leads", "named", "metric"),
    *("value", "low", "high"),
)
"""Columns of lead_curve.csv; every row is also a row of main_table.csv. `named`: drawn as a hollow
marker off the curve.
"""
UNDEFINED = "no label has both values among the test records"
"""Why a cell that was scored has no score."""
CROWD = 4
"""Named sets of one number of leads beyond which they stand in a figure of their own."""
_GAP = 0.045
"""Distance between neighbouring lines at one number of leads, in doublings of that number."""
_NAMED = 6
"""Cells without a number that the caption names."""
MIXED = "1"
"""One random lead per record, as typed."""
ONE_LEAD = (
    *("task", "model", "policy", "metric", "within", "mixed", "difference", "low", "high"),
    *("status", "reason"),
)

Point = dict[str, Any]
"""A row of the main table and more: `n_leads`, `named`, and `series`, the place of its column."""
Places = Mapping[int, Sequence[tuple[float, Point]]]
"""Series -> where each of its points stands on the x axis."""


def sections(study: Study) -> list[Section]:
    """One figure per metric; what skill is kept; one lead, where a run has all twelve."""
    figures = []
    for name in study.metrics:
        drawn, apart = curves(study, name)
        figures.append(_figure(study, name, "lead_curve", drawn, _caption(study, drawn, apart)))
        if apart:
            caption = "The named leads in every record. Bars: 95 % intervals over patients."
            figures.append(_figure(study, name, "named_leads", apart, caption))
    titles = enumerated([card.title for card in study.metrics.values()])
    title = f"Macro {titles} against the number of measured leads"
    curve = Section(name="lead_curve", title=title, short=CARD.title, parts=figures)
    return [curve, _skill_kept(study), *_one_lead(study)]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The scores of a run by one metric against the number of leads."""

    metric: MetricCard
    heads: Sequence[Head]
    tasks: Sequence[Task]
    rows: Sequence[Point]
    """All of them, with a score or without."""
    named: Sequence[str] = ()
    """Of a figure of named sets: all of them, in the order asked."""

    @cached_property
    def points(self) -> list[Point]:
        """Rows that have a score."""
        return [row for row in self.rows if row["value"] is not None]

    @property
    def undefined(self) -> set[str]:
        """Tasks of which cells were scored and none has a score."""
        return {row["task"] for row in self.rows} - {point["task"] for point in self.points}

    @property
    def shape(self) -> tuple[int, int, tuple[float, float]]:
        """Panels across and down, and the size in inches."""
        count = len(self.tasks)
        across = 2 if count in (2, 4) else min(count, 3) or 1
        down = max(1, math.ceil(count / across))
        return across, down, (7.4, 4.6) if across == 1 else (9.6, 2.9 * down + 1.1)


def curves(study: Study, metric: str) -> tuple[Curve, Curve | None]:
    """The curve by one metric of a study, and the named sets that would crowd it; None where there
    is room for them.
    """
    heads = columns(study)
    index = {head.names: at for at, head in enumerate(heads)}
    main, rows = study.of(metric).main, []
    for row in records(main[main["status"] == "ok"]):
        count, named = leads_of(row["leads"])
        series = index[row["model"], row["policy"]]
        rows.append(row | {"n_leads": count, "named": named, "series": series})
    whole = Curve(metric=study.metrics[metric], heads=heads, tasks=tasks(study), rows=rows)
    sets = {row["leads"]: row["n_leads"] for row in rows if row["named"]}
    if max(Counter(sets.values()).values(), default=0) <= CROWD:
        return whole, None
    apart = [row for row in rows if row["named"]]
    rest = [row for row in rows if not row["named"]]
    return replace(whole, rows=rest), replace(whole, rows=apart, named=list(sets))


def of_task(study: Study, task: str) -> Curve:
    """The curve of one task, by the first metric."""
    whole, _ = curves(study, study.metric)
    return replace(whole, tasks=[one for one in whole.tasks if one.task == task])


def _figure(study: Study, metric: str, which: str, drawn: Curve, caption: str) -> Figure:
    return Figure(
        name=which if metric == study.metric else f"{which}_{metric}",
        draw=partial(draw, drawn),
        caption=caption,
        size=drawn.shape[2],
        numbers=Numbers(columns=COLUMNS, rows=drawn.rows, summary="the points of the figure"),
    )


def _caption(study: Study, curve: Curve, apart: Curve | None) -> str:
    """What the curve shows, and what it leaves out."""
    titles = titles_of(study)
    named = any(point["named"] for point in curve.points)
    drawn = any(not point["named"] and point["n_leads"] < len(LEADS) for point in curve.points)
    filled = "Filled markers: leads" if named else "Leads"
    sentences = [f"{filled} drawn at random for each record."] if drawn else []
    sentences += ["Hollow markers: the named leads in every record."] if named else []
    sentences += ["Named leads are in a figure of their own."] if apart else []
    sentences += ["Bars: 95 % intervals over patients."] if curve.points else []
    sentences += [
        f"{data.title}: {data.limit} records only (--limit)."
        for data in study.datasets
        if data.limit is not None
    ]
    if undefined := [title for task, title in titles.items() if task in curve.undefined]:
        sentences.append(f"No {curve.metric.title} for {enumerated(undefined)}: {UNDEFINED}.")
    heads = heads_of(study)
    lost = [
        f"{heads[gap.model, gap.policy].label} at {', '.join(gap.leads)}"
        f"{f', {titles[gap.task]}' if len(titles) > 1 else ''} ({gap.word})"
        for gap in gaps(study)
    ]
    if lost:
        more = len(lost) - _NAMED
        rest = f"; and {more} more, see main_table.csv" if more > 0 else ""
        sentences.append(f"Left out: {'; '.join(lost[:_NAMED])}{rest}.")
    return " ".join(sentences)


def draw(curve: Curve, sheet: "Sheet") -> list[Any]:
    """A panel per task; returns the legend."""
    across, down, _ = curve.shape
    axes = sheet.subplots(down, across, squeeze=False).ravel().tolist()
    for ax, task in zip(axes, curve.tasks):
        _panel(ax, curve, task)
    for ax in axes[len(curve.tasks) :]:
        ax.set_visible(False)
    sheet.supylabel(f"Macro {curve.metric.title} × 100", fontsize=9)
    drawn = {point["series"] for point in curve.points}
    return [
        handle(shortened(h.label, LONGEST) + (" (random weights)" if h.untrained else ""), at)
        for at, h in enumerate(curve.heads)
        if at in drawn
    ]


def _panel(ax: "Axes", curve: Curve, task: Task) -> None:
    mine = [point for point in curve.points if point["task"] == task.task]
    where = {} if curve.named else _beside_their_number(mine)
    places = _side_by_side(mine, curve.named) if curve.named else _by_number(mine, where)
    for at, there in places.items():
        _line(ax, [(x, p) for x, p in there if not p["named"]], at)
        _line(ax, [(x, p) for x, p in there if p["named"]], at, hollow=True)
    upright = len(where) > 4 or len(curve.tasks) > 1
    for leads, x in where.items():
        top = max(max(p["high"] or 0, p["value"]) for p in mine if p["leads"] == leads)
        _name(ax, leads, (x, 100 * top), upright)
    if curve.named:
        ax.set_xticks(range(len(curve.named)), curve.named)
        ax.set_xlabel("measured leads")
    else:
        counts = sorted({point["n_leads"] for point in mine})
        lead_axis(ax, counts, max([*counts, *where.values()], default=len(LEADS)))
    _scale(ax, curve.metric)
    ax.set_title(shortened(task.title, LONGEST))
    if not mine:
        why = UNDEFINED if task.task in curve.undefined else "no number yet"
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", color="#777777")


def _beside_their_number(mine: Sequence[Point]) -> dict[str, float]:
    """Where each named set stands: right of its number of leads, short of the next number, in the
    order asked.
    """
    counts = sorted({point["n_leads"] for point in mine})
    named = {point["leads"]: point["n_leads"] for point in mine if point["named"]}
    found: dict[str, float] = {}
    for count in counts:
        sets = [leads for leads, of in named.items() if of == count]
        following = next((more for more in counts if more > count), 2 * count)
        step = min(0.2, 0.8 * math.log2(following / count) / (len(sets) + 1))
        found |= {leads: count * 2 ** (step * (i + 1)) for i, leads in enumerate(sets)}
    return found


def _by_number(mine: Sequence[Point], where: Mapping[str, float]) -> Places:
    """At their number of leads, moved a little where others stand beside it; random leads in their
    order, then named sets.
    """
    drawn = sorted({point["series"] for point in mine})
    found: dict[int, list[tuple[float, Point]]] = {}
    for place, at in enumerate(drawn):
        shift = 2 ** ((place - (len(drawn) - 1) / 2) * min(_GAP, 0.12 / len(drawn)))
        own = [point for point in mine if point["series"] == at]
        random = sorted((p for p in own if not p["named"]), key=lambda point: point["n_leads"])
        found[at] = [(p["n_leads"] * shift, p) for p in random]
        found[at] += [(where[p["leads"]] * shift, p) for p in own if p["named"]]
    return found


def _side_by_side(mine: Sequence[Point], order: Sequence[str]) -> Places:
    """Each at the place of its set, 0, 1, ..., moved a little where others stand beside it."""
    drawn = sorted({point["series"] for point in mine})
    found: dict[int, list[tuple[float, Point]]] = {at: [] for at in drawn}
    for point in sorted(mine, key=lambda point: order.index(point["leads"])):
        shift = 0.7 * ((drawn.index(point["series"]) + 0.5) / len(drawn) - 0.5)
        found[point["series"]].append((order.index(point["leads"]) + shift, point))
    return found


def _line(ax: "Axes", there: Sequence[tuple[float, Point]], at: int, hollow: bool = False) -> None:
    style = look(at)
    for x, point in there:
        # Each bar is drawn from its own ends, not as lengths around the estimate: an estimate may
        # lie outside its interval.
        if None not in (point["low"], point["high"]):
            bar = {"color": style["color"], "linewidth": 1.3, "alpha": 0.75, "gid": f"column-{at}"}
            ends = [100 * point["low"], 100 * point["high"]]
            ax.plot([x, x], ends, solid_capstyle="butt", **bar)
    style |= {"linewidth": 1.6, "markersize": 6, "zorder": 3, "gid": f"column-{at}"}
    if hollow:
        style |= {"linestyle": "none", "markerfacecolor": "white", "markersize": 5}
    ax.plot([x for x, _ in there], [100 * point["value"] for _, point in there], **style)


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


def _skill_kept(study: Study) -> Section:
    """One table per metric whose chance is known, of the models that have a score at 12 leads."""
    tables = [_kept(f"survival_{name}", grid) for name, grid in grids(study).items()]
    title = f"Skill kept, % of the skill above chance at {setting_words(FULL)}"
    parts = [table for table in tables if table.rows]
    return Section(name="survival", title=title, short="Skill kept", parts=parts)


def _kept(name: str, grid: Grid) -> Table:
    rows: list[Row] = []
    for block in grid.tasks if grid.metric.chance is not None else ():
        fewer = {leads: scores for leads, scores in block.lines.items() if leads != FULL}
        for at, (head, full) in enumerate(zip(grid.columns, block.lines.get(FULL, ()))):
            if full and full.value is not None and fewer:
                shares = {leads: _share(of[at], full, grid.metric) for leads, of in fewer.items()}
                same = {"task": block.title, "model": head.cell, "full": full.value}
                rows.append(same | shares)
    leads = dict.fromkeys(
        key for row in rows for key in row if key not in ("task", "model", "full")
    )
    title, chance, full_words = grid.metric.title, grid.metric.chance, setting_words(FULL)
    return Table(
        name=name,
        columns=[
            *([Column("task", "Task", "group")] if len(grid.tasks) > 1 else []),
            Column("model", "Model"),
            Column("full", full_words, "number", points, f"macro {title}"),
            *(Column(typed, typed, "number", partial(points, digits=0)) for typed in leads),
        ],
        rows=[{**dict.fromkeys(leads), **row} for row in rows],
        notes=[
            f"({title} − {chance}) / ({title} at {full_words} − {chance}); -- where there is no "
            f"number, or where the interval at {full_words} reaches chance."
        ],
        marks=untrained_marks(grid.columns),
        formats=("html",),
    )


def _share(score: Score | None, full: Score, metric: MetricCard) -> float | None:
    """What a score keeps of the skill at 12 leads; None where the interval there reaches chance: a
    share of nothing says nothing.
    """
    chance, value = metric.chance or 0.0, full.value or 0.0
    bound, sign = (full.low, 1) if metric.direction == "higher" else (full.high, -1)
    surely = min(sign * (each - chance) for each in (value, bound) if each is not None)
    if score is None or score.value is None or surely <= 0:
        return None
    return float((score.value - chance) / (value - chance))


def _one_lead(study: Study) -> list[Section]:
    """One table, where a run has one random lead and all twelve single ones."""
    if study.scorer is None or not {MIXED, *LEADS} <= set(study.main["leads"]):
        return []
    asked = [(task, head) for task in titles_of(study) for head in columns(study)]
    pieces = [partial(_within_and_mixed, study, *one) for one in asked]
    ahead.each(study.scorer, study.stage, ("One lead", "models of a task"), pieces)
    rows = [row for one in asked if (row := _within_and_mixed(study, *one))]
    if not rows:
        return []
    title = "One lead: within leads, and mixed"
    table = _table_of_one_lead(study, rows)
    return [Section(name="one_lead", title=title, short="One lead", parts=[table])]


def _within_and_mixed(study: Study, task: str, head: Head) -> dict[str, Any] | None:
    """A row of one_lead.csv, where the column is asked for at these settings."""
    settings = (MIXED, *LEADS)
    entries = [Entry(*head.names, leads) for leads in settings]
    status = {
        leads: study.scores.get((task, *head.names, leads), ("", 0.0))[0] for leads in settings
    }
    if not all(status.values()):
        return None
    row = {"task": task, "model": head.model, "policy": head.policy, "metric": study.metric}
    if why := lacking(study, entries, [task]).get(task):
        word = min(set(status.values()) - {"ok"}, default="undefined")
        return row | {"status": word, "reason": why}
    found = joint(study, entries, [task])
    difference = found.contrast([-1.0, *[1 / len(LEADS)] * len(LEADS)])
    low, high = difference.as_difference()
    return row | {
        "within": float(found.values[1:].mean()),
        "mixed": float(found.values[0]),
        "difference": difference.value,
        "low": number(low),
        "high": number(high),
        "status": "ok",
        "reason": "",
    }


def _table_of_one_lead(study: Study, rows: Sequence[Row]) -> Table:
    titles, heads = titles_of(study), heads_of(study)
    shown = []
    for row in rows:
        line = {"task": titles[row["task"]], "model": heads[row["model"], row["policy"]].cell}
        line |= {"within": Cell(row["status"]), "mixed": None, "difference": None}
        if row["status"] == "ok":
            interval = signed_bracket(row["low"], row["high"])
            line |= {"within": row["within"], "mixed": row["mixed"]}
            line["difference"] = f"{signed(row['difference'])} {interval}".strip()
        shown.append(line)
    return Table(
        name="one_lead",
        caption=f"Macro {study.metrics[study.metric].title} × 100 at one lead: within each lead, "
        f"and with leads mixed.",
        columns=[
            Column("task", "Task", "group"),
            Column("model", "Model"),
            Column("within", "Within", "number", points, "mean of the twelve leads"),
            Column("mixed", "Mixed", "number", points, "one random lead per record"),
            Column("difference", "Difference", note="95 % interval"),
        ],
        rows=shown,
        notes=[
            "Mixed, a record seen in one lead is ranked among records seen in others: the "
            "difference is what it costs that scores of different leads do not share a scale."
        ],
        marks=untrained_marks(heads.values()),
        numbers=Numbers(
            columns=ONE_LEAD, rows=rows, summary="one row per task and model; fractions"
        ),
    )
