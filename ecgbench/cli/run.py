"""`ecgbench run`: compute what is missing of a study."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ecgbench.cli import importing
from ecgbench.cli.options import DATA, DEVICE, MACHINE, PREPARED, argument, flag, option, width
from ecgbench.core.text import aligned

if TYPE_CHECKING:  # with all that a run imports, which --settings and --help need not wait for
    from ecgbench.study.command import Done

_study, _machine = (partial(option, rich_help_panel=panel) for panel in ("Study", MACHINE))


def run(
    plan: str = argument("A plan's name, file, or run folder to go on in.  (default: demo)", None),
    models: str = _study("laef,stmem,./mine.py; baselines, published, all.", "--models", "-m"),
    tasks: str = _study("ptbxl_super,./mine.py; all.", "--tasks", "-t"),
    leads: str = _study(
        "Drawn at random 1,2,12 or 1-12; named I,II,I+V2; cinc12, cinc6, cinc4, cinc3, cinc2.",
        "--leads",
        "-l",
    ),
    weights: str = _study("released, random, PATH; laef=random,stmem=PATH.", "--weights", "-w"),
    policy: str = _study("How missing leads are filled: paper, native, zero, ...", "--policy"),
    protocol: str = _study("probe, linear, finetune, finetune-modern, shipped.", "--protocol"),
    train_leads: str = _study("Leads in training: all, random, same; all,same.", "--train-leads"),
    metrics: str = _study("auroc,auprc,./mine.py; the first is the main one.", "--metrics"),
    seeds: str = _study("Draws of random leads.  (default: 5; demo: 2)", "--seeds"),
    folds: str = _study("5: cross-validation; device=5: by recorder; ptb=10; official.", "--folds"),
    limit: str = _study("Use only so many records of each dataset.", "--limit"),
    controls: str = _study("Then also run its controls: all, or names.", "--controls"),
    perturb: str = _study("Then test noise, exchanged cables: em@6,RA/LA,off:V3.", "--perturb"),
    labels_used: str = _study("Then heads of fewer patients: 25,100,400,all.", "--labels-used"),
    sets: list[str] = _study(
        "KEY=VALUE, any other setting; see --settings.", "--set", default=[], metavar="KEY=VALUE"
    ),
    records: Path = importing.RECORDS,
    labels: Path = importing.LABELS,
    fs: float = importing.FS,
    unit: str = importing.UNIT,
    signals: str = importing.SIGNALS,
    data: Path = DATA,
    prepared: Path = PREPARED,
    out: Path = _machine("Run folder, resumed or extended.  (default: runs/NAME)", "--out", "-o"),
    device: str = DEVICE,
    engine: str = _machine("local:4, inline, slurm:partition=gpu,time=4h, PATH.", "--engine"),
    dry_run: bool = _machine(
        "Only print what would be computed, and how long it takes.", "--dry-run"
    ),
    settings: bool = flag("Print every KEY of --set with its default.", "--settings"),
) -> None:
    """Run a study, or what is missing of it.

    A study has a cell for each model, task and set of leads. Finished cells are kept: repeat the
    command after an interruption, or ask for more. At its end a study of at most 200 cells has its
    answer and main table printed, and its report written to OUT/report.

      ecgbench run -m laef,stmem -t ptbxl_super -l 1,2,12,I+II --data DIR

      ecgbench run --records FOLDER --labels labels.csv -m laef,simple_features -l I
    """
    if settings:
        from ecgbench.study.plan_file import in_words, keys

        rows = [(key.name, in_words(key), key.help) for key in keys().values()]
        typer.echo("\n".join(aligned([("setting", "default", "what it is"), *rows])))
        return
    from ecgbench.study import command
    from ecgbench.study.options import RunOptions

    done = command.run(
        RunOptions.of(
            sets,
            plan=plan,
            models=models,
            tasks=tasks,
            leads=leads,
            weights=weights,
            policy=policy,
            protocol=protocol,
            train_leads=train_leads,
            metrics=metrics,
            seeds=seeds,
            folds=folds,
            limit=limit,
            controls=controls,
            perturb=perturb,
            labels_used=labels_used,
            records=records,
            labels=labels,
            fs=fs,
            unit=unit,
            signals=signals,
            data=data,
            prepared=prepared,
            out=out,
            device=device,
            engine=engine,
            dry_run=dry_run,
        )
    )
    lines, unwritten = _answer(done)
    for text in lines:
        typer.echo(text)
    if done.failed or unwritten:
        raise typer.Exit(1)


def _answer(done: "Done") -> tuple[list[str], bool]:
    """Write the report that is due; its opening, the main table and the page, to be printed when
    the progress of the report is over, and whether it could not be written.
    """
    from ecgbench import reports
    from ecgbench.study.progress import display

    lines: list[str] = []
    if due := done.report is not None:
        with done.reporting():
            made_from = reports.made_from(done.out)
            study = reports.read(done.out, stage=display().stage)
            lines += reports.summary(study, width())
            if not reports.up_to_date(done.report, made_from):
                reports.write(study, done.report, made_from=made_from)
            lines += ["", f"the page: {done.report / 'index.html'}"]
            due = False
    return lines, due
