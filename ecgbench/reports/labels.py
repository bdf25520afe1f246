"""Labels: the score of each label by itself, per task and lead setting, a mean over lead draws."""

from collections.abc import Iterator, Mapping
from typing import Any

from ecgbench.reports import Column, Group, Numbers, Part, ReportCard, Section, Table, Text, points
from ecgbench.reports._facts import records, setting_words
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
    numbers = Numbers(
        columns=list(study.labels.columns),
        rows=records(study.labels),
        summary="one row per cell, metric and label",
    )
    all_rows = Table(name="labels", columns=(), rows=(), numbers=numbers, formats=("csv",))
    shown: list[Part] = [Text(intro, "fine"), *groups] if groups else []
    return [Section(name="labels", title=title, short=CARD.title, parts=[*shown, all_rows])]


def _groups(study: Study, metric: str, grid: Grid) -> Iterator[Group]:
    gathered = _gathered(study)
    several = f", {grid.metric.title}" if len(study.metrics) > 1 else ""
    models = [Column(str(at), head.label, "number", points) for at, head in enumerate(grid.columns)]
    counts = [Column("positives", "Positives", "number"), Column("n", "Records", "number")]
    for block in grid.tasks:
        for line in block.lines:
            rows = [
                {"label": label, "n": label_facts["n"], "positives": label_facts["positives"]}
                | _means(label_facts["of"], grid)
                for label, label_facts in gathered.get((block.task, line.leads), {}).items()
            ]
            if rows:
                title = (
                    f"{block.title}, {setting_words(line.leads)}{several} "
                    f"({counted(len(rows), 'label')})"
                )
                columns = [Column("label", "Label"), *counts, *models]
                table = Table(
                    name=f"labels_{metric}", columns=columns, rows=rows, formats=("html",)
                )
                yield Group(title, [table], folded=True)


def _gathered(study: Study) -> Mapping[tuple[str, str], dict[str, dict[str, Any]]]:
    """(task, leads as typed) -> label -> n, positives, and the values of each column."""
    cells = records(study.cells)
    typed = {(c["task"], c["model"], c["setting"], c["policy"]): str(c["leads"]) for c in cells}
    gathered: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in records(study.labels):
        setting = str(row["setting"])
        leads = typed.get(
            (row["task"], row["model"], setting, row["policy"]), setting.partition("@")[0]
        )
        label_facts = gathered.setdefault((row["task"], leads), {}).setdefault(
            row["label"], {"n": row["n"], "positives": row["positives"], "of": {}}
        )
        label_facts["of"].setdefault((row["model"], row["policy"]), []).append(row["value"])
    return gathered


def _means(of: Values, grid: Grid) -> dict[str, float | None]:
    """Undefined in one draw is undefined."""
    means: dict[str, float | None] = {}
    for at, head in enumerate(grid.columns):
        values = of.get(head.names, [])
        there = [value for value in values if value is not None]
        means[str(at)] = sum(there) / len(there) if there and len(there) == len(values) else None
    return means
