"""Operating points: what a threshold that was frozen on twelve leads gives at fewer leads, and what
one chosen at that number of leads would give; and decision curves, what flagging is worth.

Frozen: from the fit's predictions for validation records with twelve leads. Own: from test records
at that number of leads, by cross-fitting over patients: each half is flagged by the threshold of
the other. Both within each fold. Net benefit counts right flags, less wrong ones times the odds of
the threshold probability, at the prevalence of the test set; it takes probabilities as they are, so
that bad calibration costs. All label by label and as means over labels.
docs/explanation/calibration.md says how to read them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from ecgbench import reports as r
from ecgbench.reports import _predicted as predicted
from ecgbench.results.by_label import ENDS
from ecgbench.results.operating import (
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
from ecgbench.results.study import Run

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
        for column in predicted.with_ends(f"{name}_{of}".replace(" ", "_"))
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
    "docs/explanation/calibration.md says how thresholds are set."
)
VALIDATED = "frozen on validation records"
_WORTH = (
    "Net benefit is at the prevalence of the test set, and says nothing of a place where a label "
    "is rarer. "
    "decision_curves.csv has each label, and 95 % intervals over patients, for these fits."
)


def rows(study: Run) -> pd.DataFrame:
    """Of each label and row of the main table; none of a study made by hand."""
    return predicted.frame(study, Operating)


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """Thresholds, then net benefits; nothing of a study made by hand."""
    if rows.empty:
        return []
    each = list(predicted.by_task(study, rows))
    parts: list[r.Part] = [*_points(study, rows, each)]
    parts += [figure for title, end, own in each for figure in _curves(study, title, end, own)]
    title = "Operating points"
    title += ": thresholds of twelve leads at fewer" if _frozen(study) == FROZEN else ""
    first = r.Section(name="operating", page=False, title=title, short=CARD.title, parts=parts)
    rows = _benefits(predicted.frame(study, NetBenefit))
    each = list(predicted.by_task(study, rows))
    parts = [
        figure for title, end, own in each for figure in _benefit_figure(study, title, end, own)
    ]
    summary = "net benefit per record, by label and threshold probability"
    parts.append(r.Table(name="decision_curves", rows=rows[BENEFITS], summary=summary))
    rare = [text for title, _, own in each for text in predicted.too_rare(title, own)]
    parts.append(r.Notes([_WORTH, *rare]))
    title = "What flagging is worth"
    return [
        first,
        r.Section(name="decisions", page=False, title=title, short="Decision curves", parts=parts),
    ]


def _frozen(study: Run) -> str:
    """What the page calls frozen thresholds: of the leads that a fit was trained on. "" where that
    are twelve, and all settings are named leads: a device that measures one has no use for them.
    """
    if any(r.cell.fit.shown for r in study.results):
        return VALIDATED
    if not study.main["named"].all():
        return FROZEN
    few = all(data.fewer_leads == data.records for data in study.datasets)
    return VALIDATED if few else ""


def _points(study: Run, rows: pd.DataFrame, each: Sequence[Any]) -> Iterator[r.Table | r.Notes]:
    frame, frozen = _frame(rows), _frozen(study)
    frame["thresholds"] = frame["thresholds"].replace(FROZEN, frozen or FROZEN)
    shown = frame.loc[predicted.on_page(rows).index]
    shown = shown if frozen else shown[shown["thresholds"] == OWN]
    at = "with twelve leads" if frozen == FROZEN else "with the leads of their fit"
    how = f"thresholds frozen on validation records {at}, and " if frozen else ""
    task, *first = predicted.first_columns(study)
    notes = [_NOTES, *(text for title, _, own in each for text in _left_out(title, own))]
    yield r.Table(
        name="operating_points",
        caption=(
            f"Sensitivity and specificity × 100, means over labels: {how}thresholds chosen on test "
            f"records of these leads (own)."
            + " PPV: the predictive value where so many patients have the label."
            * bool(frozen)
        ),
        columns=[
            task,
            r.Column("kept", f"{r.points(LEVEL, 0)} % wanted of"),
            *first,
            r.Column("thresholds"),
            *(r.estimate_column(predicted.with_ends(x)) for x in RATES),
            *(
                r.Column(f"ppv_{p}", f"PPV, {100 * p:g} %", "number", r.points)
                for p in (PREVALENCES if frozen else ())
            ),
        ],
        rows=shown,
        notes=notes,
        numbers=frame,
        summary="one row per task, model, lead setting, label and threshold",
    )
    if not len(shown):
        yield r.Notes(notes)


def _frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of a question as the CSV file has them."""
    ways = [WAYS[key] for key in rows["key"]]
    rows = rows.assign(kept=[w.kept for w in ways], thresholds=[w.thresholds for w in ways])
    return (
        rows.assign(level=LEVEL)
        .rename(columns=lambda n: n.replace(" ", "_"))
        .reindex(columns=POINTS)
    )


def _left_out(title: str, own: pd.DataFrame) -> Iterator[str]:
    """Which labels are in no mean, and why."""
    yield from predicted.too_rare(title, own)
    for key, rows in predicted.unmet(own).groupby("key", sort=False):
        way = WAYS[str(key)]
        yield (
            f"{title}: some labels have no threshold for {r.points(LEVEL, 0)} % {way.kept}, "
            f"{way.thresholds}: {rows['reason'].iloc[0]}; see operating_points.csv."
        )


