"""Table 1: the models that reach one of the first three places with one or two random leads.

The places are those among all models of the run, as in the main table, and so is every number: a
table for the text of a paper, where the full one does not fit.
"""

from dataclasses import replace

from ecgbench.core.text import enumerated
from ecgbench.reports import ReportCard, Section
from ecgbench.reports import main_table as full
from ecgbench.reports._facts import leads_of
from ecgbench.reports._grid import Grid, grid, part
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Table 1",
    summary="the models that reach one of the first three places with one or two random leads",
    reads="run",
    order=12,
)
FEW = 2
"""Leads up to which a place counts."""


def sections(study: Study) -> list[Section]:
    """Nothing where that leaves out no model."""
    whole = grid(study.of(study.metric))
    kept = [at for at in range(len(whole.columns)) if _placed(whole, at)]
    if not kept or len(kept) == len(whole.columns):
        return []
    shown = part(whole, kept, lambda typed: not leads_of(typed)[1])
    left_out = [h.label for at, h in enumerate(whole.columns) if at not in kept]
    note = (
        f"Columns with one of the first three places at up to {FEW} random leads in any task. "
        f"Places are among all columns; left out: {enumerated(left_out)}."
    )
    table = full.table("table1", shown, [note], None)
    table = replace(table, notes=[note], formats=("md", "tex", "html"))
    return [Section(name="table1", title="Few leads, best models", short=CARD.title, parts=[table])]


def _placed(whole: Grid, at: int) -> bool:
    return any(
        scores[at] is not None and scores[at].rank is not None  # type: ignore[union-attr]
        for block in whole.tasks
        for typed, scores in block.lines.items()
        if leads_of(typed)[0] <= FEW and not leads_of(typed)[1]
    )
