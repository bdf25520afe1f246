"""Non-inferiority: what fewer leads cost, against the same model at twelve leads and against the
best model there, with verdicts by margin: see results/non_inferiority.py. The page shows the
verdicts; this is the table with all margins.
"""

import pandas as pd

from ecgbench import reports as r
from ecgbench.reports import _facts as facts
from ecgbench.reports._text import margin as margin_words
from ecgbench.results.non_inferiority import (
    LEAST_POSITIVES,
    LOST,
    MARGINS_ABOVE_CHANCE,
    OWN,
    compared,
)
from ecgbench.results.study import Run

CARD = r.ReportCard(
    title="Non-inferiority",
    summary="what fewer leads cost against twelve, with verdicts by margin",
    reads="run",
    order=45,
)


def rows(study: Run) -> pd.DataFrame:
    """Of each lead setting and what it is compared with; none without twelve leads, or fewer."""
    return compared(study)


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """Nothing of a run without twelve leads, or without fewer."""
    if rows.empty:
        return []
    heads = facts.heads_of(study)

    def against(row: r.Row) -> str:
        best = heads[row["against_model"], row["against_policy"]].label
        return OWN if row["against"] == OWN else f"{best}, {row['against']}"

    def note(row: r.Row) -> str:
        lost = f"lost: {row['lost_label']}" if "cancelled" in row.values() else ""
        return str(row["note"] or lost)

    table = r.Table(
        name="non_inferiority",
        caption=f"Macro {study.metrics[study.metric].title} at fewer leads less that at twelve.",
        columns=[
            facts.task_column(study),
            facts.model_column(study),
            facts.LEADS,
            r.Column("against", cell=against),
            r.difference_column(note="points, 95 % interval"),
            *(
                r.Column(f"margin_{margin:g}", f"Within {margin_words(margin)}", note="points")
                for margin in study.options.margins
            ),
            r.Column("detectable", kind="number", spell=r.points, note="points"),
            r.Column("note", cell=note),
        ],
        rows=rows,
        notes=[
            f"yes: the whole 95 % interval of the difference lies above minus the margin. No "
            f"verdict where the lower bound at twelve leads is not {MARGINS_ABOVE_CHANCE} margins "
            f"above chance; cancelled where a label with at least {LEAST_POSITIVES} positives "
            f"surely lost more than {r.points(LOST, 0)} points. The margins have no clinical "
            f"basis: choose yours with --set report.margins."
        ],
        summary="one row per task, column, lead setting and what it is compared with",
        formats=("csv", "md", "tex"),
    )
    title = "What fewer leads cost against twelve"
    return [
        r.Section(name="non_inferiority", page=False, title=title, short=CARD.title, parts=[table])
    ]