def _curves(study: Run, title: str, end: str, own: pd.DataFrame) -> Iterator[r.Figure]:
    """Sensitivity and specificity by number of leads, where there are two numbers or more."""
    own = own[(own["label"] == predicted.MEAN) & ~own["named"]]
    rows = _frame(own[own["status"] == "ok"])
    if rows["leads"].nunique() < 2:
        return
    yield r.Figure(
        name=f"operating_points{end}_by_leads",
        draw=partial(_draw_curves, study, rows),
        caption=(
            f"{title}: means over labels. Above: the threshold aims at 95 % specificity; below: "
            f"at 95 % sensitivity. Solid: frozen on validation records with twelve leads. Dashed: "
            f"chosen at that number of leads, by cross-fitting. Bars: 95 % intervals over patients."
            + predicted.missing(study, own)
        ),
        size=(8.6, 7.2),
        numbers=rows,
        summary="the points of the figure",
    )


def _draw_curves(study: Run, rows: pd.DataFrame, sheet: "Sheet") -> list[Any]:
    rows = rows.assign(number=rows["leads"].astype(int)).sort_values("number", kind="stable")
    drawn = predicted.by_column(study, rows)
    for kept, axes in zip(KEPT, sheet.subplots(2, 2, squeeze=False)):
        for rate, ax in zip(RATES, axes):
            for place, (at, own) in enumerate(drawn):
                shift = 2 ** (0.05 * (place - (len(drawn) - 1) / 2))
                for source in (FROZEN, OWN):
                    mine = own[(own["kept"] == kept) & (own["thresholds"] == source)]
                    x = mine["number"] * shift * (1.02 if source == OWN else 1)
                    values = mine[list(predicted.with_ends(rate))].mul(100).assign(x=x)
                    _line(ax, values, at, dashed=source == OWN)
            r.lead_axis(ax, sorted(set(rows["number"])))
            ax.set_title(f"{rate.capitalize()} × 100, {r.points(LEVEL, 0)} % {kept} wanted")
            if rate == kept:
                ax.axhline(100 * LEVEL, color=predicted.GREY, linestyle=":", zorder=1)
    frozen, own = r.handle("frozen"), r.handle("own", linestyle="--")
    return [*predicted.legend(study, drawn), frozen, own]


def _line(ax: "Axes", values: pd.DataFrame, at: int, dashed: bool) -> None:
    """values: a rate, the ends of its interval, x."""
    style = r.look(at) | {"linewidth": 1.5, "markersize": 4.5, "zorder": 3, "linestyle": "-"}
    if dashed:
        style |= {"linestyle": "--", "markerfacecolor": "white"}
    rate, low, high, x = values
    bars = values.dropna()
    ax.vlines(bars[x], bars[low], bars[high], color=style["color"], linewidth=1, alpha=0.5)
    ax.plot(values[x], values[rate], **style)


def _benefits(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the CSV file: each label at all threshold probabilities; once where it has no
    number.
    """
    numbers = ("prevalence", *predicted.with_ends("net_benefit"))
    rows = rows.reindex(columns=list(dict.fromkeys([*rows, *numbers])))
    chance, prevalence = rows["key"].astype(float), rows["prevalence"]
    known = rows["net_benefit"].notna()
    rows = rows.assign(
        place=rows.groupby(["row", "key"]).cumcount(),
        threshold_probability=chance.where(known),
        **{end[1:]: rows[f"net_benefit{end}"] for end in ENDS},
        flag_all=prevalence - (1 - prevalence) * chance / (1 - chance),
        flag_nobody=pd.Series(0.0, rows.index).where(known),
    )
    rows = rows[known | (rows["key"] == NetBenefit.keys[0])]
    return rows.sort_values(["row", "place"], kind="stable")


def _benefit_figure(study: Run, title: str, end: str, own: pd.DataFrame) -> Iterator[r.Figure]:
    """Decision curves of a task, at all leads and at the fewest."""
    leads = predicted.ends(own)
    own = own[own["leads"].isin(leads) & (own["label"] == predicted.MEAN)]
    rows = own[own["threshold_probability"].notna()]
    if rows.empty:
        return
    yield r.Figure(
        name=f"decision_curve{end}",
        draw=partial(_draw_benefits, study, rows, leads),
        caption=(
            f"{title}: net benefit per 100 records, mean over labels, at the prevalence of the "
            f"test set. A threshold probability of 10 % says that a right flag is worth nine wrong "
            f"ones. Grey: everybody is flagged; 0: nobody is." + predicted.missing(study, own)
        ),
        size=(1 + 3.9 * max(len(leads), 2), 4.4),
        numbers=rows[BENEFITS],
        summary="the points of the figure",
    )


def _draw_benefits(
    study: Run, rows: pd.DataFrame, leads: Sequence[str], sheet: "Sheet"
) -> list[Any]:
    drawn = predicted.by_column(study, rows)
    names = "threshold probability, %", "net benefit per 100 records"
    for ax, typed in zip(predicted.panels(sheet, leads, *names), leads):
        for at, every in drawn:
            own = every[every["leads"] == typed]
            chance = 100 * own["threshold_probability"]
            ax.plot(chance, 100 * own["net_benefit"], **{**r.look(at), "markersize": 4})
            ax.plot(chance, 100 * own["flag_all"], color=predicted.GREY, zorder=1)
        ax.axhline(0, color=predicted.GREY, linewidth=1, zorder=1)
        ax.set_ylim(bottom=100 * min(0.0, rows["net_benefit"].min()) - 1)
    return predicted.legend(study, drawn)
