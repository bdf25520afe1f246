"""`ecgbench run`: compute what is missing of a study."""

from functools import partial
from pathlib import Path

import typer

from ecgbench.cli import importing
from ecgbench.cli.options import DATA, DEVICE, MACHINE, PREPARED, argument, flag, option
from ecgbench.core.text import aligned

_study, _machine = (partial(option, rich_help_panel=panel) for panel in ("Study", MACHINE))


def run(
    plan: str = argument("A plan's name, file or run folder.  (default: demo)", None),
    models: str = _study("laef,stmem,./mine.py; all.", "--models", "-m"),
    tasks: str = _study("ptbxl_super,./mine.py; all.", "--tasks", "-t"),
    leads: str = _study("Drawn at random 1,2,12 or 1-12; named I,II,I+V2.", "--leads", "-l"),
    weights: str = _study("released, random, PATH; laef=random,stmem=PATH.", "--weights", "-w"),
    policy: str = _study("How missing leads are filled: paper, native, zero, ...", "--policy"),
    protocol: str = _study("probe, linear, finetune, finetune-modern.", "--protocol"),
    train_leads: str = _study("Leads in training: all, random, same.", "--train-leads"),
    metrics: str = _study("auroc,auprc,./mine.py; the first is the main one.", "--metrics"),
    seeds: str = _study("Draws of random leads.  (default: 5; demo: 2)", "--seeds"),
    folds: str = _study("5: cross-validation; ptb=10; official; reference.", "--folds"),
    limit: str = _study("Use only so many records of each dataset.", "--limit"),
    controls: str = _study("Then also run its controls: all, or names.", "--controls"),
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
    command after an interruption, or ask for more.

      ecgbench run -m laef,stmem -t ptbxl_super -l 1,2,12,I+II --data DIR

      ecgbench run --records FOLDER --labels labels.csv -m laef,merl -l I
    """
    typed = dict(locals())
    from ecgbench import reports
    from ecgbench.cli.report import write_and_print
    from ecgbench.evaluate import torchrun
    from ecgbench.study import command
    from ecgbench.study.plan_file import in_words, keys

    if settings:
        rows = [(key.name, in_words(key), key.help) for key in keys().values()]
        typer.echo("\n".join(aligned([("setting", "default", "what it is"), *rows])))
        return
    out, failed = command.run(typed, sets)
    if records is not None and not dry_run and torchrun.rank() == 0:
        write_and_print(reports.read(out), out, out / "report")
    if failed:
        raise typer.Exit(1)
