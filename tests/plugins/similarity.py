"""Similarity: linear CKA between the features of the first two models of a run, by the number of
measured leads.

`ecgbench report RUN --reports tests/plugins/similarity.py`. Source: Kornblith et al. 2019,
"Similarity of Neural Network Representations Revisited", arXiv:1905.00414, equation 5 with a linear
kernel.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby

import numpy as np

from ecgbench.reports import (
    Column,
    Figure,
    Notes,
    Numbers,
    ReportCard,
    Row,
    Section,
    Table,
    lead_axis,
    look,
)
from ecgbench.results.study import Study
from ecgbench.study.stored import Result

CARD = ReportCard(
    title="Similarity",
    summary="linear CKA between the features of two models, by lead setting",
    reads="run",
    order=35,
)


def sections(study: Study) -> list[Section]:
    """A table and a figure; a sentence where the run has no two models."""
    names = [model.name for model in study.models][:2]
    rows = list(_rows(study, names)) if len(names) == 2 else []
    title = " and ".join(model.title for model in study.models[:2])
    if not rows:
        return [
            Section(
                name="similarity",
                title=CARD.title,
                parts=[Notes(["A run of two models is needed."])],
            )
        ]
    columns = (
        Column("task", "Task", "group"),
        Column("leads", "Leads"),
        Column("draws", "Draws", "number"),
        Column("records", "Records", "number"),
        Column("cka", "CKA", "number", "{:.3f}".format),
    )
    note = (
        "Linear CKA on the test records of both: 1 where the features agree up to rotation and "
        "scale. Mean over draws."
    )
    table = Table(
        name="similarity",
        caption=f"{title}: CKA of their features.",
        columns=columns,
        rows=rows,
        notes=[note],
    )
    counted = [row for row in rows if str(row["leads"]).isdigit()]
    figure = Figure(
        name="similarity_curve",
        draw=lambda sheet: _draw(sheet, counted),
        caption=f"Linear CKA between the features of {title}.",
        numbers=Numbers(
            columns=("task", "leads", "cka"), rows=counted, summary="the points of the figure"
        ),
    )
    return [
        Section(
            name="similarity", title=f"Features of {title}", short=CARD.title, parts=[table, figure]
        )
    ]


def _rows(study: Study, names: list[str]) -> Iterator[Row]:
    for task, leads, pairs in _pairs(study, names):
        values = [_similarity(first, second) for first, second in pairs]
        cka, records = zip(*values)
        yield {
            "task": task,
            "leads": leads,
            "draws": len(pairs),
            "records": min(records),
            "cka": float(np.mean(cka)),
        }


def _pairs(
    study: Study, names: list[str]
) -> Iterator[tuple[str, str, list[tuple[Result, Result]]]]:
    """Cells of both models with the same task, setting and fit, by task and setting as typed."""
    sides: list[Mapping[tuple[str, str, str, int], Result]] = [
        {
            (r.cell.task, r.cell.setting.typed, str(r.cell.setting), r.cell.fit.seed): r
            for r in study.results
            if r.cell.fit.model == name
        }
        for name in names
    ]
    shared = [where for where in sides[0] if where in sides[1]]
    for (task, leads), group in groupby(shared, key=lambda where: where[:2]):
        yield task, leads, [(sides[0][where], sides[1][where]) for where in group]


def _similarity(first: Result, second: Result) -> tuple[float, int]:
    """CKA of two cells on the records of both, and how many these are."""
    (a, x), (b, y) = first.features(), second.features()
    both = sorted(set(a) & set(b))
    rows = [dict(zip(names, range(len(names)))) for names in (a, b)]
    mine, other = (
        part[[at[name] for name in both]].astype(np.float64) for part, at in zip((x, y), rows)
    )
    return linear_cka(mine, other), len(both)


def linear_cka(x: np.ndarray, y: np.ndarray) -> float:
    """Of features (record, dim) of the same records in two networks; between 0 and 1."""
    x, y = x - x.mean(0), y - y.mean(0)
    own = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return float(np.linalg.norm(y.T @ x) ** 2 / own)


def _draw(sheet, rows: list[Row]) -> None:
    ax = sheet.subplots()
    for at, (_, group) in enumerate(groupby(rows, key=lambda row: row["task"])):
        points = sorted((int(row["leads"]), row["cka"]) for row in group)
        ax.plot(*zip(*points), **look(at))
    lead_axis(ax, [int(row["leads"]) for row in rows])
    ax.set(ylabel="linear CKA", ylim=(0, 1.05))
