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
from ecgbench.reports._facts import Head, columns, setting_words, untrained_marks
from ecgbench.reports._predicted import (
    FACTS,
    MEAN,
    OfTask,
    formats,
    gone,
    legend,
    none_known,
    nothing,
    of_label,
    tasks,
)
from ecgbench.results.by_label import ENDS, ByLabel, Columns, There
from ecgbench.results.operating import (
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
    Operating,
    Way,
)
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Operating points",
    summary="sensitivity and specificity at thresholds frozen on twelve leads, by number of leads",
    reads="run",
    order=64,
)
COUNTS = ("labels", "patients", "positives", "negatives")
POINT_COLUMNS = (
    *(*FACTS, "kept", "level", "thresholds", *COUNTS, "threshold"),
    *(name + end for name in RATES for end in ("", *ENDS)),
    *("status", "reason"),
)
VALUE_COLUMNS = (
    *(*FACTS, "kept", "level", "thresholds", "prevalence_of", "prevalence"),
    *(name + end for name in VALUES for end in ("", *ENDS)),
)


def sections(study: Study) -> list[Section]:
    """Tables and figures of all tasks; nothing of a study made by hand."""
    asked, heads = ByLabel(question=Operating(), scorer=study.scorer), columns(study)
    made = list(tasks(study, asked))
    if not made:
        return []
    table = [row for of in made for row in _spelled(of)]
    said = [text for of in made for text in _left_out(of)]
    rows = [row for of in made for row in _points(of)]
    values = [row for of in made for row in _values(of)]
    parts: list[Part] = [
        *_tables(table, rows, values, heads, said),
        *([] if table else [Notes(said)]),
        *(figure for of in made for figure in _curves(of, heads)),
    ]
    title = "Operating points: thresholds of twelve leads at fewer"
    return [Section(name="operating", title=title, short=CARD.title, parts=parts)]


By = Mapping[str, Columns]
"""Numbers by `Way.key`."""
OF_RATES = ("threshold", *(name + end for name in RATES for end in ("", *ENDS)))


def _points(of: OfTask) -> Iterator[Row]:
    """Of the CSV file."""
    for line, there, numbers in zip(of.lines, of.there, of.numbers):
        for way in WAYS:
            row = {**line.facts, "label": MEAN, **way.facts}
            if there is None:
                yield row
                continue
            mean = _mean(of, numbers, way)
            every = of.shared[way.key]
            yield {**row, **({"labels": len(every), **mean} if mean else nothing(_why(there, way)))}
            for place, (name, why) in enumerate(zip(there.names, there.unmet[way.key])):
                row = {**line.facts, "label": name, **way.facts, **there.counts(place)}
                yield {**row, **(nothing(why) if why else _rates(numbers, way, place + 1))}


def _rates(numbers: By, way: Way, place: int) -> Row:
    made = of_label(numbers[way.key], place)
    return {name: made[name] for name in OF_RATES}


def _mean(of: OfTask, numbers: By, way: Way) -> Row | None:
    """Of the labels that every row has; None where this row has not all of them."""
    if not of.shared[way.key] or not numbers.get(way.key):
        return None
    made = _rates(numbers, way, 0)
    return made if made[RATES[0]] is not None else None


def _why(there: There, way: Way) -> str:
    """Why no label has a number."""
    reasons = [w for w, rare in zip(there.unmet[way.key], there.lacking) if w and not rare]
    return reasons[0] if reasons else none_known()


