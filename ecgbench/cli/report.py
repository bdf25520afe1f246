"""`ecgbench report`: tables, figures and a page from the folder of a run, a profile, a pre-training
or an ablation.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ecgbench.cards.settings import assigned
from ecgbench.cli.options import SETS, argument, flag, option, words
from ecgbench.core.registry import folder_name
from ecgbench.core.text import counted
from ecgbench.errors import BadSetting, MissingData

if TYPE_CHECKING:
    import pandas as pd

    from ecgbench.results.study import Run

NAMED = 12
"""Cells of one model and reason, or files of a report, that are named one by one."""
SETTINGS = ("margins", "duplicates", "runs", "reports")
"""Keys of `--set`, in `report`."""
PLACES = ("folder", "to", "show")
"""Options that say nothing of what a report holds."""


def report(
    folder: Path = argument("Of a run, profile or pre-training.  (default: the newest run)", None),
    to: Path = option("Folder.  (default: FOLDER/report; with --tasks another one next to it)"),
    metrics: str = option(
        "Metrics of a run, the main one first: auroc,./mine.py.  (default: its own)"
    ),
    tasks: str = option("Only these tasks of a run, also in ranks and corrections."),
    only: str = option("Only these reports, names or paths; see `ecgbench list reports`."),
    baseline: str = option("Model to compare with.  (default: the first trained one of the run)"),
    against: str = option("Compare with published scores: paper (LAEF's), fmb (the benchmark's)."),
    beside: str = option("Folders that others exported: their rows stand beside.", "--with"),
    sets: list[str] = SETS,
    figures: str = option("Formats of figures: png, svg, pdf, comma-separated.  (default: all)"),
    publish: bool = flag("Refuse a run unless clean commits made every number.", "--publish"),
    show: bool = flag("Open the page in the browser when it is written.", "--open"),
) -> None:
    """Write the report of a run: a page with its tables and figures.

    Tables are written as CSV, Markdown and LaTeX, figures as PNG, SVG and PDF. Only the folder is
    read: no model, no dataset, no network access. Every number of the page is also in a CSV file.
    Of a run: main_table.{csv,md,tex}, lead_curve.{png,svg,pdf,csv}, verdicts.{csv,md},
    comparisons.csv, cells.csv, labels.csv, provenance.{csv,md} and commits.csv.

    Further settings: report.margins=0.02,0.05 (of non-inferiority), report.duplicates=FILE (from
    `ecgbench data duplicates --csv`: such patients count once), report.runs=FOLDER,... (other runs,
    with --against), report.reports=NAME,... (additional reports).
    """
    asked = {name: value for name, value in locals().items() if value and name not in PLACES}
    from ecgbench import reports
    from ecgbench.published import source as printed
    from ecgbench.results.origin import published
    from ecgbench.results.study import Run
    from ecgbench.study.progress import display

    settings = assigned(sets, dict.fromkeys((f"report.{key}" for key in SETTINGS), str))
    chosen = {key.partition(".")[2]: value for key, value in settings.items()}
    how: dict[str, Any] = {"also": _additional(chosen, against)}
    if only:
        how["only"] = [reports.resolve(name) for name in words(only) or ()]
    if figures:
        how["pictures"] = words(figures)
    sources = tuple(printed(name).name for name in words(against) or ())
    run = folder or newest(Path("runs"))
    # the report of the whole run stays what it is
    to = to or run / folder_name("-".join(["report", *(words(tasks) or ())]))
    others = [Path(word).expanduser() for word in words(beside) or ()]
    files = words(",".join(chosen.get(key, "") for key in ("duplicates", "runs"))) or ()
    made_from, page = reports.made_from(run, asked, [*map(Path, files), *others]), to / "index.html"
    if reports.up_to_date(to, made_from):
        typer.echo(f"the report of {run} is up to date; to make it again, remove {to}\n{page}")
    else:
        named = words(metrics) or (), display().stage, words(tasks) or ()
        source = reports.read(run, *named, others)
        if isinstance(source, Run):
            source = _with(source, baseline or "", chosen)
            source = replace(source, options=replace(source.options, against=sources))
        elif baseline or against or publish or settings:
            options = "--baseline, --against, --publish and --set"
            raise BadSetting(f"{options} are of runs; {run} is none")
        if publish:
            if only or tasks or others:
                whole = "a published report is whole; leave --only, --tasks and --with out"
                raise BadSetting(f"--publish: {whole}")
            source = replace(published(source), other_runs=tuple(map(published, source.other_runs)))
        write_and_print(source, run, to, made_from=made_from, **how)
    if show:
        typer.launch(page.resolve().as_uri())


def _additional(chosen: dict[str, str], against: str | None) -> list[str]:
    """Reports that are written in addition to the usual ones; UnknownName, BadSetting."""
    from ecgbench import reports

    if "runs" in chosen and not against:
        typed = f"--set report.runs={chosen['runs']}"
        raise BadSetting(f"{typed} belongs to --against; add --against paper or --against fmb")
    named = [reports.resolve(name) for name in words(chosen.get("reports")) or ()]
    return [*named, *(["against"] if against else [])]


def _with(study: "Run", baseline: str, chosen: dict[str, str]) -> "Run":
    """The study with what its reader asks of its reports; BadSetting where that cannot be met."""
    from ecgbench.published import METRIC
    from ecgbench.results import options
    from ecgbench.results.study import read

    first = options.chosen(baseline, list(dict.fromkeys(study.main["model"])), "--baseline")
    if len(first) > 1:
        raise BadSetting(f"--baseline {baseline}: one model")
    wanted = replace(study.options, baseline="".join(first))
    if "margins" in chosen:
        wanted = replace(wanted, margins=options.margins(chosen["margins"]))
    if "duplicates" in chosen:
        wanted = replace(wanted, paired=options.pairs(Path(chosen["duplicates"])))
    others = tuple(read(Path(folder), (METRIC,)) for folder in words(chosen.get("runs")) or ())
    return replace(study, options=wanted, other_runs=others)


def write_and_print(source: Any, run: Path, to: Path, **how: Any) -> None:
    """Write the report of what was read from `run`, and say which files (of many, the page), and
    of a run which cells have no number. `how`: see `reports.write`.
    """
    from ecgbench import reports
    from ecgbench.results.study import Run

    written = reports.write(source, to, **how)
    if isinstance(source, Run):
        cells = source.of(source.metric).cells
        states = cells["status"].value_counts().to_dict()
        typer.echo(f"{run}: " + ", ".join(f"{counted(n, 'cell')} {s}" for s, n in states.items()))
        for line in _without_number(cells):
            typer.echo(f"  {line}", err=True)
        if "only" not in how and not any(path.name == "predictions.csv" for path in written):
            typer.echo("  no predictions.csv: it would be too large, or empty", err=True)
    page = to / "index.html"
    if len(written) > NAMED and page in written:
        typer.echo(f"{len(written)} files in {to}; the page is")
        written = [page]
    typer.echo("\n".join(map(str, written)))


def _without_number(cells: "pd.DataFrame") -> Iterator[str]:
    """Names of the cells that have no number, those of one model and reason together; they are in
    no mean and no test.
    """
    without = cells[cells["status"] != "ok"]
    for (status, model, reason), part in without.groupby(["status", "model", "reason"], sort=False):
        named = list(part[["task", "setting", "policy"]].astype(str).agg(" ".join, axis=1))
        more = f" and {len(named) - NAMED} more (all are on the page)" if len(named) > NAMED else ""
        yield f"{status}: {model}: {', '.join(named[:NAMED])}{more}: {reason}"


def newest(folder: Path) -> Path:
    """The run on which a command worked last; MissingData when there is none."""
    runs = [plan.parent for plan in folder.glob("*/plan.toml")]
    if not runs:
        raise MissingData(
            f"no run under {folder}/; run: ecgbench run, or name the folder: ecgbench report FOLDER"
        )
    return max(runs, key=lambda run: max(file.stat().st_mtime for file in run.iterdir()))
