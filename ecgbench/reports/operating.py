"""Operating points: what a threshold that was frozen on twelve leads gives at fewer leads, and what
one chosen at that number of leads would give.

Frozen: from the fit's predictions for validation records with twelve leads. Own: from test records
at that number of leads, by cross-fitting over patients: each half is flagged by the threshold of
the other. Both within each fold. Sensitivity and specificity, predictive values at stated
prevalences, label by label and as means over labels. docs/calibration.md says how to read them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.reports import (
    Cell,
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
from ecgbench.reports._facts import Head, columns, setting_words, titles_of, untrained_marks
from ecgbench.reports._predicted import (
    FACTS,
    MEAN,
    Line,
    formats,
    gone,
    legend,
    lines,
    nothing,
    number,
    shown,
    too_rare,
)
from ecgbench.reports._thresholds import (
    BOTH,
    FROZEN,
    KEPT,
    LEVEL,
    OWN,
    WAYS,
    Found,
    Frozen,
    Point,
    Way,
    compared,
    means,
    operated,
    why,
)
from ecgbench.results.study import Study
from ecgbench.stats.clustered import Estimate
from ecgbench.stats.operating import Kept, predictive

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Operating points",
    summary="sensitivity and specificity at thresholds frozen on twelve leads, by number of leads",
    reads="run",
    order=64,
)
PREVALENCES = (0.01, 0.05, 0.1)
TEST_SET = "test set"
COUNTS = ("labels", "patients", "positives", "negatives")
POINT_COLUMNS = (
    *(*FACTS, "kept", "level", "thresholds", *COUNTS, "threshold"),
    *(name + end for name in BOTH for end in ("", "_low", "_high")),
    *("status", "reason"),
)
VALUE_COLUMNS = (
    *(*FACTS, "kept", "level", "thresholds", "prevalence_of", "prevalence"),
    *(name + end for name in ("ppv", "npv") for end in ("", "_low", "_high")),
)


def sections(study: Study) -> list[Section]:
    """Tables and figures of all tasks; nothing of a study made by hand."""
    own = lines(study)
    if not any(line.repeats for line in own):
        return []
    frozen, files = Frozen(), _Files()
    titles, heads = titles_of(study), columns(study)
    table: list[Row] = []
    figures: list[Figure] = []
    said: list[str] = []
    for at, task in enumerate(titles):
        mine = [line for line in own if line.task == task]
        found = [dict(operated(line, frozen)) for line in mine]
        every = compared(found)
        averages = [means(of, every) for of in found]
        for line, of, average in zip(mine, found, averages):
            files.add(line, of, every, average)
        on_page = shown(mine, any(every.values()))
        table += [
            row
            for line, of, average in zip(mine, found, averages)
            if line in on_page
            for row in _spelled(titles[task], line, of, every, average)
        ]
        said += _left_out(titles[task], found)
        end = "" if len(titles) == 1 else f"_{at + 1}"
        figures += _curves(f"operating_points{end}", titles[task], mine, averages, heads)
    parts: list[Part] = [
        *_tables(table, files, heads, said),
        *([] if table else [Notes(said)]),
        *figures,
    ]
    title = "Operating points: thresholds of twelve leads at fewer"
    return [Section(name="operating", title=title, short=CARD.title, parts=parts)]


class _Files:
    """Rows of the CSV files."""

    def __init__(self) -> None:
        self.points: list[Row] = []
        self.values: list[Row] = []

    def add(
        self,
        line: Line,
        found: Found,
        every: Mapping[Kept, Sequence[str]],
        average: Mapping[Way, Point],
    ) -> None:
        """Of a row of the main table."""
        for way in WAYS:
            self._mean(line, found, every[way.kept], way, average.get(way))
            for name, one in found.items():
                there = {**line.facts, "label": name, **way.facts}
                point = one.points[way]
                said = nothing(point) if isinstance(point, str) else point.numbers
                self.points.append({**there, **one.counts, **said})
                if isinstance(point, Point):
                    self.values += [{**there, **row} for row in _values(point, one.prevalence)]

    def _mean(
        self, line: Line, found: Found, every: Sequence[str], way: Way, point: Point | None
    ) -> None:
        there = {**line.facts, "label": MEAN, **way.facts}
        counts = {"labels": len(every)} if point else {}
        said: dict[str, Any] = point.numbers if point else {}
        if line.repeats and point is None:
            said = nothing(why(found, way))
        self.points.append({**there, **counts, **said})


def _values(point: Point, own: float) -> Iterator[Row]:
    for of, prevalence in [(TEST_SET, own), *(("stated", p) for p in PREVALENCES)]:
        made = predictive(point.rates, prevalence)
        yield {
            "prevalence_of": of,
            "prevalence": prevalence,
            "ppv": number(made.ppv),
            "ppv_low": number(made.ppv_interval.low),
            "ppv_high": number(made.ppv_interval.high),
            "npv": number(made.npv),
            "npv_low": number(made.npv_interval.low),
            "npv_high": number(made.npv_interval.high),
        }


def _spelled(
    title: str,
    line: Line,
    found: Found,
    every: Mapping[Kept, Sequence[str]],
    average: Mapping[Way, Point],
) -> Iterator[Row]:
    """Rows of the table on the page."""
    for kept in KEPT:
        row: dict[str, Any] = {
            "task": title,
            "kept": f"{points(LEVEL, 0)} % {kept}",
            "leads": line.leads,
            "model": line.head.cell,
            "labels": len(every[kept]) if line.repeats else Cell(line.status),
        }
        for way, at in ((Way(kept, FROZEN), "frozen"), (Way(kept, OWN), "own")):
            point = average.get(way)
            for name, found_rate in zip(BOTH, point.rates if point else (None, None)):
                row[f"{at}_{name}"] = None if found_rate is None else _with_interval(found_rate)
            own = [found[n].points[way] for n in every[kept] if n in found] if point else []
            for prevalence in PREVALENCES if at == "frozen" else ():
                row[f"ppv{prevalence}"] = _mean_ppv(own, prevalence)
        yield row


def _with_interval(found: Estimate) -> str:
    return f"{points(found.value)} {bracket(*map(number, found.share_interval()))}".strip()


def _mean_ppv(own: Sequence[Point | str], prevalence: float) -> float | None:
    """None where one of the labels has none: nobody is flagged."""
    made = [predictive(p.rates, prevalence).ppv for p in own if isinstance(p, Point)]
    return number(float(np.mean(made))) if made else None


def _tables(
    rows: Sequence[Row], files: _Files, heads: Sequence[Head], said: Sequence[str]
) -> Iterator[Table]:
    first = [Column("task", "Task", "group"), Column("kept", "Threshold keeps")]
    first += [Column("leads", "Leads", on_page=setting_words), Column("model", "Model")]
    marks = untrained_marks(heads)
    yield Table(
        name="operating_points",
        caption=(
            "Sensitivity and specificity × 100, means over labels: thresholds frozen on validation "
            "records with twelve leads, and thresholds chosen at that number of leads (own)."
        ),
        columns=[
            *first,
            Column("labels", "Labels", "number"),
            *(
                Column(f"{at}_{name}", name.capitalize(), note=note)
                for at, note in (("frozen", "frozen"), ("own", "own, cross-fitted"))
                for name in BOTH
            ),
        ],
        rows=rows,
        notes=[*_notes(), *said],
        marks=marks,
        formats=formats(rows),
        numbers=Numbers(
            columns=POINT_COLUMNS,
            rows=files.points,
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
            *first,
            *(Column(f"ppv{p}", f"{100 * p:g} %", "number", points) for p in PREVALENCES),
        ],
        rows=rows,
        marks=marks,
        formats=formats(rows),
        numbers=Numbers(
            columns=VALUE_COLUMNS,
            rows=files.values,
            summary="predictive values of each label at a prevalence",
        ),
    )


def _notes() -> list[str]:
    return [
        "Frozen: the threshold comes from the fit's predictions for validation records with twelve "
        "leads (of a probe: for training and validation records, each by heads fitted without its "
        "patient). Own: it comes from test records at that number of leads; each half of the "
        "patients is flagged by the threshold of the other half. Nobody has these labels when a "
        "device is first used, so own thresholds tell what could be had, not what would be.",
        "A threshold aims at 95 % and does not hit it: compare both columns. Intervals are over "
        "patients, the thresholds held fixed.",
        "Predictive values follow from sensitivity, specificity and the stated prevalence; "
        "predictive_values.csv has those at the test set's own prevalence too, negative ones, and "
        "their intervals, label by label.",
    ]


def _left_out(title: str, found: Sequence[Found]) -> Iterator[str]:
    """Which labels are in no mean, and why."""
    if rare := list(dict.fromkeys(n for of in found for n, o in of.items() if o.lacking)):
        yield too_rare(title, rare)
    for way in WAYS:
        reasons = {
            o.points[way]: None
            for of in found
            for n, o in of.items()
            if not o.lacking and isinstance(o.points[way], str)
        }
        if reasons:
            more = f" (and {len(reasons) - 1} more reasons)" if len(reasons) > 1 else ""
            yield (
                f"{title}: some labels have no threshold for {points(LEVEL, 0)} % {way.kept}, "
                f"{way.thresholds}: {next(iter(reasons))}{more}; see operating_points.csv."
            )


def _curves(
    name: str,
    title: str,
    own: Sequence[Line],
    averages: Sequence[Mapping[Way, Point]],
    heads: Sequence[Head],
) -> Iterator[Figure]:
    """Sensitivity and specificity by number of leads, where there are two numbers or more."""
    rows = [
        {**line.facts, "label": MEAN, **way.facts, **point.numbers}
        for line, of in zip(own, averages)
        if line.leads.isdigit()
        for way, point in of.items()
    ]
    if len({row["leads"] for row in rows}) < 2:
        return
    yield Figure(
        name=f"{name}_by_leads",
        draw=partial(_draw_curves, rows, heads),
        caption=(
            f"{title}: means over labels. Above: the threshold aims at 95 % specificity; below: at "
            f"95 % sensitivity. Solid: frozen on validation records with twelve leads. Dashed: "
            f"chosen at that number of leads, by cross-fitting. Bars: 95 % intervals over patients."
            + gone(line for line in own if line.leads.isdigit())
        ),
        size=(8.6, 7.2),
        numbers=Numbers(columns=POINT_COLUMNS, rows=rows, summary="the points of the figure"),
    )


def _draw_curves(rows: Sequence[Row], heads: Sequence[Head], sheet: "Sheet") -> list[Any]:
    axes = sheet.subplots(2, 2, squeeze=False)
    names = [head.names for head in heads]
    drawn = sorted({names.index((r["model"], r["policy"])) for r in rows})
    for across, kept in zip(axes, KEPT):
        for ax, rate in zip(across, BOTH):
            for place, at in enumerate(drawn):
                mine = [r for r in rows if (r["model"], r["policy"]) == names[at]]
                mine = [r for r in mine if r["kept"] == kept]
                shift = 2 ** (0.05 * (place - (len(drawn) - 1) / 2))
                for source in (FROZEN, OWN):
                    _line(ax, [r for r in mine if r["thresholds"] == source], rate, at, shift)
            lead_axis(ax, sorted({int(r["leads"]) for r in rows}))
            ax.set_title(f"{rate.capitalize()} × 100, {points(LEVEL, 0)} % {kept} wanted")
            if rate == kept:
                ax.axhline(100 * LEVEL, color="#999999", linewidth=1, linestyle=":", zorder=1)
    entries = [handle(legend(heads[at]), at) for at in drawn]
    return [*entries, handle("frozen"), handle("own", linestyle="--")]


def _line(ax: "Axes", rows: Sequence[Row], rate: str, at: int, shift: float) -> None:
    ordered = sorted(rows, key=lambda r: int(r["leads"]))
    style = {**look(at), "linewidth": 1.5, "markersize": 4.5, "zorder": 3}
    if ordered and ordered[0]["thresholds"] == OWN:
        style |= {"linestyle": "--", "markerfacecolor": "white"}
        shift *= 1.02
    else:
        style |= {"linestyle": "-"}
    for r in ordered:
        if r[f"{rate}_low"] is not None:
            x, low, high = int(r["leads"]) * shift, r[f"{rate}_low"], r[f"{rate}_high"]
            ax.plot([x, x], [100 * low, 100 * high], color=style["color"], linewidth=1, alpha=0.5)
    ax.plot([int(r["leads"]) * shift for r in ordered], [100 * r[rate] for r in ordered], **style)
