"""Calibration: whether probabilities mean what they say, by number of leads.

Brier score, calibration slope and intercept, and the expected calibration error (ECE), label by
label and as a mean over labels; a diagram of bins of equal mass. Over lead draws and fits, numbers
are means. docs/calibration.md says how to read them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

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
    look,
)
from ecgbench.reports._facts import Head, columns, untrained_marks
from ecgbench.reports._predicted import (
    COUNTS,
    FACTS,
    FIRST,
    GREY,
    MEAN,
    OfTask,
    begun,
    by_column,
    formats,
    gone,
    legend,
    listed,
    panels,
    tasks,
)
from ecgbench.results import ahead
from ecgbench.results.by_label import ENDS, ByLabel
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

CARD = ReportCard(
    title="Calibration",
    summary="whether probabilities mean what they say, by number of leads",
    reads="run",
    order=62,
)
COLUMNS = (
    *(*FACTS, *COUNTS),
    *(name + end for name in ESTIMATES for end in ("", *ENDS)),
    *(*ERRORS, "status", "reason"),
)
BIN_COLUMNS = (*FACTS, "bin", "probability", "observed", "low", "high", "records", "patients")


def sections(study: Study) -> list[Section]:
    """A table of all tasks, and a figure of each; nothing of a study made by hand."""
    wanted, heads = ByLabel(question=Calibration(), scorer=study.scorer), columns(study)
    made = tasks(study, wanted)
    if not made:
        return []
    pieces = [
        partial(bins, wanted, line.repeats, of.shared[KEY])
        for of in made
        for line in of.at(of.ends)
    ]
    ahead.each(study.scorer, study.stage, ("bins of probabilities", "rows"), pieces)
    notes = [text for of in made for text in _left_out(of)]
    table = _table(made, heads, notes)
    parts: list[Part] = [table, *([] if table.rows else [Notes(notes)])]
    parts += [figure for of in made for figure in _figure(of, wanted, heads)]
    title = "Whether probabilities mean what they say"
    return [Section(name="calibration", title=title, short=CARD.title, parts=parts)]


def _spelled(of: OfTask) -> Iterator[Row]:
    """Rows of the table on the page."""
    for line in of.on_page:
        mean = of.mean(line, KEY) or dict.fromkeys(ERRORS)
        values = dict.fromkeys(ESTIMATES) | {
            name: _with_interval(mean, name) for name in ESTIMATES if name in mean
        }
        yield begun(of, line, KEY) | values | {name: mean[name] for name in ERRORS}


def _with_interval(mean: Row, name: str) -> str:
    digits = 3 if name == "brier" else 2
    low, high = (mean[name + end] for end in ENDS)
    text = f"{mean[name]:.{digits}f}"
    return text if low is None else f"{text} [{low:.{digits}f}, {high:.{digits}f}]"


def _table(made: Sequence[OfTask], heads: Sequence[Head], notes: Sequence[str]) -> Table:
    three = "{:.3f}".format
    rows = [row for of in made for row in _spelled(of)]
    return Table(
        name="calibration",
        caption="Calibration by task and measured leads: means over labels, with 95 % intervals.",
        columns=[
            *FIRST,
            Column("brier", "Brier", note="0 is best"),
            Column("slope", "Slope", note="1 is right"),
            Column("intercept", "Intercept", note="0 is right"),
            Column("ece", "ECE", "number", three),
            Column("ece_by_chance", "ECE by chance", "number", three),
        ],
        rows=rows,
        notes=[
            "Slope below 1: the probabilities are too extreme. Intercept below 0: they are too "
            "high as a whole. Brier score: their mean squared error.",
            f"ECE, the expected calibration error in {BINS} bins of equal mass, is biased upward "
            f"in small sets: ECE by chance is what right probabilities would show in these very "
            f"records.",
            "Means are over labels that have a number in every row of the task. Named leads and "
            "single labels stand in calibration.csv. Intervals are over patients, for these fits.",
            *notes,
        ],
        marks=untrained_marks(heads),
        formats=formats(rows),
        numbers=Numbers(
            columns=COLUMNS,
            rows=[row for of in made for row in _numbers(of)],
            summary="one row per task, model, lead setting and label",
        ),
    )


def _numbers(of: OfTask) -> Iterator[Row]:
    """Rows of the CSV file."""
    for line in of.lines:
        for row in of.rows(line, KEY):
            mean = line.there is not None and row["label"] == MEAN
            yield row | {"labels": len(of.shared[KEY])} if mean else row


def _left_out(of: OfTask) -> Iterator[str]:
    """Which labels are in no mean, and why."""
    yield from of.too_rare
    if ordered := list(of.left_out(KEY)):
        yield f"{of.title}: left out {listed(ordered)}: in some row {ORDERED}."


def _figure(of: OfTask, wanted: ByLabel, heads: Sequence[Head]) -> Iterator[Figure]:
    """The diagram of a task, at all leads and at the fewest."""
    points = [
        {**line.facts, **row}
        for line in of.at(of.ends)
        for row in bins(wanted, line.repeats, of.shared[KEY])
    ]
    if not points:
        return
    yield Figure(
        name=of.file("reliability"),
        draw=partial(_draw, [p for p in points if p["label"] == POOLED], of.ends, heads),
        caption=(
            f"{of.title}: the share of records that have a label against the probability that was "
            f"predicted, in {BINS} bins of equal mass; all labels, lead draws and fits together. "
            f"On the line, probabilities mean what they say. Bars: 95 % intervals over patients."
            + gone(line for line in of.lines if line.leads in of.ends)
        ),
        size=(1 + 3.9 * max(len(of.ends), 2), 4.9),
        numbers=Numbers(columns=BIN_COLUMNS, rows=points, summary="bins of equal mass, by label"),
    )


def _draw(
    points: Sequence[Row], leads: Sequence[str], heads: Sequence[Head], sheet: "Sheet"
) -> list[Any]:
    drawn = by_column(points, heads)
    axes = panels(sheet, leads, "predicted probability, %", "records that have the label, %")
    for ax, typed in zip(axes, leads):
        ax.plot([0, 100], [0, 100], color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        for at, own in drawn:
            mine = [p for p in own if p["leads"] == typed]
            style = look(at) | {"linewidth": 1.5, "markersize": 4.5, "zorder": 3}
            for p in (p for p in mine if p["low"] is not None):
                x, reach = 100 * p["probability"], [100 * p["low"], 100 * p["high"]]
                ax.plot([x, x], reach, color=style["color"], linewidth=1.1, alpha=0.6)
            ax.plot(
                [100 * p["probability"] for p in mine], [100 * p["observed"] for p in mine], **style
            )
    return legend(heads, drawn)
