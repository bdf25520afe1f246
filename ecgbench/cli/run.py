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
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from ecgbench.core.cells import Request
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
    from ecgbench.cli.settings import print_settings, values

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
    from ecgbench.cli import frozen, settings
    from ecgbench.cli.execution import compute
    from ecgbench.core.cells import Folders
    from ecgbench.core.registry import folder_name
    from ecgbench.evaluate import torchrun
    from ecgbench.study import plan as planning

    data, prepared, out = places
    whole = planning.ALL in values.get("tasks", (planning.ALL,))
    out, prepared = own.within(brought, values, (out, prepared), studied=plan is not None)
    file = _plan_file(plan, values, out)
    request = _covered(file.request(), plan)
    checked = settings.only_present(planning.check(request), whole, data)
    out = out or Path("runs") / folder_name(checked.name or "+".join(checked.tasks))
    frozen.demand_same(checked, out)
    running = file.section("run")
    folders = Folders(data=data, prepared=prepared, out=out)
    import_report = brought.folder is not None and not machine["dry_run"] and torchrun.rank() == 0
    with own.reported(out, import_report):
        execution = _execution(running, machine)
        compute(checked, folders, execution)


def _plan_file(plan: str | None, values: dict[str, Any], out: Path | None) -> "PlanFile":
    """The plan that was named, or is frozen in `out`, or the demo, with what was typed."""
    from ecgbench.cli import frozen, settings
    from ecgbench.study import jobs
    from ecgbench.study.plan_file import PlanFile

    if plan is not None:
        base = settings.loaded(plan)
    elif "tasks" in values:
        base = PlanFile(values={})
    else:
        studied = any(not key.startswith("run.") for key in values)
        base = (None if studied else frozen.plan(out)) or settings.loaded("demo")
    for room, path in base.plugins:
        jobs.ROOMS[room].resolve(path)
    return replace(base, values={**base.values, **values})


def _covered(request: "Request", plan: str | None) -> "Request":
    """Without the tasks of a plan that no data set here has, which are named."""
    from ecgbench.study import plan as planning

    if plan is None:
        return request
    here, missing = planning.covered(request)
    if missing and here.tasks:
        count = f"{len(here.tasks)} of its {len(request.tasks)} tasks"
        typer.echo(
            f"plan {plan}: {count} can be run; no dataset here has {', '.join(missing)}", err=True
        )
        return here
    return request


def _execution(running: "RunSettings", machine: dict[str, Any]) -> Any:
    from ecgbench.cli.execution import Execution
    from ecgbench.cli.options import words
    from ecgbench.study import controls
    from ecgbench.study.run import Carrying

    if not running.timeout > 0:
        raise BadSetting(
            f"--set run.timeout={running.timeout:g}: seconds, more than 0; the default is 900"
        )
    engine, options = _engine_of(machine["engine"])
    return Execution(
        controls=controls.resolve(words(machine["controls"]) or ()),
        dry_run=machine["dry_run"],
        carrying=Carrying(
            engine=engine,
            options=options,
            timeout=running.timeout,
            device=machine["device"],
            keep_features=running.keep_features,
            pin_environment=running.same_environment,
            keep_views=running.views == "keep",
        ),
    )


def _engine_of(text: str | None) -> tuple[str, str]:
    """An engine and its options, from `local:4` or `slurm:partition=gpu,time=4h`; under torchrun
    models run in the processes that it has started.
    """
    from ecgbench.evaluate import torchrun
    from ecgbench.study import engines

    if torchrun.world() > 1:
        if text not in (None, INLINE):
            raise BadSetting(f"--engine {text}: torchrun runs models in its own processes")
        text = INLINE
    return engines.named(text or DEFAULT)
