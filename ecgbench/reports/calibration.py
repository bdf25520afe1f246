"""Calibration: whether probabilities mean what they say, by number of leads.

Brier score, calibration slope and intercept, and the expected calibration error (ECE), label by
label and as a mean over labels; a diagram of bins of equal mass. Over lead draws and fits, numbers
are means. docs/explanation/calibration.md says how to read them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from ecgbench import reports as r
from ecgbench.reports import _predicted as predicted
from ecgbench.results import precompute
from ecgbench.results.by_label import repeats_of
from ecgbench.results.calibration import ERRORS, ESTIMATES, ORDERED, POOLED, Calibration, bins
from ecgbench.results.study import Run
from ecgbench.stats.calibration import BINS

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = r.ReportCard(
    title="Calibration",
    summary="whether probabilities mean what they say, by number of leads",
    reads="run",
    order=62,
)
COLUMNS = (
    *(*predicted.FACTS, *predicted.COUNTS),
    *(column for name in ESTIMATES for column in predicted.with_ends(name)),
    *(*ERRORS, "status", "reason"),
)
BIN_COLUMNS = [
    *(*predicted.FACTS, "bin", "probability", "observed", "low", "high", "records", "patients")
]
_NOTES = (
    f"ECE: the expected calibration error in {BINS} bins of equal mass; by chance: what right "
    "probabilities would show in these very records. Means are over labels that have a number in "
    "every row of the task; calibration.csv has single labels and named leads too. Intervals are "
    "over patients, for these fits. docs/explanation/calibration.md says how to read them."
)


def rows(study: Run) -> pd.DataFrame:
    """Of each label and row of the main table; none of a study made by hand."""
    return predicted.frame(study, Calibration)


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """A table of all tasks, and a figure of each; nothing of a study made by hand."""
    if rows.empty:
        return []
    each = list(predicted.by_task(study, rows))
    shown = [_shown(own) for _, _, own in each]
    pieces = [
        partial(bins, repeats_of(study.finished[_names(row)]), labels)
        for rows_of, labels in shown
        for row in rows_of
    ]
    called = "bins of probabilities", "rows"
    found = iter(precompute.each(study.scorer, study.stage, called, pieces))
    points = [[row | one for row in rows_of for one in next(found)] for rows_of, _ in shown]
    notes = [_NOTES]
    for title, _, own in each:
        notes += predicted.too_rare(title, own)
        if labels := predicted.unmet(own)["label"].unique().tolist():
            notes.append(f"{title}: left out {predicted.listed(labels)}: in some row {ORDERED}.")
    table = _table(study, rows, notes)
    figures = [figure for one, own in zip(each, points) for figure in _figure(study, *one, own)]
    parts: list[r.Part] = [table]
    parts += [replace(figure, page=place == 0) for place, figure in enumerate(figures)]
    title = "Whether probabilities mean what they say"
    return [r.Section(name="calibration", title=title, short=CARD.title, parts=parts)]


def _table(study: Run, rows: pd.DataFrame, notes: Sequence[str]) -> r.Table:
    three, two = "{:.3f}".format, "{:.2f}".format
    frame = rows.reindex(columns=COLUMNS)
    return r.Table(
        name="calibration",
        caption="Calibration by task and measured leads: means over labels, with 95 % intervals.",
        columns=[
            *predicted.first_columns(study),
            r.estimate_column(predicted.with_ends("brier"), three, "0 is best"),
            r.estimate_column(predicted.with_ends("slope"), two, "1 is right"),
            r.estimate_column(predicted.with_ends("intercept"), two, "0 is right"),
            r.Column("ece", kind="number", spell=three),
            r.Column("ece_by_chance", kind="number", spell=three),
        ],
        rows=frame.loc[predicted.on_page(rows).index],
        notes=notes,
        numbers=frame,
        summary="one row per task, model, lead setting and label",
        formats=("csv", "md", "tex"),
    )


def _names(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return row["task"], row["model"], row["policy"], row["leads"]


def _shown(own: pd.DataFrame) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a task at all leads and at the fewest, and the labels that have bins."""
    single = own[own["label"] != predicted.MEAN]
    met = single["status"].eq("ok").groupby(single["label"], sort=False).all()
    means = own[(own["label"] == predicted.MEAN) & predicted.scored(own)]
    every = (r.records(means[means["leads"] == typed]) for typed in predicted.ends(own))
    return [row for some in every for row in some], list(met.index[met])


def _figure(
    study: Run, title: str, end: str, own: pd.DataFrame, found: Sequence[Any]
) -> Iterator[r.Figure]:
    """The diagram of a task, at all leads and at the fewest."""
    points = pd.DataFrame(found)
    if points.empty:
        return
    leads = predicted.ends(own)
    drawn = points[points["label"] == POOLED]
    yield r.Figure(
        name=f"reliability{end}",
        draw=partial(_draw, study, drawn, leads),
        caption=(
            f"{title}: the share of records that have a label against the probability that was "
            f"predicted, in {BINS} bins of equal mass; all labels, lead draws and fits together. "
            f"On the line, probabilities mean what they say. Bars: 95 % intervals over patients."
            + predicted.missing(study, own[own["leads"].isin(leads)])
        ),
        size=(1 + 3.9 * max(len(leads), 2), 4.9),
        numbers=points[BIN_COLUMNS],
        summary="bins of equal mass, by label",
    )


def _draw(study: Run, points: pd.DataFrame, leads: Sequence[str], sheet: "Sheet") -> list[Any]:
    drawn = predicted.by_column(study, points)
    names = "predicted probability, %", "records that have the label, %"
    for ax, typed in zip(predicted.panels(sheet, leads, *names), leads):
        ax.plot([0, 100], [0, 100], color=predicted.GREY, linestyle=(0, (4, 3)), zorder=1)
        for at, every in drawn:
            own = every[every["leads"] == typed].set_index("probability")[
                ["observed", "low", "high"]
            ]
            own, style = 100 * own, r.look(at) | {"linewidth": 1.5, "markersize": 4.5, "zorder": 3}
            bars, thin = own.dropna(), {"color": style["color"], "linewidth": 1.1, "alpha": 0.6}
            ax.vlines(100 * bars.index, bars["low"], bars["high"], **thin)
            ax.plot(100 * own.index, own["observed"], **style)
    return predicted.legend(study, drawn)
