"""One lead: the mean of the scores within each of the twelve leads beside the score of one random
lead per record, in which records with different leads are ranked together.

The difference is what mixing leads on one scale costs: a record seen in V1 may score higher or
lower as a whole than one seen in II. Both are computed from the same records and the same fits, and
the interval is of their difference.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from ecgbench.ecg.leads import LEADS
from ecgbench.reports import (
    Cell,
    Column,
    Numbers,
    ReportCard,
    Row,
    Section,
    Table,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports._facts import Head, columns, titles_of, untrained_marks
from ecgbench.results import ahead
from ecgbench.results.by_label import number
from ecgbench.results.joint import Entry, joint, lacking
from ecgbench.results.study import Study

CARD = ReportCard(
    title="One lead",
    summary="the score within each of the twelve leads beside that of leads mixed",
    reads="run",
    order=32,
)
MIXED = "1"
"""One random lead per record, as typed."""
COLUMNS = (
    *("task", "model", "policy", "metric", "within", "mixed", "difference", "low", "high"),
    *("status", "reason"),
)


def sections(study: Study) -> list[Section]:
    """One table, where a run has one random lead and all twelve single ones."""
    asked = set(study.main["leads"])
    if study.scorer is None or not {MIXED, *LEADS} <= asked:
        return []
    heads = columns(study)
    columns_of = [(task, head) for task in titles_of(study) for head in heads]
    pieces = [partial(_rows, study, *one) for one in columns_of]
    ahead.each(study.scorer, study.stage, (CARD.title, "models of a task"), pieces)
    rows = [row for one in columns_of for row in _rows(study, *one)]
    if not rows:
        return []
    return [
        Section(
            name="one_lead",
            title="One lead: within leads, and mixed",
            short=CARD.title,
            parts=[_table(study, rows, heads)],
        )
    ]


def _rows(study: Study, task: str, head: Head) -> list[dict[str, Any]]:
    """One, where the column is asked for at these settings."""
    entries = [Entry(*head.names, leads) for leads in (MIXED, *LEADS)]
    main = study.main
    own = main[(main["task"] == task) & (main["model"] == head.model)]
    own = own[own["policy"] == head.policy]
    if not {MIXED, *LEADS} <= set(own["leads"]):
        return []
    row = {"task": task, "model": head.model, "policy": head.policy, "metric": study.metric}
    if why := lacking(study, entries, [task]).get(task):
        statuses = set(own[own["leads"].isin([MIXED, *LEADS])]["status"]) - {"ok"}
        return [row | {"status": min(statuses, default="undefined"), "reason": why}]
    found = joint(study, entries, [task])
    weights = [-1.0, *[1 / len(LEADS)] * len(LEADS)]
    difference = found.contrast(weights)
    low, high = difference.as_difference()
    computed = {
        "within": float(found.values[1:].mean()),
        "mixed": float(found.values[0]),
        "difference": difference.value,
        "low": number(low),
        "high": number(high),
        "status": "ok",
        "reason": "",
    }
    return [row | computed]


def _table(study: Study, rows: Sequence[Row], heads: Sequence[Head]) -> Table:
    titles = titles_of(study)
    of = {head.names: head for head in heads}
    metric = study.metrics[study.metric].title
    spelled = [
        {
            "task": titles[r["task"]],
            "model": of[r["model"], r["policy"]].cell,
            "within": r["within"] if r["status"] == "ok" else Cell(r["status"]),
            "mixed": r.get("mixed"),
            "difference": _with_interval(r) if r["status"] == "ok" else None,
        }
        for r in rows
    ]
    return Table(
        name="one_lead",
        caption=f"Macro {metric} × 100 at one lead: within each lead, and with leads mixed.",
        columns=[
            Column("task", "Task", "group"),
            Column("model", "Model"),
            Column("within", "Within", "number", points, "mean of the twelve leads"),
            Column("mixed", "Mixed", "number", points, "one random lead per record"),
            Column("difference", "Difference", note="95 % interval"),
        ],
        rows=spelled,
        notes=[
            "Within a lead, all records are ranked by the same lead. Mixed, a record seen in one "
            "lead is ranked among records seen in others: the difference is what it costs that "
            "scores of different leads do not share a scale. The interval is over patients."
        ],
        marks=untrained_marks(heads),
        numbers=Numbers(
            columns=COLUMNS, rows=rows, summary="one row per task and model; fractions"
        ),
    )


def _with_interval(row: Row) -> str:
    return f"{signed(row['difference'])} {signed_bracket(row['low'], row['high'])}".strip()
