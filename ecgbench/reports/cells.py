"""Without a number: what failed, was skipped or is not computed yet, and why; and a row for each
cell.
"""

from collections.abc import Mapping

from ecgbench.reports import Column, ReportCard, Section, Table
from ecgbench.reports._facts import gaps, heads_of, numbers, titles_of, untrained_marks
from ecgbench.results.notes import PENDING
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Without a number",
    summary="which cells have no number, and why",
    reads="run",
    order=50,
    exploratory=False,
)
_COLUMNS = (
    Column("task", "Task"),
    Column("model", "Model"),
    Column("leads", "Leads"),
    Column("status", "Status"),
    Column("reason", "Reason"),
)


def sections(study: Study) -> list[Section]:
    """The cells without a number, those of one reason together."""
    heads, titles, lost = heads_of(study), titles_of(study), gaps(study)
    rows = [
        {
            "task": titles[gap.task],
            "model": heads[gap.model, gap.policy].cell,
            "leads": _settings(gap.leads),
            "status": gap.word,
            "reason": gap.reason.removeprefix(f"{PENDING}; "),
        }
        for gap in lost
    ]
    summary = "one row per cell and metric: every lead draw, its key and its place in the run"
    table = Table(
        name="cells",
        columns=_COLUMNS,
        rows=rows,
        marks=untrained_marks(heads[gap.model, gap.policy] for gap in lost),
        numbers=numbers(study.cells, summary),
        formats=("csv", "html") if rows else ("csv",),
    )
    return [Section(name="cells", title=CARD.title, parts=[table])]


def _settings(leads: Mapping[str, tuple[int, int]]) -> str:
    """The settings of a gap; how many draws where not all are concerned.

    >>> _settings({"1": (5, 5), "2": (3, 5), "I": (1, 1)})
    '1, 2 (3 of 5 draws), I'
    """
    return ", ".join(
        typed if lost == asked else f"{typed} ({lost} of {asked} draws)"
        for typed, (lost, asked) in leads.items()
    )
