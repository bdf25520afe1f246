"""The main table as reports print it: ranked, with footnotes.

Ranks are taken on unrounded values, among trained columns, where there are RANKED of them and a
test was possible. A score at chance or worse has none.
"""

from typing import Any

import numpy as np
import pandas as pd

from ecgbench.core.note import Notes
from ecgbench.reports._facts import PENDING, columns, gaps, tasks
from ecgbench.reports._section import Score, records
from ecgbench.results.study import Run, once

NAMES = ["task", "model", "leads", "policy"]
"""What tells a row of the main table of one metric from all others."""

RANKED = 4
"""Columns from which places have colours."""


@once
def reasons(study: Run) -> dict[tuple[str, ...], str]:
    """NAMES -> why a row has no number: the distinct reasons of its cells, failures first."""
    texts: dict[tuple[str, ...], list[str]] = {}
    order = ("failed", "damaged", "skipped", PENDING)
    for gap in sorted(gaps(study), key=lambda gap: order.index(gap.word)):
        for leads in gap.leads:
            text = f"{gap.word}{'; ' if gap.word == PENDING else ': '}{gap.reason}"
            texts.setdefault((gap.task, gap.model, leads, gap.policy), []).append(text)
    return {names: "; ".join(each) for names, each in texts.items()}


@once
def ranked(study: Run) -> dict[str, pd.DataFrame]:
    """Metric -> its rows of the main table, by task and setting, with more columns: `head` (the
    place of its column), `line` (its place in main_table.csv), `synthetic`, `untrained`, `alone`
    (compared with none), `rank` (1, 2, 3; else 0) and `score` (what a table prints).
    """
    main = study.main.assign(line=np.arange(len(study.main)))
    return {name: _ranked(study.of(name), main[main["metric"] == name]) for name in study.metrics}


def _ranked(study: Run, rows: pd.DataFrame) -> pd.DataFrame:
    heads = {head.names: (at, head.untrained) for at, head in enumerate(columns(study))}
    order = {task.task: (at, task.synthetic) for at, task in enumerate(tasks(study))}
    head = [heads[names] for names in zip(rows["model"], rows["policy"])]
    rows = rows.assign(
        head=[at for at, _ in head],
        untrained=[untrained for _, untrained in head],
        place=[order[task][0] for task in rows["task"]],
        synthetic=[order[task][1] for task in rows["task"]],
        alone=[any(note.kind == "alone" for note in notes) for notes in rows["note"]],
    )
    rows["setting"] = rows.groupby("task")["leads"].transform(lambda typed: pd.factorize(typed)[0])
    rows = rows.sort_values(["place", "setting", "head"], kind="stable")
    values = rows["value"].where(~(rows["untrained"] | rows["alone"]))
    competing = values.groupby([rows["task"], rows["leads"]])
    lower = study.metrics[study.metric].direction == "lower"
    rank = competing.rank(method="dense", ascending=lower)
    card = study.metrics[study.metric]
    far = rows["value"] - (card.chance or 0.0)
    beyond = (card.chance is None) | (study.sign * far > 0)
    tested = rows.groupby(["task", "leads"])["best"].transform("any").astype(bool)
    many = competing.transform("count") >= RANKED
    rank = rank.where((rank <= 3) & many & tested & beyond).fillna(0)
    rows["rank"] = rank.astype(int)
    why = reasons(study)
    scores: Any = [_score(row, why) for row in records(rows)]
    return rows.assign(score=scores).reset_index(drop=True)


def _score(row: dict[str, Any], why: dict[tuple[str, ...], str]) -> Score:
    if row["status"] == "ok":
        # the sign of the column says that it is untrained, a banner what was not committed
        footnote = str(Notes(n for n in row["note"] if n.kind not in ("untrained", "uncommitted")))
    else:
        footnote = why.get(tuple(row[name] for name in NAMES), row["status"])
    return Score(
        **{name: row[name] for name in ("value", "low", "high")},
        rank=row["rank"] or None,
        star=bool(row["not_significantly_worse"]) and not row["best"],
        footnote=footnote,
    )
