"""Calibration: whether probabilities mean what they say, by number of leads.

Brier score, calibration slope and intercept, and the expected calibration error (ECE), label by
label and as a mean over labels; a diagram of bins of equal mass. Over lead draws and fits, numbers
are means. docs/calibration.md says how to read them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from ecgbench import reports as r
from ecgbench.reports import _facts as facts
from ecgbench.reports import _predicted as predicted
from ecgbench.reports._predicted import OfTask
from ecgbench.results import precompute
from ecgbench.results.by_label import ByLabel
from ecgbench.results.calibration import (
    ERRORS,
    ESTIMATES,
    KEY,
    ORDERED,
    POOLED,
    Calibration,
    bins,
)
from ecgbench.results.study import Study
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
    "over patients, for these fits. docs/calibration.md says how to read them."
)


def sections(study: Study) -> list[r.Section]:
    """A table of all tasks, and a figure of each; nothing of a study made by hand."""
    wanted = ByLabel(question=Calibration(), scorer=study.scorer)
    made = predicted.tasks(study, wanted)
    if not made:
        return []
    pieces = [
        partial(bins, wanted, line.repeats, of.shared[KEY])
        for of in made
        for line in of.at(of.ends)
    ]
    precompute.each(study.scorer, study.stage, ("bins of probabilities", "rows"), pieces)
    notes = [_NOTES, *(text for of in made for text in _left_out(of))]
    table = _table(study, made, notes)
    parts: list[r.Part] = [table, *([] if table.rows else [r.Notes(notes)])]
    parts += [figure for of in made for figure in _figure(study, of, wanted)]
    title = "Whether probabilities mean what they say"
    return [r.Section(name="calibration", title=title, short=CARD.title, parts=parts)]


def _table(study: Study, made: Sequence[OfTask], notes: Sequence[str]) -> r.Table:
    three, two = "{:.3f}".format, "{:.2f}".format
    rows = [row for of in made for line in of.lines for row in of.rows(line, KEY)]
    frame = pd.DataFrame(rows, columns=COLUMNS, dtype=object)
    return r.Table(
        name="calibration",
        caption="Calibration by task and measured leads: means over labels, with 95 % intervals.",
        columns=[
            *predicted.first_columns(study),
            facts.estimate_column("Brier", predicted.with_ends("brier"), three, "0 is best"),
            facts.estimate_column("Slope", predicted.with_ends("slope"), two, "1 is right"),
            facts.estimate_column("Intercept", predicted.with_ends("intercept"), two, "0 is right"),
            r.Column("ece", "ECE", "number", three),
            r.Column("ece_by_chance", "ECE by chance", "number", three),
        ],
        rows=predicted.on_page(made, frame),
        notes=notes,
        numbers=frame,
        summary="one row per task, model, lead setting and label",
    )


def _left_out(of: OfTask) -> Iterator[str]:
    """Which labels are in no mean, and why."""
    yield from of.too_rare
    if ordered := list(of.left_out(KEY)):
        yield f"{of.title}: left out {predicted.listed(ordered)}: in some row {ORDERED}."


def _figure(study: Study, of: OfTask, wanted: ByLabel) -> Iterator[r.Figure]:
    """The diagram of a task, at all leads and at the fewest."""
    points = [
        {**line.facts, **row}
        for line in of.at(of.ends)
        for row in bins(wanted, line.repeats, of.shared[KEY])
    ]
    if not points:
        return
    drawn = [point for point in points if point["label"] == POOLED]
    yield r.Figure(
        name=of.file("reliability"),
        draw=partial(_draw, drawn, of.ends, facts.columns(study)),
        caption=(
            f"{of.title}: the share of records that have a label against the probability that was "
            f"predicted, in {BINS} bins of equal mass; all labels, lead draws and fits together. "
            f"On the line, probabilities mean what they say. Bars: 95 % intervals over patients."
            + predicted.gone(line for line in of.lines if line.leads in of.ends)
        ),
        size=(1 + 3.9 * max(len(of.ends), 2), 4.9),
        numbers=pd.DataFrame(points, dtype=object)[BIN_COLUMNS],
        summary="bins of equal mass, by label",
    )


def _draw(
    points: Sequence[r.Row], leads: Sequence[str], heads: Sequence[facts.Head], sheet: "Sheet"
) -> list[Any]:
    drawn = predicted.by_column(points, heads)
    names = "predicted probability, %", "records that have the label, %"
    for ax, typed in zip(predicted.panels(sheet, leads, *names), leads):
        ax.plot([0, 100], [0, 100], color=predicted.GREY, linestyle=(0, (4, 3)), zorder=1)
        for at, own in drawn:
            mine = [p for p in own if p["leads"] == typed]
            style = r.look(at) | {"linewidth": 1.5, "markersize": 4.5, "zorder": 3}
            for p in (p for p in mine if p["low"] is not None):
                x, reach = 100 * p["probability"], [100 * p["low"], 100 * p["high"]]
                ax.plot([x, x], reach, color=style["color"], linewidth=1.1, alpha=0.6)
            across, up = ([100 * p[name] for p in mine] for name in ("probability", "observed"))
            ax.plot(across, up, **style)
    return predicted.legend(heads, drawn)
