"""`ecgbench run`: compute what is missing of a study."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ecgbench.cli import own
from ecgbench.cli.options import (
    DATA,
    DEVICE,
    MACHINE,
    PREPARED,
    RESULTS,
    add_commands,
    argument,
    flag,
    option,
)
from ecgbench.core.text import quoted
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecgbench.core.cells import Folders, Request
    from ecgbench.study.jobs import Execution
    from ecgbench.study.plan_file import PlanFile, RunSettings

INLINE, DEFAULT = "inline", "local"
_study, _machine = (partial(option, rich_help_panel=panel) for panel in ("Study", MACHINE))


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, run, panel=RESULTS)


def run(
    plan: str = argument(
        "Name of a plan (ecgbench list plans), a file plan.toml, or a run folder.  (default: demo)",
        None,
        metavar="[PLAN]",
    ),
    models: str = _study("laef,stmem,./mine.py; all.", "--models", "-m"),
    tasks: str = _study("ptbxl_super,./mine.py; all.", "--tasks", "-t"),
    leads: str = _study("Drawn at random 1,2,12 or 1-12; named I,II,I+V2.", "--leads", "-l"),
    weights: str = _study("released, random, PATH; laef=random,stmem=PATH.", "--weights", "-w"),
    policy: str = _study("How missing leads are filled: paper, native, zero, ...", "--policy"),
    protocol: str = _study("probe, linear, finetune.", "--protocol"),
    train_leads: str = _study("Leads in training: all, random, same.", "--train-leads"),
    metrics: str = _study("auroc,auprc,./mine.py; the first leads the tables.", "--metrics"),
    seeds: str = _study("Draws of random leads.  (default: 5; demo: 2)", "--seeds"),
    folds: str = _study("5: cross-validation; ptb=10; official; reference.", "--folds"),
    limit: str = _study("Records of each data set in all.", "--limit"),
    controls: str = _study("Afterwards its controls: all, or names.", "--controls"),
    sets: list[str] = _study(
        "KEY=VALUE, any other setting; see --settings.", "--set", default=[], metavar="KEY=VALUE"
    ),
    records: Path = own.RECORDS,
    labels: Path = own.LABELS,
    fs: float = own.FS,
    unit: str = own.UNIT,
    signals: str = own.SIGNALS,
    data: Path = DATA,
    prepared: Path = PREPARED,
    out: Path = _machine("Run folder, resumed or extended.  (default: runs/NAME)", "--out", "-o"),
    device: str = DEVICE,
    engine: str = _machine("local:4, inline, slurm:partition=gpu,time=4h, PATH.", "--engine"),
    dry_run: bool = _machine("Only say what there is to do, and how long.", "--dry-run"),
    settings: bool = flag("Print every KEY of --set with its default.", "--settings"),
) -> None:
    """Compute what is missing of a study.

    A study has a cell for each model, task and set of leads.
    What is finished stays: give the command again after it was stopped, or ask for more.

      ecgbench run -m laef,stmem -t ptbxl_super -l 1,2,12,I+II --data DIR

      ecgbench run --records FOLDER --labels labels.csv -m laef,merl -l I
    """
    from ecgbench.cli.settings import print_settings
    from ecgbench.study.plan_file import values

    if settings:
        print_settings()
        return
    typed = {
        "models": models,
        "tasks": tasks,
        "leads": leads,
        "weights": weights,
        "policy": policy,
        "training.protocol": protocol,
        "training.leads": train_leads,
        "scoring.metrics": metrics,
        "seeds": seeds,
        "folds": folds,
        "limit": limit,
    }
    brought = own.OwnRecords(folder=records, labels=labels, fs=fs, unit=unit, signals=signals)
    machine = {"device": device, "engine": engine, "dry_run": dry_run}
    _run(
        plan, values(typed, sets), brought, (data, prepared, out), {**machine, "controls": controls}
    )


def _run(
    plan: str | None,
    values: dict[str, Any],
    brought: own.OwnRecords,
    places: tuple[Path | None, Path | None, Path | None],
    machine: dict[str, Any],
) -> None:
    from ecgbench.cli.options import words
    from ecgbench.core.cells import Folders
    from ecgbench.core.registry import folder_name
    from ecgbench.evaluate import torchrun
    from ecgbench.study import controls
    from ecgbench.study import plan as planning

    data, prepared, out = places
    whole = planning.ALL in values.get("tasks", (planning.ALL,))
    out, prepared = own.within(brought, values, (out, prepared), studied=plan is not None)
    file = _plan_file(plan, values, out)
    request = _present(file.request(), data) if whole else file.request()
    checked = planning.check(request)
    out = out or Path("runs") / folder_name(checked.name or "+".join(checked.tasks))
    execution = _execution(file.section("run"), machine)
    wanted = controls.resolve(words(machine["controls"]) or ())
    folders = Folders(data=data, prepared=prepared, out=out)
    import_report = brought.folder is not None and not machine["dry_run"] and torchrun.rank() == 0
    with own.reported(out, import_report):
        _compute(checked, folders, execution, wanted, machine["dry_run"])


def _plan_file(plan: str | None, values: dict[str, Any], out: Path | None) -> "PlanFile":
    """The plan that was named, or is frozen in `out`, or the demo, with what was typed."""
    from ecgbench.cli.settings import loaded
    from ecgbench.study import frozen, jobs
    from ecgbench.study.plan_file import PlanFile, parse

    studied = any(not key.startswith("run.") for key in values)
    kept = None if plan or studied or out is None else frozen.read(out)
    if kept is not None and out is not None:
        frozen.demand_intact(kept, out)
        typer.echo(
            f"the plan that was frozen on {kept.plan.date} (hash {kept.stated[:16]}) is run",
            err=True,
        )
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


def _execution(settings: "RunSettings", machine: dict[str, Any]) -> "Execution":
    """Under torchrun models run in the processes that it has started."""
    from ecgbench.evaluate import torchrun
    from ecgbench.study import engines
    from ecgbench.study.jobs import Execution

    if not settings.timeout > 0:
        raise BadSetting(
            f"--set run.timeout={settings.timeout:g}: seconds, more than 0; the default is 900"
        )
    text = machine["engine"]
    if torchrun.world() > 1:
        if text not in (None, INLINE):
            raise BadSetting(f"--engine {text}: torchrun runs models in its own processes")
        text = INLINE
    engine, options = engines.named(text or DEFAULT)
    return Execution(engine=engine, options=options, device=machine["device"], settings=settings)


def _compute(
    request: "Request",
    folders: "Folders",
    execution: "Execution",
    controls: "Sequence[str]",
    dry_run: bool,
) -> None:
    """Compute what is missing of a study, or print its time, and say what became of it; typer.Exit
    with code 1 where a cell failed.
    """
    from ecgbench.evaluate import torchrun
    from ecgbench.evaluate.device import choose, demand
    from ecgbench.study import engines, preflight

    device = choose(execution.device)
    if not engines.get(execution.engine).CARD.other_machines:
        demand(device)
    if dry_run and torchrun.world() > 1:
        raise BadSetting("--dry-run: its probe is of one process; run it without torchrun")
    with torchrun.together():
        if torchrun.rank() != 0:
            from ecgbench.study.work import take_part

            take_part()
            return
        preflight.demand(request, folders, data=not dry_run)
        if not dry_run:
            _finish(request, folders, execution, controls)
            return
        from ecgbench.study import control_runs, estimate

        for text in estimate.lines(request, folders, device):
            typer.echo(text)
        for text in control_runs.lines([request], folders, controls):
            typer.echo(text)


def _finish(
    request: "Request", folders: "Folders", execution: "Execution", controls: "Sequence[str]"
) -> None:
    from ecgbench.study import control_runs
    from ecgbench.study.progress import display
    from ecgbench.study.run import remove_windows, run
    from ecgbench.study.store import Store

    out, progress = folders.out, display()
    done = run([request], folders, execution, progress)
    if done.elsewhere:
        typer.echo(f"{done.elsewhere} jobs go on without this command")
        typer.echo(f"next: ecgbench runs status {quoted(out)}")
        return
    after = control_runs.compute(folders, controls, execution, progress)
    if not execution.settings.keep_features:
        remove_windows(Store(out))
    outcomes = [(f"{out}", done), *((f"control {name}", one) for name, one in after.items())]
    for what, one in outcomes:
        counts, *failures = one.lines(what)
        typer.echo(counts)
        for text in failures:
            typer.echo(text, err=True)
    typer.echo(f"next: ecgbench report {quoted(out)}")
    if any(one.failed for _, one in outcomes):
        raise typer.Exit(1)
