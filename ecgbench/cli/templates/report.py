"""Best lead: the single lead with the highest macro AUROC of each model and task."""

from matplotlib.figure import Figure

from ecgbench import reports as r
from ecgbench.results.study import Run

CARD = r.ReportCard(title="Best lead", summary="the best single lead of each model", reads="run")


def sections(study: Run) -> list[r.Section]:
    """One table and its figure."""
    main = study.main
    single = main[(main["metric"] == study.metric) & main["leads"].str.fullmatch("[a-zA-Z]+[1-6]?")]
    best = single.sort_values("value").dropna(subset="value").groupby(["task", "model"]).tail(1)
    best = best.sort_values("task")[["task", "model", "leads", "value"]]
    if best.empty:
        text = r.Text("This run has no single lead by name: --leads I,II,V1.")
        return [r.Section(name="best_lead", title=CARD.title, parts=[text])]
    table = r.Table(
        name="best_lead",
        caption="The single lead with the highest score.",
        rows=best,
        columns=[
            r.Column("task", "Task", "group"),
            r.Column("model", "Model"),
            r.Column("leads", "Lead"),
            r.Column("value", "Score × 100", "number", r.points),
        ],
    )

    def draw(sheet: Figure) -> None:
        sheet.subplots().barh(best["model"] + ", " + best["task"], best["value"])

    figure = r.Figure(name="best_lead_bars", draw=draw, caption=table.caption, numbers=best)
    return [r.Section(name="best_lead", title=CARD.title, parts=[table, figure])]
