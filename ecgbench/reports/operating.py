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

from ecgbench.reports import (
    Column,
    Figure,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Row,
    Section,
    Table,
    bracket,
    handle,
    lead_axis,
    look,
    points,
)
from ecgbench.reports._facts import Head, columns, untrained_marks
from ecgbench.reports._predicted import (
    COUNTS,
    FACTS,
    FIRST,
    GREY,
    MEAN,
    NONE_KNOWN,
    Line,
    OfTask,
    begun,
    by_column,
    formats,
    gone,
    legend,
    nothing,
    panels,
    tasks,
)
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
    TEST_SET,
    VALUES,
    WAYS,
    NetBenefit,
    Operating,
    Way,
)
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Operating points",
    summary="thresholds frozen on twelve leads at fewer leads, and what flagging is worth",
    reads="run",
    order=64,
)
POINT_COLUMNS = (
    *(*FACTS, "kept", "level", "thresholds", *COUNTS, "threshold"),
    *(name + end for name in RATES for end in ("", *ENDS)),
    *("status", "reason"),
)
VALUE_COLUMNS = (
    *(*FACTS, "kept", "level", "thresholds", "prevalence_of", "prevalence"),
    *(name + end for name in VALUES for end in ("", *ENDS)),
)
BENEFIT_COLUMNS = (
    *(*FACTS, "labels", "threshold_probability", "prevalence"),
    *("net_benefit", "low", "high", "flag_all", "flag_nobody", "status", "reason"),
)
_THRESHOLDS = (
    "Frozen: from the fit's predictions for validation records with twelve leads (of a "
    "probe: for training and validation records, each by heads fitted without its "
    "patient). Own: from test records at that number of leads, each half of the patients "
    "flagged by the threshold of the other. Nobody has these labels when a device is first "
    "used: own thresholds say what could be had, not what would be.",
    "A threshold aims at 95 % and does not hit it: compare both columns. Intervals are "
    "over patients, the thresholds held fixed.",
    "predictive_values.csv has predictive values at the test set's own prevalence too, "
    "negative ones, and their intervals, label by label.",
)
ON_PAGE = (0.05, 0.1, 0.2)
"""Threshold probabilities in the table of net benefits."""


def sections(study: Study) -> list[Section]:
    """Thresholds, then net benefits; nothing of a study made by hand."""
    heads = columns(study)
    made = tasks(study, ByLabel(question=Operating(), scorer=study.scorer))
    if not made:
        return []
    notes = [text for of in made for text in _left_out(of)]
    parts = _with_notes(list(_tables(made, heads, notes)), notes)
    parts += [figure for of in made for figure in _curves(of, heads)]
    title = "Operating points: thresholds of twelve leads at fewer"
    first = Section(name="operating", title=title, short=CARD.title, parts=parts)

    made = tasks(study, ByLabel(question=NetBenefit(), scorer=study.scorer))
    notes = [text for of in made for text in of.too_rare]
    parts = _with_notes([_benefit_table(made, heads, notes)], notes)
    parts += [figure for of in made for figure in _benefit_figure(of, heads)]
    title = "What flagging is worth"
    return [first, Section(name="decisions", title=title, short="Decision curves", parts=parts)]


def _with_notes(tables: Sequence[Table], notes: Sequence[str]) -> list[Part]:
    """Where no table is shown, its notes are."""
    return [*tables, *([] if tables[0].rows else [Notes(notes)])]


def _values(of: OfTask) -> Iterator[Row]:
    """Predictive values of each label at the frozen thresholds."""
    for line in of.lines:
        for kept in KEPT if line.there else ():
            way = Way(kept, FROZEN)
            assert line.there
            for place, (name, why) in enumerate(zip(line.there.names, line.there.unmet[way.key])):
                made = {} if why else line.of_label(way.key, place + 1)
                for stated in () if why else OF_PREVALENCE:
                    own = stated == TEST_SET
                    row = {**line.facts, "label": name, **way.facts}
                    row["prevalence_of"] = TEST_SET if own else "stated"
                    row["prevalence"] = line.there.prevalence(name) if own else float(stated)
                    yield row | {
                        value + end: made[f"{value} {stated}{end}"]
                        for value in VALUES
                        for end in ("", *ENDS)
                    }


def _spelled(of: OfTask) -> Iterator[Row]:
    """Rows of the tables on the page."""
    for line in of.on_page:
        for kept in KEPT:
            key = Way(kept, FROZEN).key
            row = begun(of, line, key) | {"kept": f"{points(LEVEL, 0)} % {kept}"}
            for source, name in ((FROZEN, "frozen"), (OWN, "own")):
                mean = of.mean(line, Way(kept, source).key)
                row |= {f"{name}_{rate}": mean and _with_interval(mean, rate) for rate in RATES}
            frozen = line.numbers.get(key) or {}
            yield row | {f"ppv{p}": frozen.get(f"ppv {p}", [None])[0] for p in PREVALENCES}


def _with_interval(mean: Row, rate: str) -> str:
    return f"{points(mean[rate])} {bracket(*(mean[rate + end] for end in ENDS))}".strip()


