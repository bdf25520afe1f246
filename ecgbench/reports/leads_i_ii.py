"""Leads I and II: the leads of watches and hand-held recorders, in every record.

A row per task and lead as in the main table; below it each model's means over datasets and over
tasks, how far it lies behind the best, how often it is first, and beside it what it reaches with
one random lead, with the number of windows of a record that its score averages.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ecgbench.reports import (
    Cell,
    Column,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Row,
    Section,
    Table,
    bracket,
    p_value,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports import main_table as full
from ecgbench.reports._facts import Head, heads_of, setting_words, untrained_marks
from ecgbench.reports._grid import Grid, grid, part
from ecgbench.reports._standing import Standing, stand_ahead, standing
from ecgbench.reports.across import first_places, of_how_many
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Leads I and II",
    summary="the leads of watches and hand-held recorders, task by task and on average",
    reads="run",
    order=14,
)
LEADS = ("I", "II")
RANDOM_ONE = "1"
Shown = dict[str, Any]


def sections(study: Study) -> list[Section]:
    """Nothing of a run without lead I and lead II."""
    whole = grid(study.of(study.metric))
    fixed = _fixed(whole)
    if not fixed.tasks:
        return []
    table = replace(
        full.table("leads_i_ii", fixed, [], None),
        caption=f"Macro {whole.metric.title} × 100 with lead I or lead II alone.",
        formats=("md", "tex", "html"),
    )
    stand_ahead(study, LEADS)
    found = [s for leads in LEADS if (s := standing(study, leads)) and len(s.tasks) > 1]
    rows = [row for s in found for row in _rows(study, s)]
    parts: list[Part] = [table, *([_averages(study, found, rows)] if rows else [])]
    if rows:
        parts.append(
            Notes(
                [
                    "Random: one lead drawn for each record; its mean is over the same datasets. "
                    "Models average their score over different numbers of windows of a record: "
                    "where a lead is drawn for each window (scoring.draw=window), more windows see "
                    "more leads."
                ]
            )
        )
    return [Section(name="leads_i_ii", title="Leads I and II alone", short=CARD.title, parts=parts)]


def _fixed(whole: Grid) -> Grid:
    there = [block for block in whole.tasks if set(LEADS) <= set(block.lines)]
    every = range(len(whole.columns))
    return part(replace(whole, tasks=there), every, lambda typed: typed in LEADS)


def _rows(study: Study, s: Standing) -> list[Shown]:
    random = standing(study, RANDOM_ONE, among=s.tasks)
    windows = {model.name: model.windows for model in study.models}
    first = first_places(study, s)
    rows = []
    for place, head in enumerate((*s.heads, *s.untrained)):
        pair = s.pair(s.heads[0], head) if place and not head.untrained else None
        low, high = s.intervals[head]
        rows.append(
            {
                "leads": s.leads,
                "model": head.model,
                "policy": head.policy,
                "untrained": head.untrained,
                "datasets": len(s.joint.datasets),
                "tasks": len(s.tasks),
                "value": s.values[head],
                "low": low,
                "high": high,
                "value_by_task": s.by_task[head],
                "behind": pair.estimate.value if pair else None,
                "behind_low": pair.bounds.low if pair else None,
                "behind_high": pair.bounds.high if pair else None,
                "p_holm": pair.p_holm if pair else None,
                "first": first.get(head),
                "random": random.values.get(head) if random and random.tasks == s.tasks else None,
                "windows": windows.get(head.model),
            }
        )
    empty = dict.fromkeys(rows[0])
    lost = [
        {"leads": s.leads, "model": h.model, "policy": h.policy, "untrained": h.untrained}
        for h in s.lost
    ]
    return [*rows, *(empty | row for row in lost)]


def _averages(study: Study, found: Sequence[Standing], rows: Sequence[Shown]) -> Table:
    heads = heads_of(study)
    shown = [_line(row, heads[row["model"], row["policy"]]) for row in rows]
    lost = [
        f"{head.label}, {setting_words(s.leads)}: {why}"
        for s in found
        for head, why in s.lost.items()
    ]
    data, tasks, own = of_how_many(found)
    return Table(
        name="leads_i_ii_means",
        caption="Means with lead I or lead II alone.",
        columns=[
            Column("leads", "Lead", "group"),
            Column("model", "Model"),
            *own,
            Column("mean", "Mean", "number", note=f"{data}, 95 % interval"),
            Column("by_task", "Mean", "number", points, note=tasks),
            Column("behind", "Best − model", "number", note="points, 95 % interval"),
            Column("p_holm", "p", "number", p_value, note="Holm"),
            Column("first", "First", "number", note="of tasks"),
            Column("random", "Random", "number", points, note="one lead"),
            Column("windows", "Windows", "number", "{:.3g}".format, note="averaged"),
        ],
        rows=shown,
        notes=lost,
        marks=untrained_marks(heads.values()),
        numbers=Numbers(columns=list(rows[0]), rows=rows, summary="one row per lead and column"),
    )


def _line(row: Shown, head: Head) -> Row:
    line: Shown = {"leads": setting_words(row["leads"]), "model": head.cell}
    names = ("p_holm", "first", "random", "windows", "datasets", "tasks")
    line |= {name: row.get(name) for name in names}
    line |= {"mean": None, "by_task": row["value_by_task"], "behind": None}
    if row["value"] is not None:
        line["mean"] = Cell(points(row["value"]), small=bracket(row["low"], row["high"]))
        line["behind"] = ""
    if row["behind"] is not None:
        bounds = signed_bracket(row["behind_low"], row["behind_high"])
        line["behind"] = Cell(signed(row["behind"]), small=bounds)
    return line
