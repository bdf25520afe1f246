"""Decision curves: what flagging by a model is worth, by number of leads.

Net benefit counts right flags, less wrong ones times the odds of the threshold probability: who
acts at 10 % takes nine wrong flags for one right one. It is at the prevalence of the test set, and
takes probabilities as they are, so that bad calibration costs. docs/calibration.md says more.
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
    handle,
    look,
    points,
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
    none_known,
    nothing,
    of_label,
    tasks,
)
from ecgbench.results.by_label import ByLabel, Columns, There
from ecgbench.results.operating import CHANCES, NetBenefit
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Decision curves",
    summary="net benefit at stated threshold probabilities, by number of leads",
    reads="run",
    order=66,
)
ON_PAGE = (0.05, 0.1, 0.2)
COLUMNS = (
    *(*FACTS, "labels", "threshold_probability", "prevalence"),
    *("net_benefit", "low", "high", "flag_all", "flag_nobody", "status", "reason"),
)


def sections(study: Study) -> list[Section]:
    """A table and a figure per task; nothing of a study made by hand."""
    asked, heads = ByLabel(question=NetBenefit(), scorer=study.scorer), columns(study)
    table: list[Row] = []
    rows: list[Row] = []
    figures: list[Figure] = []
    said: list[str] = []
    made = list(tasks(study, asked))
    if not made:
        return []
    for of in made:
        means = [list(_mean(*row, of)) for row in zip(of.lines, of.there, of.numbers)]
        for line, there, numbers, mean in zip(of.lines, of.there, of.numbers, means):
            rows += [*mean, *_single(line, there, numbers)]
        table += [
            _spelled(of.title, line, mean)
            for line, mean, on_page in zip(of.lines, means, of.on_page)
            if on_page
        ]
        said += of.too_rare
        drawn = [row for mean in means for row in mean if "net_benefit" in row]
        figures += _figure(of.file("decision_curve"), of.title, drawn, of.lines, heads)
    parts: list[Part] = [
        _table(table, rows, heads, said),
        *([] if table else [Notes(said)]),
        *figures,
    ]
    return [
        Section(name="decisions", title="What flagging is worth", short=CARD.title, parts=parts)
    ]


By = Mapping[str, Columns]
"""Numbers by threshold probability."""


def _mean(line: Line, there: There | None, numbers: By, of: OfTask) -> Iterator[Row]:
    """Rows of the mean over labels."""
    every = of.shared[str(CHANCES[0])]
    if there is None or not every:
        yield {**line.facts, "label": MEAN, **(nothing(none_known()) if there else {})}
        return
    prevalence = float(np.mean([there.prevalence(name) for name in every]))
    for chance in CHANCES:
        row = _row(line, MEAN, chance, prevalence, numbers, 0)
        yield {"labels": len(every), **row}


def _single(line: Line, there: There | None, numbers: By) -> Iterator[Row]:
    """Rows of each label."""
    if there is None:
        return
    for place, name in enumerate(there.names):
        if there.lacking[place]:
            yield {**line.facts, "label": name, **nothing(there.lacking[place])}
            continue
        prevalence = there.prevalence(name)
        for chance in CHANCES:
            yield _row(line, name, chance, prevalence, numbers, place + 1)


def _row(line: Line, name: str, chance: float, prevalence: float, numbers: By, place: int) -> Row:
    made = of_label(numbers[str(chance)], place)
    return {
        **line.facts,
        "label": name,
        "threshold_probability": chance,
        "prevalence": prevalence,
        "net_benefit": made["net_benefit"],
        "low": made["net_benefit_low"],
        "high": made["net_benefit_high"],
        "flag_all": prevalence - (1 - prevalence) * chance / (1 - chance),
        "flag_nobody": 0.0,
    }


def _spelled(title: str, line: Line, average: Sequence[Row]) -> Row:
    """A row of the table on the page."""
    known = {row["threshold_probability"]: row for row in average if "net_benefit" in row}
    labels: Any = next((row["labels"] for row in known.values()), 0)
    row: dict[str, Any] = {"task": title, "leads": line.leads, "model": line.head.cell}
    row["labels"] = labels if line.repeats else Cell(line.status)
    for chance in ON_PAGE:
        there = known.get(chance)
        row[f"at{chance}"] = there and _with_interval(there)
        row[f"all{chance}"] = there and there["flag_all"]
    return row


def _points(value: float) -> str:
    """x 100; what rounds to nothing has no sign."""
    text = points(value)
    return text if float(text) else "0.0"


def _with_interval(row: Row) -> str:
    text = _points(row["net_benefit"])
    if row["low"] is None:
        return text
    return f"{text} [{_points(row['low'])}, {_points(row['high'])}]"


def _table(
    rows: Sequence[Row], numbers: Sequence[Row], heads: Sequence[Head], said: Sequence[str]
) -> Table:
    return Table(
        name="decision_curves",
        caption=(
            "Net benefit per 100 records by task and measured leads: means over labels, with 95 % "
            "intervals, at three threshold probabilities."
        ),
        columns=[
            Column("task", "Task", "group"),
            Column("leads", "Leads", on_page=setting_words),
            Column("model", "Model"),
            Column("labels", "Labels", "number"),
            *(
                column
                for c in ON_PAGE
                for column in (
                    Column(f"at{c}", f"at {100 * c:g} %"),
                    Column(f"all{c}", "all flagged", "number", _points),
                )
            ),
        ],
        rows=rows,
        notes=[
            "At 10 %, one right flag is worth nine wrong ones. All flagged: the net benefit of "
            "flagging every record; flagging nobody has 0. Net benefit is at the prevalence of the "
            "test set; it says nothing of a place where a label is rarer. Intervals are over "
            "patients, for these fits.",
            *said,
        ],
        marks=untrained_marks(heads),
        formats=formats(rows),
        numbers=Numbers(
            columns=COLUMNS,
            rows=numbers,
            summary="net benefit per record, by label and threshold probability",
        ),
    )


def _figure(
    name: str, title: str, rows: Sequence[Row], own: Sequence[Line], heads: Sequence[Head]
) -> Iterator[Figure]:
    """Decision curves of a task, at all leads and at the fewest."""
    typed = ends(own)
    rows = [row for row in rows if row["leads"] in typed]
    if not rows:
        return
    yield Figure(
        name=name,
        draw=partial(_draw, rows, typed, heads),
        caption=(
            f"{title}: net benefit per 100 records, mean over labels, at the prevalence of the "
            f"test set. A threshold probability of 10 % says that a right flag is worth nine wrong "
            f"ones. Grey: everybody is flagged; 0: nobody is."
            + gone(line for line in own if line.leads in typed)
        ),
        size=(1 + 3.9 * max(len(typed), 2), 4.4),
        numbers=Numbers(columns=COLUMNS, rows=rows, summary="the points of the figure"),
    )


def _draw(
    rows: Sequence[Row], typed: Sequence[str], heads: Sequence[Head], sheet: "Sheet"
) -> list[Any]:
    axes = sheet.subplots(1, len(typed), squeeze=False, sharey=True)[0]
    names = [head.names for head in heads]
    drawn = sorted({names.index((r["model"], r["policy"])) for r in rows})
    for ax, leads in zip(axes, typed):
        mine = [r for r in rows if r["leads"] == leads]
        for at in drawn:
            own = [r for r in mine if (r["model"], r["policy"]) == names[at]]
            x = [100 * r["threshold_probability"] for r in own]
            ax.plot(x, [100 * r["net_benefit"] for r in own], **{**look(at), "markersize": 4})
            if own:
                ax.plot(x, [100 * r["flag_all"] for r in own], color="#999999", zorder=1)
        ax.axhline(0, color="#999999", linewidth=1, zorder=1)
        low = min([0.0, *(100 * r["net_benefit"] for r in rows)])
        ax.set_ylim(bottom=low - 1)
        ax.set_title(setting_words(leads))
        ax.set_xlabel("threshold probability, %")
    axes[0].set_ylabel("net benefit per 100 records")
    return [handle(legend(heads[at]), at) for at in drawn]
