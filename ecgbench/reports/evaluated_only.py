"""Evaluated only: tasks whose labels are columns of another task's predictions, beside that task,
and their sum.

A label has one AUROC, in whichever task it stands: the predictions are the same. So the AUROCs of
PTB-XL All add up to those of Diag, Form and Rhythm less those of the codes that stand in two of
them (71 = 44 + 19 + 12 - 4 labels), to the last bit. Where they do not, something scored other
records or other predictions.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from ecgbench import datasets
from ecgbench.core.text import counted
from ecgbench.reports import Cell, Column, Notes, Numbers, ReportCard, Row, Section, Table
from ecgbench.reports._facts import (
    DAGGER,
    Head,
    columns,
    gaps,
    heads_of,
    records,
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
NUMBERS = (
    *("task", "model", "policy", "leads", "setting", "fit_seed", "fold", "part"),
    *("labels", "defined", "auroc_sum", "auroc_mean", "shared_equal", "sum_equal"),
)
WHOLE, SUM = "whole", "sum of the parts"

Values = Mapping[str, tuple[float | None, int]]
"""Label -> its score, None where undefined, and the records that it is known of."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """One cell of a task and the same cell of those that are its columns."""

    task: str
    head: Head
    names: Mapping[str, Any]
    """Setting, leads as typed, fit seed and fold."""
    whole: Values
    parts: Mapping[str, Values]
    """By task; only those that have a number."""

    @property
    def shared_equal(self) -> bool:
        """Whether every label of a part has the very value that it has in the whole."""
        return all(
            self.whole.get(label) == value
            for part in self.parts.values()
            for label, value in part.items()
        )

    @property
    def same_records(self) -> bool:
        """Whether parts and whole were scored on as many records, label by label."""
        return all(
            self.whole[label][1] == n
            for part in self.parts.values()
            for label, (_, n) in part.items()
            if label in self.whole
        )

    @property
    def again(self) -> Counter[str]:
        """Label -> in how many parts it stands beyond the first."""
        times = Counter(label for part in self.parts.values() for label in part)
        return Counter({label: n - 1 for label, n in times.items() if n > 1})

    @property
    def complete(self) -> bool:
        """Whether the parts hold every label of the whole."""
        return set(self.union) == set(self.whole)

    @property
    def summed(self) -> float:
        """Sum of the parts less what stands in several, rounded once."""
        every = [v for part in self.parts.values() for v in _there(part)]
        once = self.union
        twice = [-v for label in self.again.elements() for v in _there({label: once[label]})]
        return fsum([*every, *twice])

    @property
    def sum_equal(self) -> bool | None:
        """Whether that is the sum of the whole, to the last bit; None where the parts do not hold
        all of it.
        """
        return self.summed == fsum(_there(self.whole)) if self.complete else None

    @property
    def union(self) -> Values:
        """Every label of the parts once, with the value that it has in the first of them."""
        return {k: v for part in reversed(list(self.parts.values())) for k, v in part.items()}


def _there(values: Values) -> list[float]:
    return [value for value, _ in values.values() if value is not None]


def sections(study: Study) -> list[Section]:
    """A table per metric of each whole and its parts; a sentence where there are none."""
    parts: list[Any] = []
    for name in study.metrics:
        mine = study.of(name)
        if families := list(_families(mine)):
            parts += [_table(mine, families, name == study.metric)]
    if not parts:
        parts = [Notes(["This run holds no task together with one that is columns of it."])]
    return [
        Section(
            name="evaluated_only",
            title="Tasks that are evaluated only, beside the task whose columns they are",
            short=CARD.title,
            parts=parts,
        )
    ]


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


def _families(study: Study) -> Iterator[Family]:
    heads = heads_of(study)
    cells: dict[tuple[Any, ...], dict[str, Values]] = {}
    named = ("model", "policy", "setting", "fit_seed", "fold")
    for row in records(study.labels):
        cell = cells.setdefault(tuple(row[n] for n in named), {})
        of_task: dict[str, tuple[float | None, int]] = cell.setdefault(row["task"], {})  # type: ignore[assignment]
        of_task[row["label"]] = (row["value"], row["n"])
    which = study.cells.drop_duplicates("setting")
    typed = dict(zip(which["setting"], which["leads"]))
    for whole, parts in _children(study).items():
        for names, tasks in cells.items():
            there = {part: tasks[part] for part in parts if part in tasks}
            if whole in tasks and there:
                known = dict(zip(named, names)) | {"leads": typed[names[2]]}
                yield Family(
                    task=whole,
                    head=heads[names[0], names[1]],
                    names=known,
                    whole=tasks[whole],
                    parts=there,
                )


def _table(study: Study, families: Sequence[Family], first: bool) -> Table:
    titles, title = titles_of(study), study.metrics[study.metric].title
    groups: dict[tuple[Any, ...], list[Family]] = {}
    for family in families:
        groups.setdefault((family.task, family.head.names, family.names["leads"]), []).append(
            family
        )
    return Table(
        name="evaluated_only" if first else f"evaluated_only_{study.metric}",
        caption=f"Macro {title}, and the sum of the labels' {title} over those that are defined.",
        columns=(
            Column("model", "Model", "group"),
            Column("leads", "Leads"),
            Column("task", "Task"),
            Column("labels", "Labels", "number"),
            Column("defined", "Defined", "number"),
            Column("sum", f"Sum of {title}", "number", "{:.4f}".format),
            Column("mean", f"Mean {title}", "number", "{:.4f}".format),
            Column("said", "Equal to the last bit"),
        ),
        rows=[row for mine in groups.values() for row in _rows(mine, titles)],
        notes=[
            "Means over draws of leads, fits and folds. The comparison is made in every cell. A "
            "label without both values in the test set is in no sum.",
            *_lacking(study, titles),
        ],
        marks={"†": DAGGER} | untrained_marks(columns(study)),
        numbers=Numbers(
            columns=NUMBERS,
            rows=[row for family in families for row in _plain(family)],
            summary="one row per cell, of a task, of each that is columns of it, and of their sum",
        )
        if first
        else None,
        formats=("csv", "md", "tex", "html") if first else ("md", "tex", "html"),
    )


def _lacking(study: Study, titles: Mapping[str, str]) -> Iterator[str]:
    """Cells of these tasks that have no number."""
    children, heads = _children(study), heads_of(study)
    mine = {*children, *(part for parts in children.values() for part in parts)}
    for gap in gaps(study):
        if gap.task in mine:
            where = f"{titles[gap.task]}, {heads[gap.model, gap.policy].label}"
            yield f"{where} at {', '.join(gap.leads)}: {gap.word}: {gap.reason}."


def _rows(mine: Sequence[Family], titles: Mapping[str, str]) -> Iterator[Row]:
    """Of one model and lead setting: the whole, the parts, the sum."""
    first = mine[0]
    same = {"model": first.head.cell, "leads": first.names["leads"]}
    yield same | {"task": titles[first.task]} | _own([f.whole for f in mine])
    for part in dict.fromkeys(part for family in mine for part in family.parts):
        said = {"task": Cell(titles[part], "†")}
        yield same | said | _own([f.parts[part] for f in mine if part in f.parts])
    again = sum(first.again.values())
    names = " + ".join(titles[part].rpartition(" ")[2] for part in first.parts)
    yield (
        same
        | {
            "task": names + (f" − {again} shared" if again else ""),
            "said": _verdict(mine),
        }
        | _means([f.union for f in mine], [f.summed for f in mine])
    )


def _verdict(mine: Sequence[Family]) -> str:
    """In how many cells labels and sum are equal, or why that cannot be."""
    cells = counted(len(mine), "cell")
    if not all(f.same_records for f in mine):
        return "not compared: scored on other records (run --set scoring.rows=labelled)"
    labels = f"labels in {sum(f.shared_equal for f in mine)} of {cells}"
    if not all(f.complete for f in mine):
        return (
            f"{labels}; {len(mine[0].union)} of {counted(len(mine[0].whole), 'label')}, so no sum"
        )
    return f"{labels}, sum in {sum(f.sum_equal is True for f in mine)} of {cells}"


def _own(values: Sequence[Values]) -> dict[str, Any]:
    return {"said": ""} | _means(values, [fsum(_there(v)) for v in values])


def _means(values: Sequence[Values], sums: Sequence[float]) -> dict[str, Any]:
    """Labels, those defined, and means over cells of the sum and of the mean."""
    means = [s / len(_there(v)) for s, v in zip(sums, values) if _there(v)]
    return {
        "labels": len(values[0]),
        "defined": len(_there(values[0])),
        "sum": fsum(sums) / len(sums),
        "mean": fsum(means) / len(means) if len(means) == len(sums) else None,
    }


def _plain(family: Family) -> Iterator[Row]:
    names = {"task": family.task, "model": family.head.model, "policy": family.head.policy}
    same = names | dict(family.names)
    for part, values in ((WHOLE, family.whole), *family.parts.items()):
        there = _there(values)
        yield same | {
            "part": part,
            "labels": len(values),
            "defined": len(there),
            "auroc_sum": fsum(there),
            "auroc_mean": fsum(there) / len(there) if there else None,
        }
    yield same | {
        "part": SUM,
        "labels": len(family.union),
        "defined": len(_there(family.union)),
        "auroc_sum": family.summed,
        "shared_equal": family.shared_equal,
        "sum_equal": family.sum_equal,
    }
