"""Labels: the score of each label by itself, as a map of labels and lead settings in colours.

A value is the mean over lead draws and fits, and over the folds in which the label has both values.
Its interval is the mean of theirs: no mean of scores is less sure than they are on average, so it
is as wide as it must be, or wider. labels.csv holds every draw by itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.core.text import counted, enumerated, shortened
from ecgbench.reports import LONGEST, Figure, Group, Numbers, Part, ReportCard, Section, Table, Text
from ecgbench.reports._facts import numbers, records
from ecgbench.reports._grid import Block, Grid, grids
from ecgbench.reports._label_names import full_names
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Labels", summary="the score of each label by itself", reads="run", order=60
)
DRAWN = 12
"""Columns that a drawing shows; the CSV holds all."""
COLUMNS = ("task", "model", "policy", "leads", "label", "name", "metric", "value", "low", "high")
_LETTERS = 44
"""Of a label beside a drawing."""

Draws = dict[str, list[tuple[float | None, ...]]]
"""Fold -> value, low and high of each lead draw and fit."""


@dataclass(frozen=True, kw_only=True)
class Spot:
    """A value of the map, a fraction, with its 95 % interval where there is one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class _Label:
    """A label of a task."""

    name: str
    full: str
    counts: Mapping[str, tuple[int, int]]
    """Fold -> positives and records."""
    spots: Mapping[tuple[tuple[str, str], str], Spot]
    """(model and policy, leads as typed) -> its value, where it has one."""

    @property
    def positives(self) -> str:
        """`21 of 198`."""
        some, every = (sum(counts) for counts in zip(*self.counts.values()))
        return f"{some:,} of {every:,}"


def sections(study: Study) -> list[Section]:
    """A map per metric and task; labels.csv holds all draws."""
    title = f"{enumerated([card.title for card in study.metrics.values()])} × 100 of each label"
    intro = (
        "A value is the mean over lead draws, and its interval (in the CSV file) the mean of "
        "theirs, which is wide enough. Grey where a label has no positive or no negative in the "
        "test set."
    )
    if any(data.folds for data in study.datasets):
        intro += " Also the mean over the folds in which it has both; records are those of all."
    found = [
        (name, grid, block, labels)
        for name, grid in grids(study).items()
        for block, labels in _by_task(study.of(name), grid)
        if any(spot for label in labels for spot in label.spots.values())
    ]
    figures = [
        _figure(_stem(at, name, study), grid, block, labels)
        for at, (name, grid, block, labels) in enumerate(found)
    ]
    kept = numbers(study.labels, "one row per cell, metric and label")
    all_rows = Table(name="labels", columns=(), rows=(), numbers=kept, formats=("csv",))
    maps: list[Part] = [*figures]
    if len(found) > 1:
        maps = [
            Group(_titled(name, block, study), [figure], folded=True, unfolded=at == 0)
            for at, (figure, (name, _, block, _)) in enumerate(zip(figures, found))
        ]
    shown: list[Part] = [Text(intro, "fine"), *maps] if figures else []
    return [Section(name="labels", title=title, short=CARD.title, parts=[*shown, all_rows])]


def _titled(metric: str, block: Block, study: Study) -> str:
    several = f", {study.metrics[metric].title}" if len(study.metrics) > 1 else ""
    return f"{block.title}{several}"


def _stem(at: int, metric: str, study: Study) -> str:
    several = "" if metric == study.metric else f"_{metric}"
    return f"label_map{several}" + (f"_{at + 1}" if at else "")


def _by_task(study: Study, grid: Grid) -> Iterator[tuple[Block, list[_Label]]]:
    gathered = _gathered(study)
    for block in grid.tasks:
        if labels := gathered.get(block.task):
            names = full_names(block.task)
            yield (
                block,
                [
                    _Label(
                        name=label,
                        full=names.get(label, ""),
                        counts=counts,
                        spots={
                            where: spot for where, draws in of.items() if (spot := _mean(draws))
                        },
                    )
                    for label, (counts, of) in labels.items()
                ],
            )


def _gathered(study: Study) -> dict[str, dict[str, tuple[dict[str, Any], dict[Any, Draws]]]]:
    """Task -> label -> its counts by fold, and what each column and setting has by fold."""
    which = ["task", "model", "setting", "policy"]
    typed = study.cells.drop_duplicates(which)[[*which, "leads"]]
    gathered: dict[str, dict[str, tuple[dict[str, Any], dict[Any, Draws]]]] = {}
    for row in records(study.labels.merge(typed, how="left")):
        labels = gathered.setdefault(row["task"], {})
        counts, of = labels.setdefault(row["label"], ({}, {}))
        counts.setdefault(row["fold"], (row["positives"], row["n"]))
        draws = of.setdefault(((row["model"], row["policy"]), row["leads"]), {})
        draws.setdefault(row["fold"], []).append((row["value"], row["low"], row["high"]))
    return gathered


