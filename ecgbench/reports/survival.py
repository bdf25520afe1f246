"""Skill kept: the share of the skill above chance at 12 leads that is left at fewer."""

from functools import partial

from ecgbench.reports import Column, ReportCard, Section, Table, points
from ecgbench.reports._facts import FULL, setting_words, untrained_marks
from ecgbench.reports._grid import Grid, grids, survival
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Skill kept",
    summary="the share of the skill above chance at 12 leads that is left at fewer",
    reads="run",
    order=20,
)


def sections(study: Study) -> list[Section]:
    """One table per metric whose chance is known, of the models that have a score at 12 leads."""
    tables = [
        table
        for name, grid in grids(study).items()
        if (table := _table(f"survival_{name}", grid)).rows
    ]
    title = f"Skill kept, % of the skill above chance at {setting_words(FULL)}"
    return [Section(name="survival", title=title, short=CARD.title, parts=tables)]


def _table(name: str, grid: Grid) -> Table:
    kept, title = survival(grid), grid.metric.title
    leads = list(dict.fromkeys(leads for row in kept for leads in row.shares))
    groups = [Column("task", "Task", "group")] if len(grid.tasks) > 1 else []
    columns = [
        *groups,
        Column("model", "Model"),
        Column("full", setting_words(FULL), "number", points, f"macro {title}"),
    ]
    columns += [Column(setting, setting, "number", partial(points, digits=0)) for setting in leads]
    titles = {block.task: block.title for block in grid.tasks}
    chance = f"{grid.metric.chance:g}" if grid.metric.chance is not None else ""
    return Table(
        name=name,
        columns=columns,
        rows=[
            {
                "task": titles[row.task],
                "model": row.head.cell,
                "full": row.full,
            }
            | dict.fromkeys(leads)
            | dict(row.shares)
            for row in kept
        ],
        notes=[
            f"({title} − {chance}) / ({title} at {setting_words(FULL)} − {chance}), from the main "
            f"table; -- where there is "
            f"no number, or where the interval at {setting_words(FULL)} reaches chance."
        ],
        marks=untrained_marks(row.head for row in kept),
        formats=("html",),
    )
