"""`ecgbench report`: tables, figures and a page from a run folder."""

from pathlib import Path

import typer

from ecgbench.errors import MissingData


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("report")(report)


def report(
    run: Path = typer.Argument(None, help="Run folder.  (default: the newest under runs/)"),
    to: Path = typer.Option(None, "--to", help="Folder for the report.  (default: RUN/report)"),
    only: str = typer.Option(None, "--only", help="Reports to draw, comma-separated; see `ecgbench reports`.  (default: all)"),
) -> None:
    """Write index.html, main_table.{csv,md,tex} and lead_curve.{png,svg,csv}.

    Reads the run folder only: no model, no dataset, no network. Every number stands in a row of a CSV beside the page.
    """
    from ecgbench.reports._write import order, write
    from ecgbench.results.study import read

    names = order(only.split(",")) if only else None
    place = run or newest(Path("runs"))
    folder = to or place / "report"
    study = read(place)
    written = write(study, folder, names)
    states = study.cells["status"].value_counts().to_dict()
    typer.echo(f"{place}: " + ", ".join(f"{n} cells {s}" for s, n in states.items()))
    typer.echo("\n".join(str(p) for p in written))


def newest(folder: Path) -> Path:
    """The run whose plan was written last; MissingData when there is none."""
    plans = sorted(folder.glob("*/plan.json"), key=lambda p: p.stat().st_mtime)
    if not plans:
        raise MissingData(f"no run under {folder}/; run: ecgbench run, or name the folder: ecgbench report RUN")
    return plans[-1].parent
