"""`ecgbench run`: compute what is missing of a study."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ecgbench.cli import importing
from ecgbench.cli.options import (
    DATA,
    DEVICE,
    MACHINE,
    PREPARED,
    argument,
    flag,
    loaded,
    option,
    words,
)
from ecgbench.core.text import aligned, quoted
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecgbench.core.cells import Folders, Request
    from ecgbench.study.jobs import Execution
    from ecgbench.study.plan_file import PlanFile, RunSettings

_study, _machine = (partial(option, rich_help_panel=panel) for panel in ("Study", MACHINE))


def run(
    plan: str = argument("A plan's name, file or run folder.  (default: demo)", None),
    models: str = _study("laef,stmem,./mine.py; all.", "--models", "-m"),
    tasks: str = _study("ptbxl_super,./mine.py; all.", "--tasks", "-t"),
    leads: str = _study("Drawn at random 1,2,12 or 1-12; named I,II,I+V2.", "--leads", "-l"),
    weights: str = _study("released, random, PATH; laef=random,stmem=PATH.", "--weights", "-w"),
    policy: str = _study("How missing leads are filled: paper, native, zero, ...", "--policy"),
    protocol: str = _study("probe, linear, finetune.", "--protocol"),
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
    from ecgbench import reports
    from ecgbench.cli.report import write_and_print
    from ecgbench.core.cells import Folders
    from ecgbench.core.registry import folder_name
    from ecgbench.evaluate import torchrun
    from ecgbench.study import controls as known_controls
    from ecgbench.study import plan as planning
    from ecgbench.study.plan_file import in_words, keys, values

    if settings:
        rows = [(key.name, in_words(key), key.help) for key in keys().values()]
        typer.echo("\n".join(aligned([("setting", "default", "what it is"), *rows])))
        return
    options = {"models": models, "tasks": tasks, "leads": leads, "weights": weights}
    options |= {"policy": policy, "seeds": seeds, "folds": folds, "limit": limit}
    options |= {"training.protocol": protocol, "training.leads": train_leads}
    typed = values({**options, "scoring.metrics": metrics}, sets)
    whole = planning.ALL in typed.get("tasks", (planning.ALL,))
    brought = importing.RecordFiles(
        folder=records, labels=labels, fs=fs, unit=unit, signals=signals
    )
    given, copies = importing.within(brought, typed, (out, prepared), studied=plan is not None)
    file = _plan_file(plan, typed, given)
    request = planning.check(_present(file.request(), data) if whole else file.request())
    out = given or Path("runs") / folder_name(request.name or "+".join(request.tasks))
    folders = Folders(data=data, prepared=copies, out=out)
    execution = _execution(file.section("run"), engine, device)
    wanted = known_controls.resolve(words(controls) or ())
    failed = _compute(request, folders, execution, wanted, dry_run)
    if records is not None and not dry_run and torchrun.rank() == 0:
        write_and_print(reports.read(out), out, out / "report")
    if failed:
        raise typer.Exit(1)


def _plan_file(plan: str | None, values: dict[str, Any], out: Path | None) -> "PlanFile":
    """The plan that was named, or is frozen in `out`, or the demo, with what was typed."""
    from ecgbench.study import frozen, jobs
    from ecgbench.study.plan_file import PlanFile, parse

    studied = plan is not None or any(not key.startswith("run.") for key in values)
    kept = None if studied or out is None else frozen.read(out)
    if kept is not None and out is not None:
        frozen.demand_intact(kept, out)
        typer.echo(f"run: the plan frozen on {kept.plan.date} ({kept.stated[:16]})", err=True)
        base = parse(kept.plan.plan, f"{out}/{frozen.FILE}")
    elif plan is None and "tasks" in values:
        base = PlanFile(values={})
    else:
        base = loaded(plan or "demo")
    for room, path in base.plugins:
        jobs.ROOMS[room].resolve(path)
    return replace(base, values={**base.values, **values})


def _present(request: "Request", data: Path | None) -> "Request":
    """A study of all tasks, or of those of a plan, without those that no dataset has or whose data
    are not here, which are named.
    """
    from ecgbench.study import plan as planning

    here, absent = planning.present(request.tasks, data)
    if not here or not absent:
        return request
    typer.echo(
        f"{len(here)} of {len(here) + len(absent)} tasks are run; no dataset or no data here: "
        f"{', '.join(absent)} (ecgbench list tasks; ecgbench data fetch NAME)",
        err=True,
    )
    return replace(request, tasks=tuple(here))


def _execution(settings: "RunSettings", engine: str | None, device: str) -> "Execution":
    """Under torchrun models run in the processes that it has started."""
    from ecgbench.evaluate import torchrun
    from ecgbench.study import engines
    from ecgbench.study.jobs import Execution

    if not settings.timeout > 0:
        raise BadSetting(f"--set run.timeout={settings.timeout:g}: seconds, more than 0")
    if torchrun.world() > 1 and engine not in (None, "inline"):
        raise BadSetting(f"--engine {engine}: torchrun runs models in its own processes")
    usual = "inline" if torchrun.world() > 1 else "local"
    name, options = engines.named(engine or usual)
    return Execution(engine=name, options=options, device=device, settings=settings)


def _compute(
    request: "Request",
    folders: "Folders",
    execution: "Execution",
    controls: "Sequence[str]",
    dry_run: bool,
) -> bool:
    """Compute what is missing of a study, or print its time; whether a cell failed."""
    from ecgbench.evaluate import torchrun
    from ecgbench.evaluate.device import choose, demand
    from ecgbench.study import control_runs, engines, estimate, preflight

    device = choose(execution.device)
    if not engines.get(execution.engine).CARD.other_machines:
        demand(device)
    if dry_run and torchrun.world() > 1:
        raise BadSetting("--dry-run: its probe is of one process; run it without torchrun")
    with torchrun.together():
        if torchrun.rank() != 0:
            from ecgbench.study.work import take_part

            take_part()
            return False
        preflight.demand(request, folders, data=not dry_run)
        if not dry_run:
            return _finish(request, folders, execution, controls)
        for text in estimate.lines(request, folders, device):
            typer.echo(text)
        for text in control_runs.lines([request], folders, controls):
            typer.echo(text)
    return False


def _finish(
    request: "Request", folders: "Folders", execution: "Execution", controls: "Sequence[str]"
) -> bool:
    """Run a study and its controls, and say what became of them; whether a cell failed."""
    from ecgbench.study import control_runs
    from ecgbench.study.progress import display
    from ecgbench.study.run import remove_windows, run
    from ecgbench.study.store import Store

    out, progress = folders.out, display()
    done = run([request], folders, execution, progress)
    if done.elsewhere:
        typer.echo(f"{done.elsewhere} jobs go on without this command")
        typer.echo(f"next: ecgbench runs status {quoted(out)}")
        return False
    after = control_runs.compute(folders, controls, execution, progress)
    if not execution.settings.keep_features:
        remove_windows(Store(out))
    outcomes = {f"{out}": done, **{f"control {name}": one for name, one in after.items()}}
    for what, one in outcomes.items():
        counts, *failures = one.lines(what)
        typer.echo(counts)
        for text in failures:
            typer.echo(text, err=True)
    typer.echo(f"next: ecgbench report {quoted(out)}")
    return any(one.failed for one in outcomes.values())
