"""Calibration: whether probabilities mean what they say, by number of leads.

Brier score, calibration slope and intercept, and the expected calibration error (ECE), label by
label and as a mean over labels; a diagram of bins of equal mass. Over lead draws and fits, numbers
are means. docs/calibration.md says how to read them.
"""

from collections.abc import Iterator, Sequence
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
    handle,
    look,
)
from ecgbench.reports._facts import Head, columns, setting_words, untrained_marks
from ecgbench.reports._predicted import (
    FACTS,
    MEAN,
    Line,
    OfTask,
    ends,
    formats,
    gone,
    legend,
    listed,
    none_known,
    nothing,
    of_label,
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
COUNTS = ("labels", "patients", "positives", "negatives")
COLUMNS = (
    *FACTS,
    *COUNTS,
    *(name + end for name in ESTIMATES for end in ("", *ENDS)),
    *(*ERRORS, "status", "reason"),
)
BIN_COLUMNS = (
    *FACTS,
    *("bin", "probability", "observed", "low", "high", "records", "patients"),
)


def sections(study: Study) -> list[Section]:
    """Tables and figures of all tasks; nothing of a study made by hand."""
    asked, heads = ByLabel(question=Calibration(), scorer=study.scorer), columns(study)
    made = list(tasks(study, asked))
    if not made:
        return []
    pieces = [
        partial(bins, asked, line.repeats, of.shared[KEY]) for of in made for line in _binned(of)
    ]
    ahead.each(study.scorer, study.stage, ("bins of probabilities", "rows"), pieces)
    table = [row for of in made for row in _spelled(of)]
    said = [text for of in made for text in _left_out(of)]
    parts: list[Part] = [
        _table(table, [row for of in made for row in _rows(of)], heads, said),
        *([] if table else [Notes(said)]),
        *(figure for of in made for figure in _figure(of, asked, heads)),
    ]
    title = "Whether probabilities mean what they say"
    return [Section(name="calibration", title=title, short=CARD.title, parts=parts)]


def _rows(of: OfTask) -> Iterator[Row]:
    """Of the CSV file: the mean, then the labels."""
    every = of.shared[KEY]
    for line, there, numbers in zip(of.lines, of.there, of.numbers):
        if there is None:
            yield {**line.facts, "label": MEAN}
            continue
        said = of_label(numbers[KEY], 0) if every else nothing(none_known())
        yield {**line.facts, "label": MEAN, "labels": len(every), **said}
        for place, (name, why) in enumerate(zip(there.names, there.unmet[KEY])):
            said = nothing(why) if why else of_label(numbers[KEY], place + 1)
            yield {**line.facts, "label": name, **there.counts(place), **said}


def _spelled(of: OfTask) -> Iterator[Row]:
    """Rows of the table on the page."""
    for line, numbers, on_page in zip(of.lines, of.numbers, of.on_page):
        row: dict[str, Any] = {"task": of.title, "leads": line.leads, "model": line.head.cell}
        row |= dict.fromkeys((*ESTIMATES, "ece", "chance"))
        if not on_page:
            continue
        if not line.repeats:
            yield row | {"labels": Cell(line.status)}
            continue
        mean = of_label(numbers[KEY], 0)
        row |= {name: _with_interval(mean, name, 3 if name == "brier" else 2) for name in ESTIMATES}
        row |= {"labels": len(of.shared[KEY])}
        yield row | {"ece": mean["ece"], "chance": mean["ece_by_chance"]}


def _with_interval(mean: Row, name: str, digits: int) -> str:
    low, high = mean[f"{name}_low"], mean[f"{name}_high"]
    text = f"{mean[name]:.{digits}f}"
    return text if low is None else f"{text} [{low:.{digits}f}, {high:.{digits}f}]"


def _table(
    rows: Sequence[Row], numbers: Sequence[Row], heads: Sequence[Head], said: Sequence[str]
) -> Table:
    three = "{:.3f}".format
    return Table(
        name="calibration",
        caption="Calibration by task and measured leads: means over labels, with 95 % intervals.",
        columns=[
            Column("task", "Task", "group"),
            Column("leads", "Leads", on_page=setting_words),
            Column("model", "Model"),
            Column("labels", "Labels", "number"),
            Column("brier", "Brier", note="0 is best"),
            Column("slope", "Slope", note="1 is right"),
            Column("intercept", "Intercept", note="0 is right"),
            Column("ece", "ECE", "number", three),
            Column("chance", "ECE by chance", "number", three),
        ],
        rows=rows,
        notes=[*_notes(), *said],
        marks=untrained_marks(heads),
        formats=formats(rows),
        numbers=Numbers(
            columns=COLUMNS, rows=numbers, summary="one row per task, model, lead setting and label"
        ),
    )


def _notes() -> list[str]:
    return [
        "Slope below 1: the probabilities are too extreme. Intercept below 0: they are too high as "
        "a whole. Brier score: the mean squared error of the probabilities.",
        f"ECE, the expected calibration error in {BINS} bins of equal mass, is biased upward in "
        f"small sets: ECE by chance is what right probabilities would show in these very "
        f"records.",
        "Means are over labels that have a number in every row of the task. Named leads and single "
        "labels stand in calibration.csv. Intervals are over patients, for these fits.",
    ]


def _left_out(of: OfTask) -> Iterator[str]:
    """Which labels are in no mean, and why."""
    yield from of.too_rare
    if ordered := [name for name, why in of.left_out(KEY).items() if why == ORDERED]:
        yield f"{of.title}: left out {listed(ordered)}: in some row {ORDERED}."


def _figure(of: OfTask, asked: ByLabel, heads: Sequence[Head]) -> Iterator[Figure]:
    """The diagram of a task, at all leads and at the fewest."""
    typed = ends(of.lines)
    points = [point for line in _binned(of) for point in _bins(line, asked, of.shared[KEY])]
    if not points:
        return
    yield Figure(
        name=of.file("reliability"),
        draw=partial(_draw, [p for p in points if p["label"] == POOLED], typed, heads),
        caption=(
            f"{of.title}: the share of records that have a label against the probability that was "
            f"predicted, in {BINS} bins of equal mass; all labels, lead draws and fits together. "
            f"On the line, probabilities mean what they say. Bars: 95 % intervals over patients."
            + gone(line for line in of.lines if line.leads in typed)
        ),
        size=(1 + 3.9 * max(len(typed), 2), 4.9),
        numbers=Numbers(columns=BIN_COLUMNS, rows=points, summary="bins of equal mass, by label"),
    )


def _binned(of: OfTask) -> list[Line]:
    """Lines that have bins."""
    return [
        one for leads in ends(of.lines) for one in of.lines if one.leads == leads and one.repeats
    ]


def _bins(line: Line, asked: ByLabel, names: Sequence[str]) -> Iterator[Row]:
    for row in bins(asked, line.repeats, names):
        yield {**line.facts, **row}


def _draw(
    points: Sequence[Row], typed: Sequence[str], heads: Sequence[Head], sheet: "Sheet"
) -> list[Any]:
    axes = sheet.subplots(1, len(typed), squeeze=False, sharey=True)[0]
    names = [head.names for head in heads]
    drawn = sorted({names.index((p["model"], p["policy"])) for p in points})
    for ax, leads in zip(axes, typed):
        ax.plot([0, 100], [0, 100], color="#999999", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        for at in drawn:
            mine = [
                p for p in points if p["leads"] == leads and (p["model"], p["policy"]) == names[at]
            ]
            style = look(at)
            for p in mine:
                x = 100 * p["probability"]
                if p["low"] is not None:
                    low, high = 100 * p["low"], 100 * p["high"]
                    ax.plot([x, x], [low, high], color=style["color"], linewidth=1.1, alpha=0.6)
            ax.plot(
                [100 * p["probability"] for p in mine],
                [100 * p["observed"] for p in mine],
                **{**style, "linewidth": 1.5, "markersize": 4.5, "zorder": 3},
            )
        ax.set_title(setting_words(leads))
        ax.set_xlabel("predicted probability, %")
    axes[0].set_ylabel("records that have the label, %")
    return [handle(legend(heads[at]), at) for at in drawn]
