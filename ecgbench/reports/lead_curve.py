"""The lead curve: scores against the number of measured leads, one panel per task, one line per
model and policy.

Random leads (one subset per record) form the curve; named sets (I, II, I+II) are separate hollow
markers beside their number of leads and never part of it. Where there are many, as the twelve
single leads, they have a figure of their own, side by side. The x axis is logarithmic: most of what
is lost is lost between one lead and three. lead_curve.csv and named_leads.csv hold exactly the
numbers drawn, as fractions.
"""

from functools import partial

from ecgbench.core.text import enumerated
from ecgbench.reports import Figure, Numbers, ReportCard, Section
from ecgbench.reports._facts import gaps, heads_of, titles_of
from ecgbench.reports._lead_points import (
    UNDEFINED,
    Curve,
    curve,
    draw,
    named_leads,
    shape,
)
from ecgbench.results.study import Study

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
        draw=partial(draw, drawn),
        caption=caption,
        size=shape(drawn)[2],
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
