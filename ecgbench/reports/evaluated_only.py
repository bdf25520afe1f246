"""Evaluated only: tasks whose labels are columns of another task's predictions, beside that task,
and their sum.

A label has one AUROC, in whichever task it stands: the predictions are the same. So the AUROCs of
PTB-XL All add up to those of Diag, Form and Rhythm less those of the codes that stand in two of
them (71 = 44 + 19 + 12 - 4 labels), to the last bit. Where they do not, something scored other
records or other predictions.
"""

from collections.abc import Iterator, Sequence
from math import fsum
from typing import Any

import pandas as pd

from ecgbench import datasets
from ecgbench import reports as r
from ecgbench.core.text import counted
from ecgbench.reports import _facts as facts
from ecgbench.results.study import Study

CARD = r.ReportCard(
    title="Evaluated only",
    summary="tasks that are columns of another task beside it, and their sum (report.rows=all)",
    reads="run",
    order=12,
    asked_by="--set report.rows=all",
)
CELL = ("model", "policy", "setting", "fit_seed", "fold")
COLUMNS = [
    *("task", "model", "policy", "leads", "setting", "fit_seed", "fold", "part"),
    *("labels", "defined", "auroc_sum", "auroc_mean", "same_records", "shared_equal", "sum_equal"),
]
WHOLE, SUM = "whole", "sum of the parts"


def sections(study: Study) -> list[r.Section]:
    """A table per metric of each whole and its parts; a sentence where there are none."""
    parts: list[Any] = []
    for name in study.metrics:
        mine = study.of(name)
        if rows := [row for task, of in _children(mine).items() for row in _sums(mine, task, of)]:
            parts.append(_table(mine, pd.DataFrame(rows, columns=COLUMNS), name == study.metric))
    if not parts:
        parts = [r.Notes(["This run holds no task together with one that is columns of it."])]
    title = "Tasks that are evaluated only, beside the task whose columns they are"
    return [r.Section(name="evaluated_only", title=title, short=CARD.title, parts=parts)]


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


def _table(study: Study, rows: pd.DataFrame, first: bool) -> r.Table:
    """Means over cells; in how many of them labels and sum are equal."""
    titles, title = facts.titles_of(study), study.metrics[study.metric].title
    means = (
        rows.assign(
            unknown=rows["sum_equal"].isna(),
            sum_equal=rows["sum_equal"].eq(True),
            shared_equal=rows["shared_equal"].eq(True),
            same_records=rows["same_records"].ne(False),
        )
        .groupby(["task", *facts.MODEL, "leads", "part"], sort=False)
        .agg(
            labels=("labels", "first"),
            defined=("defined", "first"),
            auroc_sum=("auroc_sum", "mean"),
            auroc_mean=("auroc_mean", "mean"),
            cells=("part", "size"),
            comparable=("same_records", "all"),
            labels_equal=("shared_equal", "sum"),
            sum_equal=("sum_equal", "sum"),
            incomplete=("unknown", "all"),
        )
    )

    def part(row: r.Row) -> r.Cell:
        if row["part"] in titles:
            return r.Cell(titles[row["part"]], "†")
        return r.Cell(titles[row["task"]] if row["part"] == WHOLE else SUM)

    return r.Table(
        name="evaluated_only" if first else f"evaluated_only_{study.metric}",
        caption=f"Macro {title}, and the sum of the labels' {title} over those that are defined.",
        rows=means.reset_index(),
        columns=[
            facts.model_column(study, kind="group"),
            facts.LEADS,
            r.Column("part", "Task", cell=part),
            r.Column("labels", "Labels", "number"),
            r.Column("defined", "Defined", "number"),
            r.Column("auroc_sum", f"Sum of {title}", "number", "{:.4f}".format),
            r.Column("auroc_mean", f"Mean {title}", "number", "{:.4f}".format),
            r.Column("equal", "Equal to the last bit", cell=_equal),
        ],
        notes=[
            "Means over draws of leads, fits and folds. The comparison is made in every cell. A "
            "label that stands in several parts, or lacks one of its values in the test set, is "
            "added up once, or not at all."
        ],
        numbers=rows,
        summary="one row per cell, of a task, of each that is columns of it, and of their sum",
        formats=("csv", "md", "tex", "html") if first else ("md", "tex", "html"),
    )


def _equal(row: r.Row) -> str:
    """In how many cells labels and sum are those of the whole, or why that cannot be."""
    if row["part"] != SUM:
        return ""
    if not row["comparable"]:
        return "not compared: scored on other records (run --set scoring.rows=labelled)"
    cells = counted(row["cells"], "cell")
    words = f"labels in {row['labels_equal']} of {cells}"
    if row["incomplete"]:
        return f"{words}; only {counted(row['labels'], 'label')}, so no sum"
    return f"{words}, sum in {row['sum_equal']} of {cells}"
