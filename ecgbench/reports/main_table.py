"""The main table: scores by task and lead setting, a column per model, as CSV, Markdown and LaTeX.

The CSV is long (one row per metric x task x model x setting x policy, fractions at full precision)
and every number of the other files, of the page and of the figure is 100 x one of its values.
Markdown and LaTeX have the form of the paper that introduced LAEF: three ranks per row, an asterisk
for what is not significantly worse than the best, a dagger for tasks that are evaluated only.
"""

from collections.abc import Sequence

from ecgbench.core.text import enumerated
from ecgbench.reports import Cell, Column, Numbers, ReportCard, Row, Section, Table, Text
from ecgbench.reports._facts import DAGGER, numbers, setting_words, untrained_marks
from ecgbench.reports._grid import Grid, grids
from ecgbench.reports._text import millions
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Main table",
    summary="scores by task and lead setting, a column per model, as CSV, Markdown and LaTeX",
    reads="run",
    order=10,
)
ASTERISK = (
    "not significantly worse than the best of the row: the 95 % interval of the paired "
    "difference contains 0"
)


def sections(study: Study) -> list[Section]:
    """The table of each metric, and how its numbers were made."""
    provenance = study.provenance
    weights = list(dict.fromkeys([*study.main["weights"], *study.cells["weights"]]))
    setting = (
        f"Protocol {provenance.protocol}, contract {provenance.contract}; weights: "
        f"{enumerated(weights)}."
    )
    notes = [*study.notes, setting]
    kept = numbers(study.main, "one row per metric, task, model and lead setting")
    tables: list[Table] = []
    for name, grid in grids(study).items():
        stem = "main_table" if name == study.metric else f"main_table_{name}"
        tables.append(table(stem, grid, notes, None if tables else kept))
    title = f"Macro {enumerated([card.title for card in study.metrics.values()])} × 100"
    below = Text("Under each model: parameters, and the policy for missing leads.", "fine")
    return [Section(name="main_table", title=title, short=CARD.title, parts=[*tables, below])]


def table(name: str, grid: Grid, notes: Sequence[str], kept: Numbers | None) -> Table:
    """The table of one metric; only the one with `kept` is written as CSV and has the notes."""
    return Table(
        name=name,
        caption=f"Macro {grid.metric.title} × 100 by task and measured leads.",
        columns=columns(grid),
        rows=list(_rows(grid)),
        marks=_marks(grid),
        footnotes=grid.footnotes,
        notes=notes if kept else (),
        numbers=kept,
        formats=("csv", "md", "tex", "html") if kept else ("md", "tex", "html"),
    )


def columns(grid: Grid) -> list[Column]:
    """Task, leads, and one of scores for each model under each policy."""
    models = [
        Column(
            str(at),
            head.label,
            "score",
            note=millions(head.parameters),
            mark=head.mark,
        )
        for at, head in enumerate(grid.columns)
    ]
    return [
        Column("task", "Task", "group"),
        Column("leads", "Leads", on_page=setting_words),
        *models,
    ]


def _rows(grid: Grid) -> list[Row]:
    return [
        {"task": Cell(block.title, "†" if block.evaluation_only else ""), "leads": leads}
        | {str(at): score for at, score in enumerate(scores) if score}
        for block in grid.tasks
        for leads, scores in block.lines.items()
    ]


def _marks(grid: Grid) -> dict[str, str]:
    """Sign -> meaning, of the signs this table uses."""
    lines = [line for block in grid.tasks for line in block.lines.values()]
    used = {
        "*": (ASTERISK, any(score and score.star for line in lines for score in line)),
        "†": (DAGGER, any(block.evaluation_only for block in grid.tasks)),
    }
    signs = {sign: meaning for sign, (meaning, there) in used.items() if there}
    return signs | untrained_marks(grid.columns)