def _values(of: OfTask) -> Iterator[Row]:
    """Predictive values of each label at the frozen thresholds."""
    for line, there, numbers in zip(of.lines, of.there, of.numbers):
        if there is None:
            continue
        for kept in KEPT:
            way = Way(kept, FROZEN)
            for place, (name, why) in enumerate(zip(there.names, there.unmet[way.key])):
                if why:
                    continue
                made = of_label(numbers[way.key], place + 1)
                for stated in OF_PREVALENCE:
                    own = stated == TEST_SET
                    yield {
                        **line.facts,
                        "label": name,
                        **way.facts,
                        "prevalence_of": TEST_SET if own else "stated",
                        "prevalence": there.prevalence(name) if own else float(stated),
                        **{
                            v + end: made[f"{v} {stated}{end}"]
                            for v in VALUES
                            for end in ("", *ENDS)
                        },
                    }


def _spelled(of: OfTask) -> Iterator[Row]:
    """Rows of the table on the page."""
    for line, numbers, on_page in zip(of.lines, of.numbers, of.on_page):
        for kept in KEPT if on_page else ():
            labels = len(of.shared[Way(kept, FROZEN).key])
            row: dict[str, Any] = {
                "task": of.title,
                "kept": f"{points(LEVEL, 0)} % {kept}",
                "leads": line.leads,
                "model": line.head.cell,
                "labels": labels if line.repeats else Cell(line.status),
            }
            for source, name in ((FROZEN, "frozen"), (OWN, "own")):
                mean = _mean(of, numbers, Way(kept, source))
                row |= {f"{name}_{rate}": mean and _with_interval(mean, rate) for rate in RATES}
            frozen = numbers.get(Way(kept, FROZEN).key) or {}
            row |= {f"ppv{p}": frozen.get(f"ppv {p}", [None])[0] for p in PREVALENCES}
            yield row


def _with_interval(mean: Row, rate: str) -> str:
    low, high = mean[f"{rate}_low"], mean[f"{rate}_high"]
    return f"{points(mean[rate])} {bracket(low, high)}".strip()


def _tables(
    rows: Sequence[Row],
    of_points: Sequence[Row],
    of_values: Sequence[Row],
    heads: Sequence[Head],
    said: Sequence[str],
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
                for name in RATES
            ),
        ],
        rows=rows,
        notes=[*_notes(), *said],
        marks=marks,
        formats=formats(rows),
        numbers=Numbers(
            columns=POINT_COLUMNS,
            rows=of_points,
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
            rows=of_values,
            summary="predictive values of each label at a prevalence, at frozen thresholds",
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


def _left_out(of: OfTask) -> Iterator[str]:
    """Which labels are in no mean, and why."""
    yield from of.too_rare
    rare = {n for t in of.there if t for n, why in zip(t.names, t.lacking) if why}
    for way in WAYS:
        reasons = dict.fromkeys(w for n, w in of.left_out(way.key).items() if n not in rare)
        if reasons:
            more = f" (and {len(reasons) - 1} more reasons)" if len(reasons) > 1 else ""
            yield (
                f"{of.title}: some labels have no threshold for {points(LEVEL, 0)} % {way.kept}, "
                f"{way.thresholds}: {next(iter(reasons))}{more}; see operating_points.csv."
            )


def _curves(of: OfTask, heads: Sequence[Head]) -> Iterator[Figure]:
    """Sensitivity and specificity by number of leads, where there are two numbers or more."""
    rows = [
        {**line.facts, "label": MEAN, **way.facts, **mean}
        for line, numbers in zip(of.lines, of.numbers)
        if line.leads.isdigit()
        for way in WAYS
        if (mean := _mean(of, numbers, way))
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
            + gone(line for line in of.lines if line.leads.isdigit())
        ),
        size=(8.6, 7.2),
        numbers=Numbers(columns=POINT_COLUMNS, rows=rows, summary="the points of the figure"),
    )


def _draw_curves(rows: Sequence[Row], heads: Sequence[Head], sheet: "Sheet") -> list[Any]:
    axes = sheet.subplots(2, 2, squeeze=False)
    names = [head.names for head in heads]
    drawn = sorted({names.index((r["model"], r["policy"])) for r in rows})
    for across, kept in zip(axes, KEPT):
        for ax, rate in zip(across, RATES):
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
