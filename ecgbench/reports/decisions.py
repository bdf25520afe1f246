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
from ecgbench.reports._facts import Head, columns, setting_words, titles_of, untrained_marks
from ecgbench.reports._predicted import (
    FACTS,
    MEAN,
    Label,
    Line,
    ends,
    formats,
    gone,
    in_all,
    legend,
    lines,
    none_known,
    nothing,
    number,
    shown,
    too_rare,
)
from ecgbench.results.study import Study
from ecgbench.stats.clustered import Estimate, mean, mean_of_labels
from ecgbench.stats.operating import net_benefit

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Decision curves",
    summary="net benefit at stated threshold probabilities, by number of leads",
    reads="run",
    order=66,
)
CHANCES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Threshold probabilities."""
ON_PAGE = (0.05, 0.1, 0.2)
COLUMNS = (
    *(*FACTS, "labels", "threshold_probability", "prevalence"),
    *("net_benefit", "low", "high", "flag_all", "flag_nobody", "status", "reason"),
)
Benefit = tuple[float, Mapping[float, Estimate]]
"""Prevalence in the test set, and net benefit by threshold probability."""
Found = Mapping[str, Benefit | str]
"""Label -> its net benefit, or why there is none."""


def sections(study: Study) -> list[Section]:
    """A table and a figure per task; nothing of a study made by hand."""
    own = lines(study)
    if not any(line.repeats for line in own):
        return []
    titles, heads = titles_of(study), columns(study)
    rows: list[Row] = []
    table: list[Row] = []
    figures: list[Figure] = []
    said: list[str] = []
    for at, task in enumerate(titles):
        mine = [line for line in own if line.task == task]
        found = [dict(_labels(line)) for line in mine]
        every = in_all(
            [{n: b for n, b in of.items() if not isinstance(b, str)} for of in found if of]
        )
        made = [list(_mean(line, of, every)) for line, of in zip(mine, found)]
        for line, of, average in zip(mine, found, made):
            rows += [*average, *_single(line, of)]
        on_page = shown(mine, bool(every))
        table += [
            _spelled(titles[task], line, average)
            for line, average in zip(mine, made)
            if line in on_page
        ]
        if rare := list(
            dict.fromkeys(n for of in found for n, b in of.items() if b and n not in every)
        ):
            said.append(too_rare(titles[task], rare))
        name = "decision_curve" if len(titles) == 1 else f"decision_curve_{at + 1}"
        drawn = [row for average in made for row in average if "net_benefit" in row]
        figures += _figure(name, titles[task], drawn, mine, heads)
    parts: list[Part] = [
        _table(table, rows, heads, said),
        *([] if table else [Notes(said)]),
        *figures,
    ]
    return [
        Section(name="decisions", title="What flagging is worth", short=CARD.title, parts=parts)
    ]


def _labels(line: Line) -> Iterator[tuple[str, Benefit | str]]:
    for repeats in line.labels() if line.repeats else ():
        lacking = next(filter(None, (one.lacking for one in repeats)), "")
        yield (
            repeats[0].name,
            lacking
            or (
                repeats[0].prevalence,
                {chance: mean([_of(one, chance) for one in repeats]) for chance in CHANCES},
            ),
        )


def _of(one: Label, chance: float) -> Estimate:
    return net_benefit(one.target, one.probability >= chance, one.patients, chance)


def _mean(line: Line, found: Found, every: Sequence[str]) -> Iterator[Row]:
    """Rows of the mean over labels."""
    made = [b for name, b in found.items() if name in every and not isinstance(b, str)]
    if not made:
        yield {**line.facts, "label": MEAN, **(nothing(none_known()) if line.repeats else {})}
    for chance in CHANCES if made else ():
        average = mean_of_labels([benefits[chance] for _, benefits in made])
        prevalence = float(np.mean([share for share, _ in made]))
        yield {"labels": len(every), **_row(line, MEAN, chance, prevalence, average)}


def _single(line: Line, found: Found) -> Iterator[Row]:
    """Rows of each label."""
    for name, one in found.items():
        if isinstance(one, str):
            yield {**line.facts, "label": name, **nothing(one)}
            continue
        for chance, made in one[1].items():
            yield _row(line, name, chance, one[0], made)


def _row(line: Line, name: str, chance: float, prevalence: float, made: Estimate) -> Row:
    low, high = made.interval()
    return {
        **line.facts,
        "label": name,
        "threshold_probability": chance,
        "prevalence": prevalence,
        "net_benefit": made.value,
        "low": number(low),
        "high": number(high),
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
