"""`ecgbench runs ls | status | why | merge | prune | export`: run folders."""

import gc
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ecgbench.cli.data import print_spare
from ecgbench.cli.lists import show
from ecgbench.cli.options import YES, argument, flag, option
from ecgbench.core.text import counted, duration, line, quoted, size
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from ecgbench.study.store import Status

STATES: "tuple[Status, ...]" = ("ok", "skipped", "failed", "damaged", "missing")
RUN = argument("Folder of a run, for example runs/demo.")


def status(
    run: Path = RUN,
    as_json: bool = flag("One object instead of lines.", "--json"),
) -> None:
    """Print the progress of a run: finished, skipped, failed and missing cells, their rate, and the
    waiting and running jobs of a cluster.

    Reads the index of the run and squeue; nothing is changed. To follow a run: watch -n 10 ecgbench
    runs status RUN
    """
    from ecgbench.study.engines import slurm
    from ecgbench.study.overview import summary

    gc.disable()  # of 100,000 cells nothing is garbage, and looking for it takes time
    counts = summary(run)
    jobs = list(slurm.running(run).values())
    waiting = [why for _, state, why in jobs if state in ("PENDING", "UNKNOWN")]
    tasks = {"running": len(jobs) - len(waiting), "waiting": len(waiting)}
    states: dict[str, int] = {state: counts.states[state] for state in STATES}
    cells = sum(states.values())
    if as_json:
        known = {
            "cells": cells,
            **states,
            "models": {model: dict(own) for model, own in counts.models.items()},
            "cells_per_hour": round(3600 * counts.rate, 1) if counts.rate else None,
            "seconds_left": None if counts.seconds_left is None else round(counts.seconds_left),
            "tasks": {state: n for state, n in tasks.items() if n},
            "waiting_for": dict(Counter(filter(None, waiting))),
        }
        typer.echo(json.dumps(known, indent=1))
        return
    head = ", ".join(f"{n:,} {state}" for state, n in states.items() if n)
    typer.echo(f"{run}: {counted(cells, 'cell')}: {head or 'none'}")
    columns = [state for state in STATES if states[state]]
    rows = [{"model": m, **{s: own[s] for s in columns}} for m, own in counts.models.items()]
    show(rows, False, ("model", *columns))
    if counts.rate and counts.seconds_left:
        rate = f"{3600 * counts.rate:,.1f} cells an hour lately"
        typer.echo(f"{rate}; at this rate {duration(counts.seconds_left)} are left")
    if jobs:
        reasons = ", ".join(map(line, dict.fromkeys(filter(None, waiting))))
        why = f" ({reasons})" if reasons else ""
        typer.echo(f"tasks: {tasks['running']} running, {tasks['waiting']} waiting{why}")


def why(
    run: Path = RUN,
    cell: str = argument("A cell: its folder, the first letters of its key, or its identity."),
    other: str = argument("Another cell of the run, to compare with.", None),
) -> None:
    """Explain where a number comes from, or why two numbers differ.

    One cell: its weights, fit and scores, and every fact behind its key and that of its fit. Two
    cells: the facts that differ, and both scores. Folders and keys are in cells.csv of a report.

    Examples:

      ecgbench runs why runs/demo 3fa9

      ecgbench runs why runs/demo 3fa9 cells/demo/stmem/12/81bc...
    """
    from ecgbench.study.explain import description, difference, result_of
    from ecgbench.study.store import Store

    store = Store(run)
    first = result_of(store, cell)
    lines = description(first) if other is None else difference(first, result_of(store, other))
    typer.echo("\n".join(lines))


