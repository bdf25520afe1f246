"""How `ecgbench run` carries a study out: the plan with its time, the run, the outcome."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer

from ecgbench.core.cells import Folders, Request, plan_of
from ecgbench.core.text import quoted, visible
from ecgbench.errors import BadSetting
from ecgbench.evaluate import torchrun
from ecgbench.results.aside import FOLDER as SET_ASIDE
from ecgbench.study.controls import FOLDER as CONTROLS

if TYPE_CHECKING:
    from pathlib import Path

    from ecgbench.study.run import Carrying, Outcome


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a study is carried out; nothing of it changes a number."""

    carrying: "Carrying"
    dry_run: bool
    controls: tuple[str, ...] = ()
    """Names of the controls that follow the study."""


def compute(request: Request, folders: Folders, execution: Execution) -> None:
    """Compute what is missing of a study, or print its time, and say what became of it; typer.Exit
    with code 1 where a cell failed.
    """
    from ecgbench.evaluate.device import choose, demand
    from ecgbench.study import engines
    from ecgbench.study.lacking import writable

    carrying = execution.carrying
    device, away = choose(carrying.device), engines.get(carrying.engine).CARD.other_machines
    if not away:
        demand(device)
    writable(folders.out)
    if execution.dry_run and torchrun.world() > 1:
        raise BadSetting("--dry-run: its probe is of one process; run it without torchrun")
    with torchrun.together():
        if torchrun.rank() != 0:
            from ecgbench.study.work import take_part

            take_part()
            return
        _demand_possible(request, folders, execution, device)
        if not execution.dry_run:
            _run(request, folders, execution)


def _run(request: Request, folders: Folders, execution: Execution) -> None:
    from ecgbench.study import control_runs
    from ecgbench.study.progress import display
    from ecgbench.study.run import remove_windows, run
    from ecgbench.study.store import Store

    progress, carrying = display(), execution.carrying
    done = run([request], folders, carrying, progress)
    if done.elsewhere:
        typer.echo(f"{done.elsewhere} jobs go on without this command")
        typer.echo(f"next: ecgbench runs status {quoted(folders.out)}")
        return
    after = control_runs.compute(folders, execution.controls, carrying, progress)
    if not carrying.keep_features:
        remove_windows(Store(folders.out))
    _print_outcome(done, after, folders.out)


def _print_outcome(done: "Outcome", controlled: "dict[str, list[Outcome]]", out: "Path") -> None:
    _print_counts(done, str(out), out)
    for name, outcomes in controlled.items():
        times = f", {len(outcomes)} times" if len(outcomes) > 1 else ""
        _print_counts(_together(outcomes), f"control {name}{times}", out / CONTROLS)
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


def _print_counts(done: "Outcome", where: str, out: "Path") -> None:
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


def _demand_possible(request: Request, folders: Folders, execution: Execution, device: str) -> None:
    """EcgbenchError for what a study lacks; a dry run prints what it takes on `device`."""
    from ecgbench.core.provenance import command
    from ecgbench.study import control_runs, dividing, estimate, lacking
    from ecgbench.study import plan as planning
    from ecgbench.study.store import Store, free

    lacking.demand(request, folders, data=not execution.dry_run)
    planned = plan_of(request)
    dividing.demand(planned, folders, planning.all_tasks().owners)
    try:
        Store(folders.out).join(planned)
    except BadSetting as error:
        raise BadSetting(f"{error}: {command(free(folders.out))}") from None
    if execution.dry_run:
        for text in estimate.lines(planned, folders, device):
            typer.echo(text)
        for text in control_runs.lines([request], folders, execution.controls):
            typer.echo(text)
