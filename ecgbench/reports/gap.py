"""Gap budget: where the loss from twelve leads to fewer comes from: from the information that the
leads hold, from a head that was trained at all leads, or from filling the missing ones.

A run has it where `ecgbench run --train-leads all,same` trained both heads.
"""

from functools import partial
from typing import Any

import pandas as pd

from ecgbench import reports as r
from ecgbench.reports import _facts as facts
from ecgbench.results.gap import TERMS, gap
from ecgbench.results.study import Run
from ecgbench.study.scores import MACRO

CARD = r.ReportCard(
    title="Gap budget",
    summary="what of the loss at fewer leads is the leads', the head's, and the filling's",
    reads="run",
    order=33,
)
_NOTE = (
    "Points of macro AUROC, paired over patients; information, head and filling sum to the whole. "
    "Information: heads trained at these very leads, less twelve leads. Head: what a head that was "
    "trained at all leads costs here. Filling: filled leads less reading only what was measured, "
    "where the run has both; else it is part of the information."
)


def rows(study: Run) -> pd.DataFrame:
    """Of each task, label, lead setting and model; none with one kind of heads."""
    return gap(study)


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """Nothing of a run with one kind of heads."""
    if rows.empty:
        return []
    macro = rows[rows["label"] == MACRO]
    return [r.Section(name="gap", title=CARD.title, parts=[_table(study, rows, macro)])]


def _table(study: Run, rows: Any, macro: Any) -> r.Table:
    return r.Table(
        name="gap",
        caption="Score at fewer leads less that at twelve, and where the difference comes from.",
        columns=[
            facts.task_column(study),
            facts.LEADS,
            facts.model_column(study),
            r.Column("full", kind="number", spell=r.points),
            *(r.Column(term, kind="number", cell=partial(_cell, term)) for term in TERMS),
        ],
        rows=macro,
        numbers=rows,
        notes=[_NOTE],
        summary="one row per task, label, lead setting and model",
    )


def _cell(term: str, row: r.Row) -> Any:
    if row[term] is None:
        return ""
    low, high = row[f"{term}_low"], row[f"{term}_high"]
    tone: Any = "bad" if high < 0 and not row["reason"] else ""
    return r.TableCell(r.signed(row[term]), small=r.signed_bracket(low, high), tone=tone)