def _tables(made: Sequence[OfTask], heads: Sequence[Head], notes: Sequence[str]) -> Iterator[Table]:
    rows = [row for of in made for row in _spelled(of)]
    task, *first = FIRST
    first = [task, Column("kept", "Threshold keeps"), *first]
    yield Table(
        name="operating_points",
        caption=(
            "Sensitivity and specificity × 100, means over labels: thresholds frozen on validation "
            "records with twelve leads, and thresholds chosen at that number of leads (own)."
        ),
        columns=[
            *first,
            *(
                Column(f"{at}_{name}", name.capitalize(), note=note)
                for at, note in (("frozen", "frozen"), ("own", "own, cross-fitted"))
                for name in RATES
            ),
        ],
        rows=rows,
        notes=[
            *_THRESHOLDS,
            *notes,
        ],
        marks=untrained_marks(heads),
        formats=formats(rows),
        numbers=Numbers(
            columns=POINT_COLUMNS,
            rows=[
                row
                for of in made
                for line in of.lines
                for way in WAYS
                for row in of.rows(line, way.key, **way.facts)
            ],
            summary="one row per task, model, lead setting, label and threshold",
        ),
    )
    yield Table(
        name="predictive_values",
        caption=(
            "Positive predictive value × 100 at the frozen threshold, means over labels, where 1 "
            "%, 5 % and 10 % of the patients have the label."
        ),
        columns=[
            *first[:-1],
            *(Column(f"ppv{p}", f"{100 * p:g} %", "number", points) for p in PREVALENCES),
        ],
        rows=rows,
        marks=untrained_marks(heads),
        formats=formats(rows),
        numbers=Numbers(
            columns=VALUE_COLUMNS,
            rows=[row for of in made for row in _values(of)],
            summary="predictive values of each label at a prevalence, at frozen thresholds",
        ),
    )


def _left_out(of: OfTask) -> Iterator[str]:
    """Which labels are in no mean, and why."""
    yield from of.too_rare
    for way in WAYS:
        reasons = list(dict.fromkeys(of.left_out(way.key).values()))
        if reasons:
            more = f" (and {len(reasons) - 1} more reasons)" if len(reasons) > 1 else ""
            yield (
                f"{of.title}: some labels have no threshold for {points(LEVEL, 0)} % {way.kept}, "
                f"{way.thresholds}: {reasons[0]}{more}; see operating_points.csv."
            )


def _curves(of: OfTask, heads: Sequence[Head]) -> Iterator[Figure]:
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
    yield Figure(
        name=f"{of.file('operating_points')}_by_leads",
        draw=partial(_draw_curves, rows, heads),
        caption=(
            f"{of.title}: means over labels. Above: the threshold aims at 95 % specificity; below: "
            f"at 95 % sensitivity. Solid: frozen on validation records with twelve leads. Dashed: "
            f"chosen at that number of leads, by cross-fitting. Bars: 95 % intervals over patients."
            + gone(lines)
        ),
        size=(8.6, 7.2),
        numbers=Numbers(columns=POINT_COLUMNS, rows=rows, summary="the points of the figure"),
    )


def _draw_curves(rows: Sequence[Row], heads: Sequence[Head], sheet: "Sheet") -> list[Any]:
    drawn = by_column(rows, heads)
    numbers = sorted({int(r["leads"]) for r in rows})
    for kept, axes in zip(KEPT, sheet.subplots(2, 2, squeeze=False)):
        for rate, ax in zip(RATES, axes):
            for place, (at, own) in enumerate(drawn):
                shift = 2 ** (0.05 * (place - (len(drawn) - 1) / 2))
                for source in (FROZEN, OWN):
                    mine = [r for r in own if (r["kept"], r["thresholds"]) == (kept, source)]
                    _line(ax, mine, rate, look(at), shift)
            lead_axis(ax, numbers)
            ax.set_title(f"{rate.capitalize()} × 100, {points(LEVEL, 0)} % {kept} wanted")
            if rate == kept:
                ax.axhline(100 * LEVEL, color=GREY, linewidth=1, linestyle=":", zorder=1)
    return [*legend(heads, drawn), handle("frozen"), handle("own", linestyle="--")]


def _line(ax: "Axes", rows: Sequence[Row], rate: str, style: dict[str, Any], shift: float) -> None:
    ordered = sorted(rows, key=lambda r: int(r["leads"]))
    style = {**style, "linewidth": 1.5, "markersize": 4.5, "zorder": 3, "linestyle": "-"}
    if ordered and ordered[0]["thresholds"] == OWN:
        style |= {"linestyle": "--", "markerfacecolor": "white"}
        shift *= 1.02
    for r in (r for r in ordered if r[f"{rate}_low"] is not None):
        x, low, high = int(r["leads"]) * shift, r[f"{rate}_low"], r[f"{rate}_high"]
        ax.plot([x, x], [100 * low, 100 * high], color=style["color"], linewidth=1, alpha=0.5)
    ax.plot([int(r["leads"]) * shift for r in ordered], [100 * r[rate] for r in ordered], **style)


