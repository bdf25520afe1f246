"""Evaluated only: tasks whose labels are columns of another task's predictions, beside that task,
and their sum.

A label has one AUROC, in whichever task it stands: the predictions are the same. So the AUROCs of
PTB-XL All add up to those of Diag, Form and Rhythm less those of the codes that stand in two of
them (71 = 44 + 19 + 12 - 4 labels), to the last bit. Where they do not, something scored other
records or other predictions.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from typing import Any

import pandas as pd

from ecgbench import datasets
from ecgbench.core.text import counted
from ecgbench.reports import Cell, Column, Notes, Numbers, ReportCard, Row, Section, Table
from ecgbench.reports._facts import (
    DAGGER,
    columns,
    gaps,
    heads_of,
    titles_of,
    untrained_marks,
)
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Evaluated only",
    summary="tasks that are columns of another task beside it, and their sum (report.rows=all)",
    reads="run",
    order=12,
    asked_by="--set report.rows=all",
)
CELL = ("model", "policy", "setting", "fit_seed", "fold")
NUMBERS = (
    *("task", "model", "policy", "leads", "setting", "fit_seed", "fold", "part"),
    *("labels", "defined", "auroc_sum", "auroc_mean", "same_records", "shared_equal", "sum_equal"),
)
WHOLE, SUM = "whole", "sum of the parts"


def sections(study: Study) -> list[Section]:
    """A table per metric of each whole and its parts; a sentence where there are none."""
    parts: list[Any] = []
    for name in study.metrics:
        mine = study.of(name)
        if rows := [row for task, of in _children(mine).items() for row in _sums(mine, task, of)]:
            parts.append(_table(mine, rows, name == study.metric))
    if not parts:
        parts = [Notes(["This run holds no task together with one that is columns of it."])]
    title = "Tasks that are evaluated only, beside the task whose columns they are"
    return [Section(name="evaluated_only", title=title, short=CARD.title, parts=parts)]


def _children(study: Study) -> dict[str, list[str]]:
    """Task of the study -> those of the study that are columns of it, in the order of the card."""
    there = {task.name: task.dataset for task in study.tasks}
    children: dict[str, list[str]] = {}
    for dataset in dict.fromkeys(there.values()):
        if dataset not in datasets.ROOM.names():
            continue  # a plug-in that this process does not know
        for task in datasets.ROOM.card(dataset).tasks:
            if task.name in there and task.parent in there:
                children.setdefault(str(task.parent), []).append(task.name)
    return children


def _sums(study: Study, task: str, children: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Of each cell: the whole, its parts, and their sum."""
    labels = study.labels[study.labels["task"].isin([task, *children])]
    typed = study.cells.drop_duplicates("setting").set_index("setting")["leads"]
    for names, cell in labels.groupby(list(CELL), sort=False, dropna=False):
        scores = {name: of.set_index("label")[["value", "n"]] for name, of in cell.groupby("task")}
        there = [child for child in children if child in scores]
        if task not in scores or not there:
            continue
        same: dict[str, Any] = {"task": task, **dict(zip(CELL, names))}
        same["leads"] = typed.loc[same["setting"]]
        yield same | {"part": WHOLE} | _summed(scores[task])
        for child in there:
            yield same | {"part": child} | _summed(scores[child])
        yield same | {"part": SUM} | _compared(scores[task], [scores[c] for c in there])


def _summed(of: pd.DataFrame, total: float | None = None) -> dict[str, Any]:
    there = of["value"].dropna()
    total = fsum(there) if total is None else total
    mean = total / len(there) if len(there) else None
    return {"labels": len(of), "defined": len(there), "auroc_sum": total, "auroc_mean": mean}


def _compared(whole: pd.DataFrame, parts: Sequence[pd.DataFrame]) -> dict[str, Any]:
    """The sum of the parts less what stands in several, rounded once, and whether labels and sum
    are those of the whole to the last bit; None for the sum of some of its labels.
    """
    every = pd.concat(parts)
    again = every.index.duplicated()
    once = every[~again]
    twice = -once.loc[every.index[again], "value"]
    total = fsum([*every["value"].dropna(), *twice.dropna()])
    own = whole.reindex(every.index)
    equal = (own["value"] == every["value"]) | (own["value"].isna() & every["value"].isna())
    same = (own["n"] == every["n"]) | own["n"].isna()
    complete = set(once.index) == set(whole.index)
    return _summed(once, total) | {
        "same_records": bool(same.all()),
        "shared_equal": bool((equal & (own["n"] == every["n"])).all()),
        "sum_equal": total == fsum(whole["value"].dropna()) if complete else None,
    }


