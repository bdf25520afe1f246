"""`ecgbench report`: tables, figures and a page from a run folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ecgbench.errors import BadSetting, MissingData

if TYPE_CHECKING:
    import pandas as pd

NAMED = 12
"""Cells of one model and reason that are named one by one."""


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("report")(report)


def report(
    run: Path = typer.Argument(None, help="Folder of a run or of a pre-training.  (default: the newest run under runs/)"),
    to: Path = typer.Option(None, "--to", help="Folder for the report.  (default: RUN/report)"),
    metrics: str = typer.Option(None, "--metrics", help="Metrics, the first leads: auroc,./mine.py.  (default: those of the run)"),
    only: str = typer.Option(None, "--only", help="Reports to draw, comma-separated; see `ecgbench reports`.  (default: all)"),
) -> None:
    """Write index.html, main_table.{csv,md,tex} and lead_curve.{png,svg,csv}.

    Reads the run folder only: no model, no dataset, no network. Every number stands in a row of a CSV beside the page.
    Of a pre-training, finished or not: index.html, dynamics, curve and elbow as .png and .svg, the numbers of dynamics, elbow and
    phases as .csv.
    """
    from ecgbench.reports import _pretraining
    from ecgbench.reports._write import order, write
    from ecgbench.results.study import read

    if run and _pretraining.is_one(run):
        if only:
            raise BadSetting(f"--only {only}: the report of a pre-training is drawn whole; run: ecgbench report {run}")
        typer.echo("\n".join(str(path) for path in _pretraining.draw(run, to)))
        return
    names = order(only.split(",")) if only else None
    place = run or newest(Path("runs"))
    folder = to or place / "report"
    study = read(place, metrics.split(",") if metrics else ())
    written = write(study, folder, names)
    cells = study.of(study.metric).cells
    states = cells["status"].value_counts().to_dict()
    typer.echo(f"{place}: " + ", ".join(f"{n} cells {s}" for s, n in states.items()))
    for line in _without_number(cells):
        typer.echo(f"  {line}", err=True)
    typer.echo("\n".join(str(p) for p in written))


def _without_number(cells: "pd.DataFrame") -> Iterator[str]:
    """Names of the cells that have no number, those of one model and reason together; their rows are in no mean and no test."""
    for (status, model, reason), part in cells[cells["status"] != "ok"].groupby(["status", "model", "reason"], sort=False):
        named = [f"{task} {setting} {policy}" for task, setting, policy in zip(part["task"], part["setting"], part["policy"], strict=True)]
        more = f" and {len(named) - NAMED} more (all are on the page)" if len(named) > NAMED else ""
        yield f"{status}: {model}: {', '.join(named[:NAMED])}{more}: {reason}"


def newest(folder: Path) -> Path:
    """The run whose plan was written last; MissingData when there is none."""
    plans = sorted(folder.glob("*/plan.json"), key=lambda p: p.stat().st_mtime)
    if not plans:
        raise MissingData(f"no run under {folder}/; run: ecgbench run, or name the folder: ecgbench report RUN")
    return plans[-1].parent
