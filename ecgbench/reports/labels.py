"""Labels: the score of each label by itself, per task and lead setting, a mean over lead draws."""

from collections.abc import Iterator

from ecgbench.reports import Column, Group, Part, ReportCard, Section, Table, Text, points
from ecgbench.reports._facts import numbers, records, setting_words, untrained_marks
from ecgbench.reports._grid import Grid, grids
from ecgbench.results.study import Study
from ecgbench.text import counted, enumerated

CARD = ReportCard(
    title="Labels", summary="the score of each label by itself", reads="run", order=60
)

Values = dict[tuple[str, str], list[float | None]]
"""(model, policy) -> one value per lead draw and fit."""


def sections(study: Study) -> list[Section]:
    """A folded table per metric, task and lead setting; labels.csv holds all draws."""
    title = f"{enumerated([card.title for card in study.metrics.values()])} × 100 of each label"
    intro = "Mean over lead draws; -- where a label has no positive or no negative in the test set."
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
                {"label": label} | facts | _means(values, grid)
                for label, (facts, values) in gathered.get((block.task, leads), {}).items()
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


def _gathered(study: Study) -> dict[tuple[str, str], dict[str, tuple[dict[str, int], Values]]]:
    """(task, leads as typed) -> label -> n and positives, and the values of each column."""
    which = ["task", "model", "setting", "policy"]
    typed = study.cells.drop_duplicates(which)[[*which, "leads"]]
    gathered: dict[tuple[str, str], dict[str, tuple[dict[str, int], Values]]] = {}
    for row in records(study.labels.merge(typed, how="left")):
        of_setting = gathered.setdefault((row["task"], row["leads"]), {})
        counts = {name: row[name] for name in ("n", "positives")}
        _, values = of_setting.setdefault(row["label"], (counts, {}))
        values.setdefault((row["model"], row["policy"]), []).append(row["value"])
    return gathered


def _means(of: Values, grid: Grid) -> dict[str, float | None]:
    """Undefined in one draw is undefined."""
    means: dict[str, float | None] = {}
    for at, head in enumerate(grid.columns):
        values = of.get(head.names, [])
        there = [value for value in values if value is not None]
        means[str(at)] = sum(there) / len(there) if there and len(there) == len(values) else None
    return means
