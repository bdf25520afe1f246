"""Calibration: whether probabilities mean what they say, by number of leads.

Brier score, calibration slope and intercept, and the expected calibration error (ECE), label by
label and as a mean over labels; a diagram of bins of equal mass. Over lead draws and fits, numbers
are means. docs/calibration.md says how to read them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    listed,
    none_known,
    nothing,
    number,
    shown,
    too_rare,
)
from ecgbench.results.study import Study
from ecgbench.stats.calibration import BINS, intercept, reliability, slope, squared_error
from ecgbench.stats.clustered import Estimate, Patients, mean, mean_of_labels, share

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Calibration",
    summary="whether probabilities mean what they say, by number of leads",
    reads="run",
    order=62,
)
ESTIMATES = ("brier", "slope", "intercept")
COUNTS = ("labels", "patients", "positives", "negatives")
COLUMNS = (
    *FACTS,
    *COUNTS,
    *(name + end for name in ESTIMATES for end in ("", "_low", "_high")),
    *("ece", "ece_by_chance", "status", "reason"),
)
BIN_COLUMNS = (
    *FACTS,
    *("bin", "probability", "observed", "low", "high", "records", "patients"),
)
POOLED = "all labels"
"""What stands in the column of labels of a bin that holds records of every label."""
ORDERED = "a threshold parts all records with it from all without, so there is no slope"


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibrated:
    """A label of a row, or the mean over labels."""

    estimates: Mapping[str, Estimate]
    """By ESTIMATES."""
    ece: float
    ece_by_chance: float

    @property
    def numbers(self) -> dict[str, float | None]:
        """As a row of the CSV file holds them."""
        made: dict[str, float | None] = {}
        for name, found in self.estimates.items():
            low, high = found.interval()
            made |= {name: found.value, f"{name}_low": number(low), f"{name}_high": number(high)}
        return made | {"ece": self.ece, "ece_by_chance": self.ece_by_chance}


def sections(study: Study) -> list[Section]:
    """Tables and figures of all tasks; nothing of a study made by hand."""
    own = lines(study)
    if not any(line.repeats for line in own):
        return []
    titles = titles_of(study)
    rows: list[Row] = []
    table: list[Row] = []
    figures: list[Figure] = []
    said: list[str] = []
    for at, task in enumerate(titles):
        mine = [line for line in own if line.task == task]
        found = [dict(_labels(line)) for line in mine]
        every = in_all(
            [{n: c for n, (_, c) in of.items() if isinstance(c, Calibrated)} for of in found if of]
        )
        means = [_mean(of, every) for of in found]
        for line, of, average in zip(mine, found, means):
            rows += _rows(line, of, every, average)
        on_page = shown(mine, bool(every))
        table += [
            _spelled(titles[task], line, average, len(every))
            for line, average in zip(mine, means)
            if line in on_page
        ]
        said += _left_out(titles[task], found)
        name = "reliability" if len(titles) == 1 else f"reliability_{at + 1}"
        figures += _figure(name, titles[task], mine, every, columns(study))
    parts: list[Part] = [
        _table(table, rows, columns(study), said),
        *([] if table else [Notes(said)]),
        *figures,
    ]
    title = "Whether probabilities mean what they say"
    return [Section(name="calibration", title=title, short=CARD.title, parts=parts)]


Found = Mapping[str, tuple[Mapping[str, int], "Calibrated | str"]]
"""Label -> its counts, and its numbers or why there are none."""


def _labels(line: Line) -> Iterator[tuple[str, tuple[Mapping[str, int], Calibrated | str]]]:
    for repeats in line.labels() if line.repeats else ():
        yield repeats[0].name, (repeats[0].counts, _calibrated(repeats))


def _calibrated(repeats: Sequence[Label]) -> Calibrated | str:
    """The mean over lead draws and fits, or why there is none."""
    if lacking := next(filter(None, (label.lacking for label in repeats)), ""):
        return lacking
    slopes = [slope(one.target, one.probability, one.patients) for one in repeats]
    known = [s for s in slopes if s is not None]
    if len(known) < len(slopes):
        return ORDERED
    bins = [reliability(one.target, one.probability) for one in repeats]
    return Calibrated(
        estimates={
            "brier": mean([_brier(one) for one in repeats]),
            "slope": mean(known),
            "intercept": mean(
                [intercept(one.target, one.probability, one.patients) for one in repeats]
            ),
        },
        ece=float(np.mean([b.ece for b in bins])),
        ece_by_chance=float(np.mean([b.ece_by_chance for b in bins])),
    )


def _brier(one: Label) -> Estimate:
    every = np.ones(len(one.target), bool)
    made = share(squared_error(one.target, one.probability), every, one.patients)
    smaller = min(one.patients.number(own) for own in (one.target, ~one.target))
    return Estimate(value=made.value, parts=made.parts, units=smaller)


def _mean(found: Found, every: Sequence[str]) -> Calibrated | None:
    made = [c for name, (_, c) in found.items() if name in every and isinstance(c, Calibrated)]
    if not made:
        return None
    return Calibrated(
        estimates={name: mean_of_labels([c.estimates[name] for c in made]) for name in ESTIMATES},
        ece=float(np.mean([c.ece for c in made])),
        ece_by_chance=float(np.mean([c.ece_by_chance for c in made])),
    )


def _rows(
    line: Line, found: Found, every: Sequence[str], average: Calibrated | None
) -> Iterator[Row]:
    """Of the CSV file: the mean, then the labels."""
    counts = {"labels": len(every)} if line.repeats else {}
    said: dict[str, Any] = average.numbers if average else {}
    if line.repeats and average is None:
        said = nothing(none_known())
    yield {**line.facts, "label": MEAN, **counts, **said}
    for name, (there, one) in found.items():
        said = nothing(one) if isinstance(one, str) else one.numbers
        yield {**line.facts, "label": name, **there, **said}


def _spelled(title: str, line: Line, average: Calibrated | None, labels: int) -> Row:
    """A row of the table on the page."""
    row: dict[str, Any] = {"task": title, "leads": line.leads, "model": line.head.cell}
    if not line.repeats:
        return row | {"labels": Cell(line.status), **dict.fromkeys((*ESTIMATES, "ece", "chance"))}
    row |= {"labels": labels, **dict.fromkeys((*ESTIMATES, "ece", "chance"))}
    if average is None:
        return row
    row |= {
        name: _with_interval(e, 3 if name == "brier" else 2)
        for name, e in average.estimates.items()
    }
    return row | {"ece": average.ece, "chance": average.ece_by_chance}


def _with_interval(found: Estimate, digits: int) -> str:
    low, high = found.interval()
    text = f"{found.value:.{digits}f}"
    return text if np.isnan(low) else f"{text} [{low:.{digits}f}, {high:.{digits}f}]"


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


def _left_out(title: str, found: Sequence[Found]) -> Iterator[str]:
    """Which labels are in no mean, and why."""
    why = {name: one for of in found for name, (_, one) in of.items() if isinstance(one, str)}
    ordered = [name for name, reason in why.items() if reason == ORDERED]
    if rare := [name for name in why if name not in ordered]:
        yield too_rare(title, rare)
    if ordered:
        yield f"{title}: left out {listed(ordered)}: in some row {ORDERED}."


def _figure(
    name: str, title: str, own: Sequence[Line], every: Sequence[str], heads: Sequence[Head]
) -> Iterator[Figure]:
    """The diagram of a task, at all leads and at the fewest."""
    typed = ends(own)
    points = [
        point
        for leads in typed
        for line in own
        if line.leads == leads and line.repeats
        for point in _bins(line, every)
    ]
    if not points:
        return
    yield Figure(
        name=name,
        draw=partial(_draw, [p for p in points if p["label"] == POOLED], typed, heads),
        caption=(
            f"{title}: the share of records that have a label against the probability that was "
            f"predicted, in {BINS} bins of equal mass; all labels, lead draws and fits together. "
            f"On the line, probabilities mean what they say. Bars: 95 % intervals over patients."
            + gone(line for line in own if line.leads in typed)
        ),
        size=(1 + 3.9 * max(len(typed), 2), 4.9),
        numbers=Numbers(columns=BIN_COLUMNS, rows=points, summary="bins of equal mass, by label"),
    )


def _bins(line: Line, every: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Bins over all labels, then of each."""
    of = {repeats[0].name: repeats for repeats in line.labels() if repeats[0].name in every}
    if not of:
        return
    together = {POOLED: [one for repeats in of.values() for one in repeats], **of}
    for name, those in together.items():
        target = np.concatenate([one.target for one in those])
        probability = np.concatenate([one.probability for one in those])
        whose = np.concatenate([one.patients.of_record for one in those])
        patients = Patients(of_record=whose, count=those[0].patients.count)
        made = reliability(target, probability)
        for place in range(len(made.count)):
            there = made.of_record == place
            observed = share(target, there, patients)
            low, high = observed.share_interval()
            yield {
                **line.facts,
                "label": name,
                "bin": place + 1,
                "probability": float(made.probability[place]),
                "observed": observed.value,
                "low": number(low),
                "high": number(high),
                "records": int(made.count[place]),
                "patients": observed.units,
            }


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