def _table(study: Study, rows: Sequence[dict[str, Any]], first: bool) -> Table:
    titles, title = titles_of(study), study.metrics[study.metric].title
    summary = "one row per cell, of a task, of each that is columns of it, and of their sum"
    return Table(
        name="evaluated_only" if first else f"evaluated_only_{study.metric}",
        caption=f"Macro {title}, and the sum of the labels' {title} over those that are defined.",
        columns=(
            Column("model", "Model", "group"),
            Column("leads", "Leads"),
            Column("task", "Task"),
            Column("labels", "Labels", "number"),
            Column("defined", "Defined", "number"),
            Column("auroc_sum", f"Sum of {title}", "number", "{:.4f}".format),
            Column("auroc_mean", f"Mean {title}", "number", "{:.4f}".format),
            Column("said", "Equal to the last bit"),
        ),
        rows=list(_shown(study, pd.DataFrame(rows), titles)),
        notes=[
            "Means over draws of leads, fits and folds. The comparison is made in every cell. A "
            "label without both values in the test set is in no sum.",
            *_lacking(study, titles),
        ],
        marks={"†": DAGGER} | untrained_marks(columns(study)),
        numbers=Numbers(columns=NUMBERS, rows=rows, summary=summary) if first else None,
        formats=("csv", "md", "tex", "html") if first else ("md", "tex", "html"),
    )


def _shown(study: Study, rows: pd.DataFrame, titles: Mapping[str, str]) -> Iterator[Row]:
    """Means over cells, of each model and lead setting: the whole, the parts, the sum."""
    heads = heads_of(study)
    for _, mine in rows.groupby(["task", "model", "policy", "leads"], sort=False):
        task, model, policy, leads = mine[["task", "model", "policy", "leads"]].iloc[0]
        parts = [part for part in dict.fromkeys(mine["part"]) if part not in (WHOLE, SUM)]
        for part in (WHOLE, *parts, SUM):
            own = mine[mine["part"] == part]
            row: dict[str, Any] = {"model": heads[model, policy].cell, "leads": leads}
            row |= {"task": titles[task], "said": ""}
            row |= {name: own[name].iloc[0] for name in ("labels", "defined")}
            row["auroc_sum"] = fsum(own["auroc_sum"]) / len(own)
            means = own["auroc_mean"]
            row["auroc_mean"] = None if means.isna().any() else fsum(means) / len(own)
            if part == SUM:
                several = mine[mine["part"].isin(parts)].drop_duplicates("part")["labels"].sum()
                shared = several - row["labels"]
                row["task"] = " + ".join(titles[part].rpartition(" ")[2] for part in parts)
                row["task"] += f" − {shared} shared" if shared else ""
                row["said"] = _verdict(own, mine["labels"].iloc[0])
            elif part != WHOLE:
                row["task"] = Cell(titles[part], "†")
            yield row


def _verdict(sums: pd.DataFrame, labels: int) -> str:
    """In how many cells labels and sum are equal, or why that cannot be."""
    cells = counted(len(sums), "cell")
    if not sums["same_records"].all():
        return "not compared: scored on other records (run --set scoring.rows=labelled)"
    said = f"labels in {int(sums['shared_equal'].sum())} of {cells}"
    if sums["sum_equal"].isna().any():
        return f"{said}; {sums['labels'].iloc[0]} of {counted(labels, 'label')}, so no sum"
    return f"{said}, sum in {int(sums['sum_equal'].sum())} of {cells}"


def _lacking(study: Study, titles: Mapping[str, str]) -> Iterator[str]:
    """Cells of these tasks that have no number."""
    children, heads = _children(study), heads_of(study)
    mine = {*children, *(part for parts in children.values() for part in parts)}
    for gap in gaps(study):
        if gap.task in mine:
            where = f"{titles[gap.task]}, {heads[gap.model, gap.policy].label}"
            yield f"{where} at {', '.join(gap.leads)}: {gap.word}: {gap.reason}."
