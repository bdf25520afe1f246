"""Labels: the score of each label by itself, per task and lead setting, a mean over lead draws."""

from collections.abc import Iterator, Mapping, Sequence

from ecgbench.reports import Column, Group, Part, ReportCard, Section, Table, Text, points
from ecgbench.reports._facts import numbers, records, setting_words, untrained_marks
from ecgbench.reports._grid import Grid, grids
from ecgbench.results.study import Study
from ecgbench.text import counted, enumerated

CARD = ReportCard(
    title="Labels", summary="the score of each label by itself", reads="run", order=60
)

Counts = dict[str, Mapping[str, int]]
"""Fold -> n and positives."""
Values = dict[tuple[str, str], dict[str, list[float | None]]]
"""(model, policy) -> fold -> one value per lead draw and fit."""


def sections(study: Study) -> list[Section]:
    """A folded table per metric, task and lead setting; labels.csv holds all draws."""
    title = f"{enumerated([card.title for card in study.metrics.values()])} × 100 of each label"
    intro = "Mean over lead draws; -- where a label has no positive or no negative in the test set."
    if any(data.folds for data in study.datasets):
        intro += " Mean over the folds in which it has both; records are those of all folds."
    groups = [
        group
        for name, grid in grids(study).items()
        for group in _groups(study.of(name), name, grid)
    ]
    kept = numbers(study.labels, "one row per cell, metric and label")
    all_rows = Table(name="labels", columns=(), rows=(), numbers=kept, formats=("csv",))
    shown: list[Part] = [Text(intro, "fine"), *groups] if groups else []
    return [Section(name="labels", title=title, short=CARD.title, parts=[*shown, all_rows])]


def _groups(study: Study, metric: str, grid: Grid) -> Iterator[Group]:
    gathered = _gathered(study)
    several = f", {grid.metric.title}" if len(study.metrics) > 1 else ""
    models = [
        Column(str(at), head.label, "number", points, mark=head.mark)
        for at, head in enumerate(grid.columns)
    ]
    counts = [Column("positives", "Positives", "number"), Column("n", "Records", "number")]
    for block in grid.tasks:
        for leads in block.lines:
            rows = [
                {"label": label} | _summed(counts) | _means(values, grid)
                for label, (counts, values) in gathered.get((block.task, leads), {}).items()
            ]
            if rows:
                title = (
                    f"{block.title}, {setting_words(leads)}{several} "
                    f"({counted(len(rows), 'label')})"
                )
                columns = [Column("label", "Label"), *counts, *models]
                table = Table(
                    name=f"labels_{metric}",
                    columns=columns,
                    rows=rows,
                    marks=untrained_marks(grid.columns),
                    formats=("html",),
                )
                yield Group(title, [table], folded=True)


def _gathered(study: Study) -> dict[tuple[str, str], dict[str, tuple[Counts, Values]]]:
    """(task, leads as typed) -> label -> n and positives, and the values of each column."""
    which = ["task", "model", "setting", "policy"]
    typed = study.cells.drop_duplicates(which)[[*which, "leads"]]
    gathered: dict[tuple[str, str], dict[str, tuple[Counts, Values]]] = {}
    for row in records(study.labels.merge(typed, how="left")):
        of_setting = gathered.setdefault((row["task"], row["leads"]), {})
        counts, values = of_setting.setdefault(row["label"], ({}, {}))
        counts.setdefault(row["fold"], {name: row[name] for name in ("n", "positives")})
        column = values.setdefault((row["model"], row["policy"]), {})
        column.setdefault(row["fold"], []).append(row["value"])
    return gathered


def _means(of: Values, grid: Grid) -> dict[str, float | None]:
    """Undefined in one draw is undefined in its fold; the mean is over folds that have a value."""
    means: dict[str, float | None] = {}
    for at, head in enumerate(grid.columns):
        folds = of.get(head.names, {}).values()
        there = [m for values in folds if (m := _mean(values)) is not None]
        means[str(at)] = _mean(there)
    return means


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there and len(there) == len(values) else None


def _summed(counts: Counts) -> dict[str, int]:
    return {name: sum(c[name] for c in counts.values()) for name in ("n", "positives")}
