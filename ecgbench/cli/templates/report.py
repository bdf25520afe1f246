"""Best lead: the single lead with the highest macro AUROC of each model and task."""

import pandas as pd
from matplotlib.figure import Figure

from ecgbench import reports as r
from ecgbench.results.study import Run

CARD = r.ReportCard(title="Best lead", summary="the best single lead of each model", reads="run")


def rows(study: Run) -> pd.DataFrame:
    """The best single lead of each model and task."""
    main = study.main
    single = main[(main["metric"] == study.metric) & main["leads"].str.fullmatch("[a-zA-Z]+[1-6]?")]
    best = single.sort_values("value").dropna(subset="value").groupby(["task", "model"]).tail(1)
    return best.sort_values("task")[["task", "model", "leads", "value"]]


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """One table and its figure. Without this function the page shows the rows as they are."""
    if rows.empty:
        text = r.Text("This run has no single lead by name: --leads I,II,V1.")
        return [r.Section(name="best_lead", title=CARD.title, parts=[text])]
    table = r.Table(
        name="best_lead",
        caption="The single lead with the highest score.",
        rows=rows,
        columns=[
            r.Column("task", "Task", "group"),
            r.Column("model", "Model"),
            r.Column("leads", "Lead"),
            r.Column("value", "Score × 100", "number", r.points),
        ],
    )

    def draw(sheet: Figure) -> None:
        sheet.subplots().barh(rows["model"] + ", " + rows["task"], rows["value"])

    figure = r.Figure(name="best_lead_bars", draw=draw, caption=table.caption, numbers=rows)
    return [r.Section(name="best_lead", title=CARD.title, parts=[table, figure])]
