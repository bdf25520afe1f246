"""`ecgbench report`: tables, figures and a page from the folder of a run, a profile, a pre-training
or an ablation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ecgbench.cli.options import RESULTS, add_commands, argument, flag, option, words
from ecgbench.core.registry import folder_name
from ecgbench.core.text import quoted
from ecgbench.errors import BadSetting, MissingData, UnknownName

if TYPE_CHECKING:
    import pandas as pd

    from ecgbench.results.study import Study

NAMED = 12
"""Cells of one model and reason that are named one by one."""
SETTINGS = ("margins", "blocks", "duplicates", "beside", "rows", "reports")
"""Keys of `--set report.KEY`."""
SHOWN = ("cells", "provenance")
"""Reports that no published page is without: what failed, and where numbers come from."""


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, report, panel=RESULTS)


def report(
    folder: Path = argument(
        "Of a run, profile, pre-training or ablation.  (default: the newest run under runs/)",
        None,
        metavar="[FOLDER]",
    ),
    to: Path | None = option(
        "Folder for the report.  (default: FOLDER/report; with --tasks one beside it)"
    ),
    metrics: str = option(
        "Of a run: metrics, the first leads: auroc,./mine.py.  (default: those of the run)"
    ),
    tasks: str = option(
        "Of a run: report these tasks alone, comma-separated; ranks and corrections too."
    ),
    only: str = option(
        "Reports on the page, comma-separated, a path adds your own; see `ecgbench list reports`."
    ),
    baseline: str = option(
        "Model that the others are compared with.  (default: the first trained one of the run)"
    ),
    against: str = option(
        "Scores beside printed ones: paper (that introduced LAEF), fmb (the reference benchmark)."
    ),
    sets: list[str] = option(
        "KEY=VALUE, any other setting: " + ", ".join(map("report.{}".format, SETTINGS)) + ".",
        "--set",
        default=[],
        metavar="KEY=VALUE",
    ),
    figures: str = option(
        "Files of each figure beside the page: png, svg, pdf, comma-separated.  (default: all)"
    ),
    publish: bool = flag(
        "Of a run: write it only if clean commits made every number and no cell is pending; the "
        "page says so.",
        "--publish",
    ),
    show: bool = flag("Open the page in the browser when it is written.", "--open"),
) -> None:
    """Write the report of a run: a page with its tables and figures.

    Every table is there as CSV, Markdown and LaTeX, every figure as PNG, SVG and PDF. Reads the
    folder only: no model, no dataset, no network. Every number stands in a row of a CSV beside the
    page. Of a run: main_table.{csv,md,tex}, lead_curve.{png,svg,pdf,csv}, verdicts.{csv,md},
    comparisons.csv, cells.csv, labels.csv, provenance.{csv,md} and commits.csv.

    Further settings: report.margins=0.02,0.05 (of non-inferiority), report.blocks=TASK,... (stand
    for their dataset where models are ranked), report.duplicates=FILE (of `ecgbench data duplicates
    --csv`: such patients count once), report.beside=FOLDER,... (other runs, with --against),
    report.rows=all (tasks that are evaluated only), report.reports=NAME,... (reports besides).
    """
    from ecgbench import reports
    from ecgbench.study.progress import display

    more = _more(sets)
    also, beside = more.get("reports"), more.get("beside")

    if "checklists" in f"{only},{also}".lower().split(","):
        raise BadSetting(
            "report 'checklists' is a page of the docs now: docs/reporting_checklists.md tells "
            "where each item of TRIPOD+AI and STARD-AI is found; leave the name out"
        )
    names = [reports.resolve(name) for name in only.split(",")] if only else None
    besides = [reports.resolve(name) for name in also.split(",")] if also else []
    besides += [f"against_{name}" for name in _sources(against, beside)]
    besides += ["evaluated_only"] if more.get("rows") else []
    place = folder or newest(Path("runs"))
    source = reports.read(
        place,
        metrics.split(",") if metrics else (),
        display().stage,
        tasks.split(",") if tasks else (),
    )
    source = _asked(
        source,
        place,
        {
            "--baseline": baseline or "",
            **{f"--set report.{n}": more.get(n, "") for n in ("blocks", "margins", "duplicates")},
        },
    )
    if beside:
        source = _beside(source, place, beside.split(","))
    if publish and tasks:
        raise BadSetting(f"--publish: --tasks {tasks} leaves tasks out; leave one of the two out")
    if publish:
        source = _published(source, place, names)
    kinds = {"pictures": figures.split(",")} if figures else {}
    # the report of the whole run stays what it is
    usual = folder_name("-".join(["report", *(tasks or "").split(",")])) if tasks else "report"
    page = write_and_tell(source, place, to or place / usual, names, besides, **kinds)
    if show:
        _open(page)


def _more(sets: Sequence[str]) -> dict[str, str]:
    """Key of SETTINGS -> its value; UnknownName, BadSetting."""
    found = {}
    for word in sets:
        key, _, value = word.partition("=")
        if key.removeprefix("report.") not in SETTINGS:
            raise UnknownName("setting", key, [f"report.{name}" for name in SETTINGS])
        if not value:
            raise BadSetting(f"--set {word}: KEY=VALUE, such as --set report.margins=0.02,0.05")
        found[key.removeprefix("report.")] = value
    if found.get("rows", "all") != "all":
        raise BadSetting(f"--set report.rows={found['rows']}: all, or leave it out")
    return found


def write_and_tell(
    source: Any,
    place: Path,
    to: Path,
    names: list[str] | None = None,
    besides: Sequence[str] = (),
    **how: Any,
) -> Path:
    """Write the report of what was read from `place`, and say which files, and of a run which
    cells have no number; returns the page. `how`: see `reports.write`.
    """
    from ecgbench import reports
    from ecgbench.results.study import Study

    written = reports.write(source, to, names, besides, **how)
    if isinstance(source, Study):
        cells = source.of(source.metric).cells
        states = cells["status"].value_counts().to_dict()
        typer.echo(f"{place}: " + ", ".join(f"{n} cells {s}" for s, n in states.items()))
        for line in _without_number(cells):
            typer.echo(f"  {line}", err=True)
        if names is None and not any(path.name == "predictions.csv" for path in written):
            typer.echo(
                "  predictions.csv is not written: it would be too large, or no cell is finished; "
                "ecgbench.read(RUN).predictions() gives those of one row",
                err=True,
            )
        for line in _fewer(source.of(source.metric).main):
            typer.echo(f"  {line}", err=True)
    typer.echo("\n".join(str(path) for path in written))
    return next(path for path in written if path.name == "index.html")


def _open(page: Path) -> None:
    """In the browser of whoever typed the command; a machine without one says so."""
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        typer.echo(f"--open: no browser was found here; open {page} in one", err=True)


def _asked(source: Any, place: Path, given: dict[str, str]) -> Any:
    """The source with what its reader asks of it; BadSetting where that cannot be meant."""
    from ecgbench.results import options
    from ecgbench.results.study import Study

    named = [option for option, value in given.items() if value]
    if not named:
        return source
    if not isinstance(source, Study):
        raise BadSetting(f"{named[0]} {given[named[0]]}: {place} is no run; leave it out")
    models = list(dict.fromkeys(source.main["model"]))
    tasks = [task.name for task in source.tasks]
    baseline = options.chosen(given["--baseline"], models, "--baseline")
    if len(baseline) > 1:
        raise BadSetting(f"--baseline {given['--baseline']}: one model")
    return replace(
        source,
        options=options.Options(
            baseline=baseline[0] if baseline else "",
            blocks=options.chosen(given["--set report.blocks"], tasks, "--set report.blocks"),
            margins=options.margins(given["--set report.margins"])
            if given["--set report.margins"]
            else options.MARGINS,
            paired=options.pairs(Path(given["--set report.duplicates"]))
            if given["--set report.duplicates"]
            else {},
        ),
    )


def _sources(against: str | None, beside: str | None) -> list[str]:
    """Names of what is compared with; UnknownName, BadSetting."""
    from ecgbench.published import source

    if beside and not against:
        raise BadSetting(
            f"--set report.beside={beside}: say what with: --against paper or --against fmb"
        )
    return [source(name).name for name in words(against) or ()]


def _beside(source: Any, place: Path, folders: list[str]) -> "Study":
    from ecgbench.published import METRIC
    from ecgbench.results.study import Study, read

    if not isinstance(source, Study):
        raise BadSetting(
            f"--set report.beside={','.join(folders)}: {place} is no run; leave it out"
        )
    return replace(source, beside=tuple(read(folder.strip(), (METRIC,)) for folder in folders))


def _published(source: Any, place: Path, names: list[str] | None) -> "Study":
    from ecgbench.results.origin import published
    from ecgbench.results.study import Study

    if not isinstance(source, Study):
        raise BadSetting(f"--publish: {place} is no run; leave it out")
    if hidden := [name for name in SHOWN if names is not None and name not in names]:
        raise BadSetting(
            f"--publish: --only leaves out {' and '.join(hidden)}; run: ecgbench report "
            f"{quoted(place)} "
            f"--publish --only {','.join([*(names or ()), *hidden])}"
        )
    return replace(published(source), beside=tuple(map(published, source.beside)))


def _without_number(cells: "pd.DataFrame") -> Iterator[str]:
    """Names of the cells that have no number, those of one model and reason together; they are in
    no mean and no test.
    """
    lacking = cells[cells["status"] != "ok"]
    for (status, model, reason), part in lacking.groupby(["status", "model", "reason"], sort=False):
        named = list(part[["task", "setting", "policy"]].astype(str).agg(" ".join, axis=1))
        more = f" and {len(named) - NAMED} more (all are on the page)" if len(named) > NAMED else ""
        yield f"{status}: {model}: {', '.join(named[:NAMED])}{more}: {reason}"


def _fewer(rows: "pd.DataFrame") -> Iterator[str]:
    """Rows that were not scored on all test records, and on how many they are compared."""
    from ecgbench.results.compare import COMPARED, FEWER

    for row in rows.itertuples():
        said = [part for part in str(row.note).split("; ") if part.startswith((FEWER, COMPARED))]
        if said:
            yield f"{row.model} on {row.task} at {row.leads}, {row.policy}: {'; '.join(said)}"


def newest(folder: Path) -> Path:
    """The run on which a command worked last; MissingData when there is none."""
    plans = sorted(folder.glob("*/plan.toml"), key=_worked)
    if not plans:
        raise MissingData(
            f"no run under {folder}/; run: ecgbench run, or name the folder: ecgbench report FOLDER"
        )
    return plans[-1].parent


def _worked(plan: Path) -> float:
    commands = plan.with_name("invocations")  # a file is added when one begins
    return max(p.stat().st_mtime for p in (plan, commands) if p.exists())
