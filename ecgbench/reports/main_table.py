"""The main table: scores by task and lead setting, a column per model, as CSV, Markdown and LaTeX.

The CSV is long (one row per metric x task x model x setting x policy, fractions at full precision)
and every number of the other files, of the page and of the figure is 100 x one of its values.
Markdown and LaTeX have the form of the paper that introduced LAEF: three ranks per row, an asterisk
for what is not significantly worse than the best, a dagger for tasks that are evaluated only.
"""

from collections.abc import Sequence

from ecgbench.reports import Cell, Column, Format, Numbers, ReportCard, Row, Section, Table, Text
from ecgbench.reports._facts import main_rows, records, setting_words
from ecgbench.reports._grid import Grid, grids
from ecgbench.reports._text import millions
from ecgbench.results.study import Study
from ecgbench.text import enumerated

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
DAGGER = "evaluation only: the labels are columns of another task's predictions"
DOUBLE_DAGGER = "random weights: this column says nothing about a trained model"


def sections(study: Study) -> list[Section]:
    """The table of each metric, and how its numbers were made."""
    rows = main_rows(study)
    numbers = Numbers(
        columns=list(study.main.columns),
        rows=rows,
        summary="one row per metric, task, model and lead setting",
    )
    provenance = study.provenance
    how = [
        f"{word} {value}"
        for word, value in (("protocol", provenance.protocol), ("contract", provenance.contract))
        if value
    ]
    weights = list(
        dict.fromkeys(
            str(row["weights"]) for row in [*rows, *records(study.cells)] if row["weights"]
        )
    )
    setting = f"{', '.join(how)}; weights: {enumerated(weights) or 'none'}."
    notes = [*study.notes, setting[0].upper() + setting[1:]]
    tables: list[Table] = []
    for name, grid in grids(study).items():
        stem = "main_table" if name == study.metric else f"main_table_{name}"
        tables.append(table(stem, grid, notes, None if tables else numbers))
    title = f"Macro {enumerated([card.title for card in study.metrics.values()])} × 100"
    below = Text("Under each model: parameters, and the policy for missing leads.", "fine")
    return [Section(name="main_table", title=title, short=CARD.title, parts=[*tables, below])]


def table(name: str, grid: Grid, notes: Sequence[str], numbers: Numbers | None) -> Table:
    """The table of one metric; only the one with `numbers` is written as CSV and repeats what is
    said `about` all.
    """
    formats: tuple[Format, ...] = ("csv", "md", "tex", "html") if numbers else ("md", "tex", "html")
    return Table(
        name=name,
        caption=f"Macro {grid.metric.title} × 100 by task and measured leads.",
        columns=columns(grid),
        rows=list(_rows(grid)),
        marks=_marks(grid),
        footnotes=grid.footnotes,
        notes=notes if numbers else (),
        numbers=numbers,
        formats=formats,
    )


def columns(grid: Grid) -> list[Column]:
    """Task, leads, and one of scores for each model under each policy."""
    models = [
        Column(
            str(at),
            head.label,
            "score",
            note=millions(head.parameters),
            aside=head.policy,
            mark="‡" if head.random else "",
        )
        for at, head in enumerate(grid.columns)
    ]
    return [
        Column("task", "Task", "group"),
        Column("leads", "Leads", on_page=setting_words, symbol="L"),
        *models,
    ]


def _rows(grid: Grid) -> list[Row]:
    return [
        {"task": Cell(block.title, "†" if block.evaluation_only else ""), "leads": line.leads}
        | {str(at): score for at, score in enumerate(line.scores) if score is not None}
        for block in grid.tasks
        for line in block.lines
    ]


def _marks(grid: Grid) -> dict[str, str]:
    """Sign -> meaning, of the signs this table uses."""
    scores = [
        score
        for block in grid.tasks
        for line in block.lines
        for score in line.scores
        if score is not None
    ]
    used = {
        "*": (ASTERISK, any(score.star for score in scores)),
        "†": (DAGGER, any(block.evaluation_only for block in grid.tasks)),
        "‡": (DOUBLE_DAGGER, any(head.random for head in grid.columns)),
    }
    return {sign: meaning for sign, (meaning, there) in used.items() if there}
