"""Similarity: linear CKA between the features of the first two models of a run, by the number of
measured leads (Kornblith et al. 2019, arXiv:1905.00414, equation 5 with a linear kernel).

`ecgbench report RUN --set report.reports=tests/plugins/similarity.py`.
"""

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

CARD = ReportCard(
    title="Similarity",
    summary="linear CKA between the features of two models, by lead setting",
    reads="run",
    order=35,
)
COLUMNS = (
    Column("task", "Task", "group"),
    Column("leads", "Leads"),
    Column("cka", "CKA", "number", "{:.3f}".format),
)


def sections(study: Study) -> list[Section]:
    """A table and a figure; a sentence where the run has no two models."""
    if len(study.models) < 2:
        notes = Notes(["A run of two models is needed."])
        return [Section(name="similarity", title=CARD.title, parts=[notes])]
    rows, title = _rows(study), " and ".join(model.title for model in study.models[:2])
    caption = f"Mean over draws of the linear CKA between the features of {title}."
    points = [row for row in rows if str(row["leads"]).isdigit()]
    numbers = Numbers(columns=("task", "leads", "cka"), rows=points, summary="the points")
    parts = [
        Table(name="similarity", caption=caption, columns=COLUMNS, rows=rows),
        Figure(
            name="similarity_curve",
            draw=lambda sheet: _draw(sheet, points),
            caption=caption,
            numbers=numbers,
        ),
    ]
    title = f"Features of {title}"
    return [Section(name="similarity", title=title, short=CARD.title, parts=parts)]


def _rows(study: Study) -> list[Row]:
    """CKA by task and setting as typed; cells of both models have the same records."""
    first, second = (model.name for model in study.models[:2])
    cells = {(r.cell.fit.model, r.cell.task, str(r.cell.setting)): r for r in study.results}
    found: dict[tuple[str, str], list[float]] = {}
    for (model, task, setting), one in cells.items():
        other = cells.get((second, task, setting))
        if model == first and other is not None:
            cka = linear_cka(one.features()[1], other.features()[1])
            found.setdefault((task, one.cell.setting.typed), []).append(cka)
    rows = found.items()
    return [
        {"task": task, "leads": leads, "cka": float(np.mean(own))} for (task, leads), own in rows
    ]


def linear_cka(x: np.ndarray, y: np.ndarray) -> float:
    """Of features (record, dim) of the same records in two networks; between 0 and 1."""
    x, y = (side - side.mean(0) for side in (x.astype(np.float64), y.astype(np.float64)))
    own = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return float(np.linalg.norm(y.T @ x) ** 2 / own)


def _draw(sheet, rows: list[Row]) -> None:
    ax = sheet.subplots()
    for at, (_, group) in enumerate(groupby(rows, key=lambda row: row["task"])):
        points = sorted((int(row["leads"]), row["cka"]) for row in group)
        ax.plot(*zip(*points), **look(at))
    lead_axis(ax, [int(row["leads"]) for row in rows])
    ax.set(ylabel="linear CKA", ylim=(0, 1.05))
