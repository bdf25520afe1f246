"""How `ecgbench run` carries a study out: the engine, the plan with its time, the outcome."""

import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ecgbench import stalled
from ecgbench.core.cells import Folders, Plan, Request
from ecgbench.core.text import quoted, visible
from ecgbench.errors import BadSetting
from ecgbench.evaluate import torchrun
from ecgbench.results.aside import FOLDER as SET_ASIDE
from ecgbench.study import controls as declared

if TYPE_CHECKING:
    from ecgbench.study.engine import Engine
    from ecgbench.study.job_record import Outcome
    from ecgbench.study.run import Detach


INLINE = "inline"
"""The engine of --in-process and torchrun."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a study is carried out; nothing of it changes a number."""

    device: str
    engine: str
    patience: float
    dry_run: bool
    keep_features: bool
    pin_environment: bool
    keep_views: bool
    controls: tuple[str, ...] = ()
    """Names of the controls that follow the study."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the engine."""
    detach: "Detach" = "no"


def compute(request: Request, folders: Folders, execution: Execution) -> None:
    """Compute what is missing of a study, or print its time, and say what became of it; typer.Exit
    with code 1 where a cell failed.
    """
    from ecgbench.evaluate.device import choose, demand
    from ecgbench.study import engines
    from ecgbench.study.engine import Setup
    from ecgbench.study.lacking import writable
    from ecgbench.study.progress import EventDisplay, display
    from ecgbench.study.run import Run
    from ecgbench.study.started import start

    device, away = choose(execution.device), engines.get(execution.engine).CARD.other_machines
    if not away:
        demand(device)
    if execution.detach != "no" and execution.controls:
        raise BadSetting("--controls follow the study; give them in another command when it ended")
    writable(folders.out)
    if execution.dry_run and torchrun.world() > 1:
        raise BadSetting("--dry-run: its probe is of one process; run it without torchrun")
    logs = folders.out.absolute() / "logs"
    with torchrun.together(), _watched(execution, logs):
        if torchrun.rank() != 0:
            from ecgbench.study.work import take_part

            take_part()
            return
        progress = display()
        with tempfile.TemporaryDirectory() as passing:
            printed = Path(passing) / "logs" if execution.dry_run else folders.out / "logs"
            setup = Setup(
                logs=printed,
                patience=execution.patience,
                show=EventDisplay(progress),
                options=execution.options,
                out=folders.out.absolute(),
                device=execution.device,
            )
            with closing(start(execution.engine, setup)) as engine:
                planned = _planned(request, folders, execution, engine, device)
                if execution.dry_run:
                    return
                run = Run(planned, folders, progress, engine, device)
                done = run(
                    execution.keep_features,
                    execution.pin_environment,
                    execution.keep_views,
                    leave_windows=bool(execution.controls),
                    detach=execution.detach,
                )
                if done.handed_over:
                    typer.echo(f"{done.handed_over}\nnext: ecgbench status {quoted(folders.out)}")
                    return
                controlled = declared.compute(run, progress, engine, execution.controls)
                if execution.controls and not execution.keep_features:
                    run.remove_windows()
    _print_outcome(done, controlled, folders.out)


def _watched(execution: Execution, logs: Path) -> AbstractContextManager[None]:
    """Ends this process where it makes no progress. Not where models run in it: a debugger waits
    for a person.
    """
    if execution.engine == INLINE:
        return nullcontext()
    return stalled.noticed(max(execution.patience, stalled.LEAST), logs / "stalled.log")


def _print_outcome(done: "Outcome", controlled: "dict[str, list[Outcome]]", out: Path) -> None:
    _print_counts(done, str(out), out)
    for name, outcomes in controlled.items():
        times = f", {len(outcomes)} times" if len(outcomes) > 1 else ""
        _print_counts(_together(outcomes), f"control {name}{times}", out / declared.FOLDER)
    typer.echo(f"next: ecgbench report {quoted(out)}")
    if done.failed or any(one.failed for own in controlled.values() for one in own):
        raise typer.Exit(1)


def _together(outcomes: "list[Outcome]") -> "Outcome":
    """One outcome of all repeats of a control."""
    whole = outcomes[0]
    for one in outcomes[1:]:
        failed = {**whole.failed}
        for why, cells in one.failed.items():
            failed[why] = [*failed.get(why, []), *cells]
        whole = replace(
            whole,
            computed=whole.computed + one.computed,
            reused=whole.reused + one.reused,
            set_aside=whole.set_aside + one.set_aside,
            skipped=[*whole.skipped, *one.skipped],
            failed=failed,
        )
    return whole


def _print_counts(done: "Outcome", where: str, out: Path) -> None:
    """`where`: what it is of, in words; `out`: the folder that it went to."""
    typer.echo(
        f"{done.computed} cells computed, {done.reused} were there already, {len(done.skipped)} "
        f"skipped, {done.failures} failed: {where}"
    )
    if done.set_aside:
        typer.echo(
            f"  damaged: {done.set_aside} set aside in {out / SET_ASIDE} and computed again; "
            f"to see why: ecgbench runs ls {quoted(out)}",
            err=True,
        )
    for (model, reason, log), cells in done.failed.items():
        which = cells[0] if len(cells) == 1 else f"{len(cells)} cells of {model}"
        typer.echo(
            f"  failed: {which}: {visible(reason)}" + (f" (log: {log})" if log else ""), err=True
        )


def _planned(
    request: Request,
    folders: Folders,
    execution: Execution,
    engine: "Engine",
    device: str,
) -> Plan:
    """The plan; a dry run prints what it takes on `device`."""
    from ecgbench.core.provenance import command
    from ecgbench.study import dividing, estimate, lacking
    from ecgbench.study import plan as planning
    from ecgbench.study.engine import ask
    from ecgbench.study.job import Locate, plugins
    from ecgbench.study.store import Store, free

    def locate(model: str, weights: str) -> dict[str, Any]:
        job = Locate(id=f"locate {model}", model=model, weights=weights, plugins=plugins())
        return ask(engine, job)

    lacking.demand(request, folders, locate, data=not execution.dry_run)
    planned = planning.plan(request, partial(_policies, engine, request.contract))
    dividing.demand(planned, folders, planning.all_tasks().owners)
    try:
        Store(folders.out).join(planned)
    except BadSetting as error:
        raise BadSetting(f"{error}: {command(free(folders.out))}") from None
    if execution.dry_run:
        for text in estimate.lines(planned, folders, device):
            typer.echo(text)
        for text in declared.lines(planned, folders.out, execution.controls):
            typer.echo(text)
    return planned


def _policies(
    engine: "Engine", contract: str, loaded: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Of each model, whose weights are loaded where they are named."""
    from ecgbench.study.engine import ask_all
    from ecgbench.study.job import Look, plugins

    looks = [
        Look(id=f"look {model}", model=model, weights=named, contract=contract, plugins=plugins())
        for model, named in loaded.items()
    ]
    answers = ask_all(engine, looks)
    return {look.model: answers[look.id].get("policy") for look in looks}