def _benefits(of: OfTask, line: Line) -> Iterator[Row]:
    """Of the CSV file: a row of the main table, the mean over labels, then each label."""
    every, there = of.shared[str(CHANCES[0])], line.there
    if there is None or not every:
        yield {**line.facts, "label": MEAN, **(nothing(NONE_KNOWN) if there else {})}
    else:
        prevalence = float(np.mean([there.prevalence(name) for name in every]))
        yield from _at_chances(line, 0, prevalence, {"label": MEAN, "labels": len(every)})
    for place, name in enumerate(there.names if there else ()):
        assert there
        if there.lacking[place]:
            yield {**line.facts, "label": name, **nothing(there.lacking[place])}
        else:
            yield from _at_chances(line, place + 1, there.prevalence(name), {"label": name})


def _at_chances(line: Line, place: int, prevalence: float, named: Row) -> Iterator[Row]:
    for chance in CHANCES:
        made = line.of_label(str(chance), place)
        yield {
            **line.facts,
            **named,
            "threshold_probability": chance,
            "prevalence": prevalence,
            "net_benefit": made["net_benefit"],
            **{end[1:]: made[f"net_benefit{end}"] for end in ENDS},
            "flag_all": prevalence - (1 - prevalence) * chance / (1 - chance),
            "flag_nobody": 0.0,
        }


def _benefit_rows(of: OfTask) -> Iterator[Row]:
    """Rows of the table on the page."""
    for line in of.on_page:
        row = begun(of, line, str(CHANCES[0]))
        means = {
            r.get("threshold_probability"): r for r in _benefits(of, line) if r["label"] == MEAN
        }
        for chance in ON_PAGE:
            mean = means.get(chance)
            ends = mean and bracket(mean["low"], mean["high"])
            row[f"at{chance}"] = mean and f"{points(mean['net_benefit'])} {ends}".strip()
            row[f"all{chance}"] = mean and mean["flag_all"]
        yield row


def _benefit_table(made: Sequence[OfTask], heads: Sequence[Head], notes: Sequence[str]) -> Table:
    rows = [row for of in made for row in _benefit_rows(of)]
    own = []
    for chance in ON_PAGE:
        own.append(Column(f"at{chance}", f"at {100 * chance:g} %"))
        own.append(Column(f"all{chance}", "all flagged", "number", points))
    return Table(
        name="decision_curves",
        caption=(
            "Net benefit per 100 records by task and measured leads: means over labels, with 95 % "
            "intervals, at three threshold probabilities."
        ),
        columns=[
            *FIRST,
            *own,
        ],
        rows=rows,
        notes=[
            "At 10 %, one right flag is worth nine wrong ones. All flagged: the net benefit of "
            "flagging every record; flagging nobody has 0. It is at the prevalence of the test "
            "set, and says nothing of a place where a label is rarer. Intervals are over patients, "
            "for these fits.",
            *notes,
        ],
        marks=untrained_marks(heads),
        formats=formats(rows),
        numbers=Numbers(
            columns=BENEFIT_COLUMNS,
            rows=[row for of in made for line in of.lines for row in _benefits(of, line)],
            summary="net benefit per record, by label and threshold probability",
        ),
    )


def _benefit_figure(of: OfTask, heads: Sequence[Head]) -> Iterator[Figure]:
    """Decision curves of a task, at all leads and at the fewest."""
    lines = [line for line in of.lines if line.leads in of.ends]
    means = [row for line in lines for row in _benefits(of, line) if row["label"] == MEAN]
    rows = [row for row in means if "net_benefit" in row]
    if not rows:
        return
    yield Figure(
        name=of.file("decision_curve"),
        draw=partial(_draw_benefits, rows, of.ends, heads),
        caption=(
            f"{of.title}: net benefit per 100 records, mean over labels, at the prevalence of the "
            f"test set. A threshold probability of 10 % says that a right flag is worth nine wrong "
            f"ones. Grey: everybody is flagged; 0: nobody is." + gone(lines)
        ),
        size=(1 + 3.9 * max(len(of.ends), 2), 4.4),
        numbers=Numbers(columns=BENEFIT_COLUMNS, rows=rows, summary="the points of the figure"),
    )


def _draw_benefits(
    rows: Sequence[Row], leads: Sequence[str], heads: Sequence[Head], sheet: "Sheet"
) -> list[Any]:
    drawn = by_column(rows, heads)
    axes = panels(sheet, leads, "threshold probability, %", "net benefit per 100 records")
    for ax, typed in zip(axes, leads):
        for at, every in drawn:
            own = [r for r in every if r["leads"] == typed]
            x = [100 * r["threshold_probability"] for r in own]
            ax.plot(x, [100 * r["net_benefit"] for r in own], **{**look(at), "markersize": 4})
            ax.plot(x, [100 * r["flag_all"] for r in own], color=GREY, zorder=1)
        ax.axhline(0, color=GREY, linewidth=1, zorder=1)
        ax.set_ylim(bottom=min([0.0, *(100 * r["net_benefit"] for r in rows)]) - 1)
    return legend(heads, drawn)