def _mean(draws: Draws) -> Spot | None:
    """Undefined in one draw is undefined in its fold; the mean is over folds that have a value."""
    values, lows, highs = (
        [m for fold in draws.values() if (m := _all([draw[at] for draw in fold])) is not None]
        for at in range(3)
    )
    if not values:
        return None
    whole = len(values) == len(lows) == len(highs)
    value, *ends = (
        float(np.mean(each)) for each in ((values, lows, highs) if whole else (values,))
    )
    return Spot(value=value, low=ends[0] if whole else None, high=ends[1] if whole else None)


def _all(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there and len(there) == len(values) else None


def _figure(name: str, grid: Grid, block: Block, labels: Sequence[_Label]) -> Figure:
    settings, heads = list(block.lines), list(grid.columns)
    title = f"{block.title}: {grid.metric.title} × 100 of {counted(len(labels), 'label')}"
    rows = [
        {
            "task": block.task,
            "model": head.model,
            "policy": head.policy,
            "leads": leads,
            "label": label.name,
            "name": label.full,
            "metric": grid.metric.title,
        }
        | vars(spot)
        for head in heads
        for leads in settings
        for label in labels
        if (spot := label.spots.get((head.names, leads)))
    ]
    drawn = min(len(heads), DRAWN)
    left = f" The first {DRAWN} of {len(heads)} columns." if len(heads) > DRAWN else ""
    return Figure(
        name=name,
        draw=partial(_draw, grid, block, labels),
        caption=f"{title}, by measured leads. White: {_chance(grid):g} and below.{left}",
        size=(4.4 + 0.2 * drawn * (0.5 + len(settings)), 2.4 + 0.17 * len(labels)),
        numbers=Numbers(columns=COLUMNS, rows=rows, summary="the squares of the map"),
    )


def _chance(grid: Grid) -> float:
    """Where the colours begin: at chance, or at the worst value."""
    metric = grid.metric
    worst = metric.range[0] if metric.direction == "higher" else metric.range[1]
    return 100 * (worst if metric.chance is None else metric.chance)


def _best(grid: Grid) -> float:
    return 100 * grid.metric.range[1 if grid.metric.direction == "higher" else 0]


def _draw(grid: Grid, block: Block, labels: Sequence[_Label], sheet: "Sheet") -> None:
    """A block of squares per column of the run, all on one axis."""
    settings, heads = list(block.lines), list(grid.columns)[:DRAWN]
    ax, step = sheet.subplots(), len(settings) + 0.5
    worst, best = sorted((_chance(grid), _best(grid)))
    for at, head in enumerate(heads):
        spots = [[label.spots.get((head.names, leads)) for leads in settings] for label in labels]
        square = np.array([[100 * s.value if s else np.nan for s in row] for row in spots])
        sides = at * step + np.arange(len(settings) + 1), np.arange(len(labels) + 1)
        picture = ax.pcolormesh(
            *sides, square, cmap="Blues", vmin=worst, vmax=best, rasterized=True
        )
        random = " (random weights)" if head.untrained else ""
        name = shortened(head.label, LONGEST // 2) + random
        middle = at * step + len(settings) / 2
        ax.text(middle, -0.3, name, fontsize=7, rotation=30, ha="left", va="bottom")
    ax.set(facecolor="#eeeeee", ylim=(len(labels), 0), xlim=(-0.1, len(heads) * step - 0.4))
    ax.grid(visible=False)
    places = [at * step + n + 0.5 for at in range(len(heads)) for n in range(len(settings))]
    short = [shortened(leads, LONGEST // 3) for leads in settings]
    ax.set_xticks(places, short * len(heads), fontsize=7, rotation=90)
    words = [f"{label.name}: {label.full}" if label.full else label.name for label in labels]
    names = [
        f"{shortened(word, _LETTERS)} ({label.positives})" for word, label in zip(words, labels)
    ]
    ax.set_yticks(np.arange(len(labels)) + 0.5, names, fontsize=7)
    sheet.suptitle(shortened(block.title, LONGEST), fontsize=10)
    sheet.colorbar(picture, ax=ax, shrink=0.6, label=f"{grid.metric.title} × 100")