def merge(
    a: Path = argument("Folder of a run."),
    b: Path = argument("Folder of another run with the same settings; it is only read."),
    to: Path = option("A new folder for both.  (default: A)"),
) -> None:
    """Merge two run folders, for example from two machines.

    Cells, fits, features and facts are copied, also of controls, perturbations and other heads.
    Nothing is overwritten; where both runs have a cell, reports use the newer result. Both runs
    must have the same training, draw of leads, limit, labels and contract, and the same weights and
    code of each model. Damaged cells are not copied.

    Example:

      ecgbench runs merge runs/ptbxl runs/ptbxl_from_cluster
    """
    from ecgbench.study.merge import merge as merged

    counts = merged(a, b, to or a)
    copied = ", ".join(counted(counts[f"{what}s"], what) for what in ("cell", "fit", "file"))
    typer.echo(f"{copied} copied to {to or a}")
    if counts["damaged"]:
        typer.echo(f"{counted(counts['damaged'], 'damaged folder')} left out", err=True)
    typer.echo(f"next: ecgbench report {quoted(to or a)}")


def ls(
    folder: Path = argument("Folder that holds run folders, or one of them.", Path("runs")),
    as_json: bool = flag("One array of objects, sizes in bytes, instead of a table.", "--json"),
    sizes: bool = flag("Also the disk space of each part of a run.", "--sizes"),
    verify: bool = flag("Compare every file with its hash; exit 1 where one differs.", "--verify"),
) -> None:
    """List runs: finished, failed, skipped and missing cells, and damaged files.

    The counts come from the index of a run. Runs and reports compare every file that they read with
    its hash; --verify does so with all files.
    """
    from ecgbench.study.overview import runs
    from ecgbench.study.store import Store
    from ecgbench.study.verify import faults

    if not folder.is_dir():
        raise BadSetting(
            f"{folder} is not a folder; name one that holds runs: ecgbench runs ls DIR"
        )
    gc.disable()
    listed = runs(folder, sizes, damages=verify)
    rows = []
    for r in listed:
        disk = r.disk if as_json else {part: size(n) for part, n in r.disk.items()}
        more = {"damaged_files": list(map(str, r.damaged)), "note": r.note}
        rows.append({"run": str(r.path), **r.states, **disk, **more})
    show(rows, as_json, tuple(rows[0])[:-2] if rows else ("run",))
    for r in listed if not as_json else ():
        if r.note:
            typer.echo(f"cannot be read: {line(r.note)}", err=True)
        for file in r.damaged:
            typer.echo(f"damaged, renamed: {file}")
    if verify:
        found = [fault for r in listed for fault in faults(Store(r.path))]
        for fault in found:
            typer.echo(f"damaged: {line(fault)}", err=True)
        typer.echo(f"{counted(len(found), 'damage')} in {counted(len(listed), 'run')}", err=True)
        raise typer.Exit(1 if found else 0)


def prune(run: Path = RUN, yes: bool = YES) -> None:
    """Free disk space: features, checkpoints, intervals, damaged files, and cells that the plan
    does not name or that an edited plug-in replaced.

    No number of the plan is lost. Intervals are computed again by the next report, features by the
    next run that needs them. A fine-tuning without its checkpoint starts again.
    """
    from ecgbench.study import overview

    if yes:
        typer.echo(f"{size(overview.prune(run))} freed in {run}")
    else:
        print_spare({folder: overview.size(folder) for folder in overview.spare(run)}, run)


def export(
    run: Path = RUN,
    to: Path = option("A new or empty folder."),
    by: str = option("Who measured it: a name, a group.", default="somebody"),
    card: bool = flag("Print scores as lines for the model card of a hub instead.", "--card"),
) -> None:
    """Write results as one folder that others can read, check and report.

    It has predictions, scores in the schema of Every Eval Ever, the command, versions and a page.
    Probabilities and targets of each test recording go along, of your own recordings too: check
    that you may give them away.

    Examples:

      ecgbench runs export runs/mine --to to_send --by "R. Roe, Ghent"

      ecgbench read to_send
    """
    from ecgbench import exchange
    from ecgbench.results.study import read
    from ecgbench.study.progress import display

    if to is None and not card:
        raise BadSetting("runs export: name a new folder: --to FOLDER, or --card for lines")
    study = read(run, stage=display().stage)
    if card:
        typer.echo(exchange.card(study))
        return
    for sentence in exchange.export(study, to, by):
        typer.echo(sentence)
    typer.echo(f"{to}: check that you may give it away; next: ecgbench check results {quoted(to)}")


COMMANDS = (ls, status, why, merge, prune, export)
