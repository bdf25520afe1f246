"""Operating points: what a threshold that was frozen on twelve leads gives at fewer leads, and what
one chosen at that number of leads would give; and decision curves, what flagging is worth.

Frozen: from the fit's predictions for validation records with twelve leads. Own: from test records
at that number of leads, by cross-fitting over patients: each half is flagged by the threshold of
the other. Both within each fold. Net benefit counts right flags, less wrong ones times the odds of
the threshold probability, at the prevalence of the test set; it takes probabilities as they are, so
that bad calibration costs. All label by label and as means over labels. docs/calibration.md says
how to read them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ecgbench import reports as r
from ecgbench.reports import _facts as facts
from ecgbench.reports import _predicted as predicted
from ecgbench.reports._means import for_page
from ecgbench.reports._predicted import MEAN, Line, OfTask
from ecgbench.results.by_label import ENDS, ByLabel
from ecgbench.results.operating import (
    CHANCES,
    FROZEN,
    KEPT,
    LEVEL,
    OF_PREVALENCE,
    OWN,
    PREVALENCES,
    RATES,
    VALUES,
    WAYS,
    NetBenefit,
    Operating,
)
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

CARD = r.ReportCard(
    title="Operating points",
    summary="thresholds frozen on twelve leads at fewer leads, and what flagging is worth",
    reads="run",
    order=64,
)
POINTS = [
    *(*predicted.FACTS, "kept", "level", "thresholds", *predicted.COUNTS, "threshold"),
    *(column for name in RATES for column in predicted.with_ends(name)),
    *(
        column
        for name in VALUES
        for of in OF_PREVALENCE
        for column in predicted.with_ends(f"{name} {of}")
    ),
    *("status", "reason"),
]
BENEFITS = [
    *(*predicted.FACTS, "labels", "threshold_probability", "prevalence"),
    *("net_benefit", "low", "high", "flag_all", "flag_nobody", "status", "reason"),
]
_NOTES = (
    "A threshold aims at 95 % and does not hit it. Own: by 2-fold cross-fitting, of labels that "
    "nobody has when a device is first used. Intervals are over patients, the thresholds held "
    "fixed. operating_points.csv has single labels, and predictive values with intervals. "
    "docs/calibration.md says how thresholds are set."
)
_WORTH = (
    "Net benefit is at the prevalence of the test set, and says nothing of a place where a label "
    "is rarer. "
    "decision_curves.csv has each label, and 95 % intervals over patients, for these fits."
)


def sections(study: Study) -> list[r.Section]:
    """Thresholds, then net benefits; nothing of a study made by hand."""
    made = predicted.tasks(study, ByLabel(question=Operating(), scorer=study.scorer))
    if not made:
        return []
    parts: list[r.Part] = [*_points(study, made)]
    parts += [figure for of in made for figure in _curves(study, of)]
    title = "Operating points: thresholds of twelve leads at fewer"
    first = r.Section(name="operating", title=title, short=CARD.title, parts=parts)
    made = predicted.tasks(study, ByLabel(question=NetBenefit(), scorer=study.scorer))
    rows = [row for of in made for line in of.lines for row in _benefits(of, line)]
    every = r.Table(
        name="decision_curves",
        rows=pd.DataFrame(rows, columns=BENEFITS, dtype=object),
        summary="net benefit per record, by label and threshold probability",
    )
    parts = [figure for of in made for figure in _benefit_figure(study, of)]
    parts += [every, r.Notes([_WORTH, *(text for of in made for text in of.too_rare)])]
    title = "What flagging is worth"
    return [first, r.Section(name="decisions", title=title, short="Decision curves", parts=parts)]


def _points(study: Study, made: Sequence[OfTask]) -> Iterator[r.Table | r.Notes]:
    rows = [
        row
        for of in made
        for line in of.lines
        for way in WAYS
        for row in of.rows(line, way.key, **way.facts)
    ]
    frame = _frame(rows)
    shown, cut = for_page(study, predicted.on_page(made, frame), "operating_points.csv")
    task, *first = predicted.first_columns(study)
    notes = [_NOTES, *cut, *(text for of in made for text in _left_out(of))]
    yield r.Table(
        name="operating_points",
        caption=(
            "Sensitivity and specificity × 100, means over labels: thresholds frozen on validation "
            "records with twelve leads, and thresholds chosen at that number of leads (own). PPV: "
            "the predictive value where so many patients have the label."
        ),
        columns=[
            task,
            r.Column("kept", f"{r.points(LEVEL, 0)} % wanted of"),
            *first,
            r.Column("thresholds", "Thresholds"),
            *(facts.estimate_column(x.capitalize(), predicted.with_ends(x)) for x in RATES),
            *(r.Column(f"ppv_{p}", f"PPV, {100 * p:g} %", "number", r.points) for p in PREVALENCES),
        ],
        rows=shown,
        notes=notes,
        numbers=frame,
        summary="one row per task, model, lead setting, label and threshold",
    )
    if not len(shown):
        yield r.Notes(notes)


def _frame(rows: Sequence[r.Row]) -> pd.DataFrame:
    made = pd.DataFrame(rows, columns=POINTS, dtype=object)
    return made.rename(columns=lambda name: name.replace(" ", "_"))


def _left_out(of: OfTask) -> Iterator[str]:
    """Which labels are in no mean, and why."""
    yield from of.too_rare
    for way in WAYS:
        if reasons := list(dict.fromkeys(of.left_out(way.key).values())):
            yield (
                f"{of.title}: some labels have no threshold for {r.points(LEVEL, 0)} % {way.kept}, "
                f"{way.thresholds}: {reasons[0]}; see operating_points.csv."
            )


def _curves(study: Study, of: OfTask) -> Iterator[r.Figure]:
    """Sensitivity and specificity by number of leads, where there are two numbers or more."""
    lines = [line for line in of.lines if line.leads.isdigit()]
    rows = [
        {**line.facts, "label": MEAN, **way.facts, **mean}
        for line in lines
        for way in WAYS
        if (mean := of.mean(line, way.key))
    ]
    if len({row["leads"] for row in rows}) < 2:
        return
    yield r.Figure(
        name=f"{of.file('operating_points')}_by_leads",
        draw=partial(_draw_curves, rows, facts.columns(study)),
        caption=(
            f"{of.title}: means over labels. Above: the threshold aims at 95 % specificity; below: "
            f"at 95 % sensitivity. Solid: frozen on validation records with twelve leads. Dashed: "
            f"chosen at that number of leads, by cross-fitting. Bars: 95 % intervals over patients."
            + predicted.gone(lines)
        ),
        size=(8.6, 7.2),
        numbers=_frame(rows),
        summary="the points of the figure",
    )


def _draw_curves(rows: Sequence[r.Row], heads: Sequence[facts.Head], sheet: "Sheet") -> list[Any]:
    drawn = predicted.by_column(rows, heads)
    numbers = sorted({int(row["leads"]) for row in rows})
    for kept, axes in zip(KEPT, sheet.subplots(2, 2, squeeze=False)):
        for rate, ax in zip(RATES, axes):
            for place, (at, own) in enumerate(drawn):
                shift = 2 ** (0.05 * (place - (len(drawn) - 1) / 2))
                for source in (FROZEN, OWN):
                    mine = [o for o in own if (o["kept"], o["thresholds"]) == (kept, source)]
                    _line(ax, mine, rate, r.look(at), shift)
            r.lead_axis(ax, numbers)
            ax.set_title(f"{rate.capitalize()} × 100, {r.points(LEVEL, 0)} % {kept} wanted")
            if rate == kept:
                ax.axhline(100 * LEVEL, color=predicted.GREY, linestyle=":", zorder=1)
    frozen, own = r.handle("frozen"), r.handle("own", linestyle="--")
    return [*predicted.legend(heads, drawn), frozen, own]


def _line(
    ax: "Axes", rows: Sequence[r.Row], rate: str, style: dict[str, Any], shift: float
) -> None:
    ordered = sorted(rows, key=lambda row: int(row["leads"]))
    style = {**style, "linewidth": 1.5, "markersize": 4.5, "zorder": 3, "linestyle": "-"}
    if ordered and ordered[0]["thresholds"] == OWN:
        style |= {"linestyle": "--", "markerfacecolor": "white"}
        shift *= 1.02
    for row in (row for row in ordered if row[f"{rate}_low"] is not None):
        x, low, high = int(row["leads"]) * shift, row[f"{rate}_low"], row[f"{rate}_high"]
        ax.plot([x, x], [100 * low, 100 * high], color=style["color"], linewidth=1, alpha=0.5)
    leads = [int(row["leads"]) * shift for row in ordered]
    ax.plot(leads, [100 * row[rate] for row in ordered], **style)


def _benefits(of: OfTask, line: Line) -> Iterator[dict[str, Any]]:
    """Of the CSV file: a row of the main table, the mean over labels, then each label, each at all
    threshold probabilities.
    """
    at = [list(of.rows(line, str(chance))) for chance in CHANCES]
    for same in zip(*at):
        if same[0].get("net_benefit") is None:
            yield same[0]
            continue
        prevalence = _prevalence(of, line, same[0]["label"])
        for chance, row in zip(CHANCES, same):
            yield row | {
                "threshold_probability": chance,
                "prevalence": prevalence,
                **{end[1:]: row[f"net_benefit{end}"] for end in ENDS},
                "flag_all": prevalence - (1 - prevalence) * chance / (1 - chance),
                "flag_nobody": 0.0,
            }


def _prevalence(of: OfTask, line: Line, label: str) -> float:
    """Share of the test records with a label; at MEAN the mean over the labels that all have."""
    assert line.there is not None
    labels = of.shared[str(CHANCES[0])] if label == MEAN else [label]
    return float(np.mean([line.there.prevalence(name) for name in labels]))


def _benefit_figure(study: Study, of: OfTask) -> Iterator[r.Figure]:
    """Decision curves of a task, at all leads and at the fewest."""
    lines = [line for line in of.lines if line.leads in of.ends]
    means = [row for line in lines for row in _benefits(of, line) if row["label"] == MEAN]
    rows = [row for row in means if "threshold_probability" in row]
    if not rows:
        return
    yield r.Figure(
        name=of.file("decision_curve"),
        draw=partial(_draw_benefits, rows, of.ends, facts.columns(study)),
        caption=(
            f"{of.title}: net benefit per 100 records, mean over labels, at the prevalence of the "
            f"test set. A threshold probability of 10 % says that a right flag is worth nine wrong "
            f"ones. Grey: everybody is flagged; 0: nobody is." + predicted.gone(lines)
        ),
        size=(1 + 3.9 * max(len(of.ends), 2), 4.4),
        numbers=pd.DataFrame(rows, columns=BENEFITS, dtype=object),
        summary="the points of the figure",
    )


def _draw_benefits(
    rows: Sequence[r.Row], leads: Sequence[str], heads: Sequence[facts.Head], sheet: "Sheet"
) -> list[Any]:
    drawn = predicted.by_column(rows, heads)
    names = "threshold probability, %", "net benefit per 100 records"
    for ax, typed in zip(predicted.panels(sheet, leads, *names), leads):
        for at, every in drawn:
            own = [row for row in every if row["leads"] == typed]
            x, benefit, everybody = (
                [100 * row[name] for row in own]
                for name in ("threshold_probability", "net_benefit", "flag_all")
            )
            ax.plot(x, benefit, **{**r.look(at), "markersize": 4})
            ax.plot(x, everybody, color=predicted.GREY, zorder=1)
        ax.axhline(0, color=predicted.GREY, linewidth=1, zorder=1)
        ax.set_ylim(bottom=min([0.0, *(100 * row["net_benefit"] for row in rows)]) - 1)
    return predicted.legend(heads, drawn)
