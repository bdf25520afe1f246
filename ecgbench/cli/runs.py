"""`ecgbench runs ls | status | why | merge | prune | share`: run folders."""

import gc
import math
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import typer

from ecgbench.cli.options import RESULTS, add_commands, argument, flag, option
from ecgbench.core.text import aligned, counted, duration, line, printed_json, quoted, size
from ecgbench.errors import BadSetting

MODELS_LISTED = 40
"""Models that `status` lists at most."""
NAMED = 5
"""Tasks that are named one by one."""
RUN = argument("Folder of a run, for example runs/demo.")


def add(app: typer.Typer) -> None:
    """Add the group to the program."""
    group = typer.Typer(
        help="Run folders: ls, status, why, merge, prune, share.",
        no_args_is_help=True,
    )
    add_commands(group, ls, status, why, merge, prune, share)
    app.add_typer(group, name="runs", rich_help_panel=RESULTS)


def status(
    run: Path = argument("Folder of a run, for example runs/demo."),
    watch: bool = flag("Again every --every seconds, until no task waits or runs.", "--watch"),
    every: float = option("Seconds between two looks of --watch.", default=10.0),
    as_json: bool = flag("One object instead of lines.", "--json"),
) -> None:
    """Print how far a run is: cells that are finished, skipped, failed and missing, how fast they
    come, and the jobs of a cluster that wait or run.

    It reads the index of the run and squeue. Nothing is changed.
    Of many models those are shown that have cells left.

    Example:

      ecgbench runs status runs/paper --watch
    """
    if not every > 0:
        raise BadSetting(f"--every {every:g}: seconds, more than 0")
    while True:
        told, alive = _told(run)
        typer.echo(printed_json(told) if as_json else "\n".join(_lines(run, told)))
        if not watch or not alive:
            return
        time.sleep(every)


def _told(run: Path) -> tuple[dict[str, object], bool]:
    """What is known of a run, and whether any task of it has not ended."""
    from ecgbench.results.counts import count

    gc.disable()  # of 100,000 cells nothing is garbage, and looking for it takes time
    counts = count(run)
    gc.enable()
    tasks = list(_tasks(run))
    return {
        "cells": sum(counts.all.values()),
        **{state: counts.all[state] for state in ("ok", "skipped", "failed", "damaged", "missing")},
        "models": {model: dict(own) for model, own in counts.models.items()},
        "cells_per_hour": round(3600 * counts.rate, 1) if counts.rate else None,
        "seconds_left": None if counts.left is None else round(counts.left),
        "tasks": dict(Counter(standing for standing, _ in tasks)),
        "waiting_for": dict(Counter(why for s, why in tasks if s == "waiting" and why)),
    }, bool(tasks)


def _tasks(run: Path) -> list[tuple[str, str]]:
    """(standing, why it waits) of the jobs in Slurm that have not ended."""
    from ecgbench.study.engines import slurm

    return [
        ("waiting" if state in ("PENDING", "UNKNOWN") else "running", why)
        for _, state, why in slurm.running(run).values()
    ]


def _lines(run: Path, told: dict[str, object]) -> Iterator[str]:
    shown = {"ok": "finished", "missing": "not yet"}
    states = [s for s in ("ok", "skipped", "failed", "damaged", "missing") if told[s]]
    head = ", ".join(f"{told[s]:,} {shown.get(s, s)}" for s in states)
    yield f"{run}: {counted(int(str(told['cells'])), 'cell')}: {head or 'none'}"
    models = told["models"]
    assert isinstance(models, dict)
    listed = {
        m: own for m, own in models.items() if len(models) <= MODELS_LISTED or set(own) != {"ok"}
    }
    table = [
        [m, *(str(own.get(s, 0) or "-") for s in states)]
        for m, own in list(listed.items())[:MODELS_LISTED]
    ]
    if table:
        head_row = ["model", *(shown.get(s, s) for s in states)]
        yield from aligned([head_row, *table], right=range(1, len(states) + 1))
    if len(table) < len(models):
        yield f"and {counted(len(models) - len(table), 'model')} more (--json names all)"
    if told["cells_per_hour"] and told["missing"]:
        left = told["seconds_left"]
        assert isinstance(left, int)
        rate = f"{told['cells_per_hour']:,} cells an hour lately"
        yield f"{rate}; at this rate {duration(left)} are left"
    tasks, waiting = told["tasks"], told["waiting_for"]
    assert isinstance(tasks, dict)
    assert isinstance(waiting, dict)
    if tasks:
        why = f" ({', '.join(map(line, waiting))})" if waiting else ""
        yield "tasks: " + ", ".join(
            f"{tasks[s]} {what}"
            for s, what in (
                ("running", "running"),
                ("waiting", f"waiting{why}"),
            )
            if tasks.get(s)
        )


def why(
    run: Path = RUN,
    cell: str = argument(
        "A cell: its folder, the beginning of its key, or its identity as index.jsonl spells it."
    ),
    other: str = argument("Another cell of the run, to be compared with.", None),
) -> None:
    """Print where a number comes from, or what two numbers differ in.

    Of one cell: its weights, its fit, its scores, and every fact that was hashed for its key and
    for that of its fit. Of two: the facts that differ, and the scores beside one another. Folders
    and keys stand in cells.csv of a report.

    Examples:

      ecgbench runs why runs/demo 3fa9

      ecgbench runs why runs/demo 3fa9 cells/demo/stmem/12/81bc...
    """
    from ecgbench.study.explain import description, difference, explained
    from ecgbench.study.store import Store

    store = Store(run)
    first = explained(store, cell)
    lines = description(first) if other is None else difference(first, explained(store, other))
    typer.echo("\n".join(lines))


def merge(
    a: Path = argument("Folder of a run."),
    b: Path = argument("Folder of another run with the same settings; it is only read."),
    to: Path = option("A new folder for both.  (default: A, which then holds both)"),
) -> None:
    """Join two run folders, for example of two machines.

    Cells, fits, features and facts are copied. What is there already stays; of two results of one
    cell the newer one is shown. Both runs must have the same training, draw of leads, limit and
    contract, and the same weights and code of each model. What is damaged is left out.

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
    sizes: bool = flag("Sizes of runs with very many files too, which takes a while.", "--sizes"),
    verify: bool = flag(
        "Read every file and compare it with the hash that was recorded; exit code 1 where one is "
        "another.",
        "--verify",
    ),
) -> None:
    """List runs: cells that are done, failed, skipped or missing, and disk by part; then what was
    damaged and set aside, and why.

    The list believes the index of a run, in which its cells are noted when they are finished. A run
    and a report compare each file that they use with its hash; --verify does so with all of them.
    """
    from ecgbench.cli.lists import show
    from ecgbench.study.disk import MOST, runs

    if not folder.is_dir():
        raise BadSetting(f"{folder} is no folder; name one that holds runs: ecgbench runs ls DIR")
    gc.disable()  # of 100,000 cells nothing is garbage, and looking for it takes time
    listed = runs(folder, math.inf if sizes else MOST, looking=verify)
    rows = [
        {
            "run": str(r.path),
            **r.states,
            **{p: n if as_json or n is None else size(n) for p, n in r.disk.items()},
            "aside": [vars(aside) for aside in r.set_aside],
            "note": r.note,
        }
        for r in listed
    ]
    show(rows, as_json, tuple(rows[0])[:-2] if rows else ("run",))
    large = [run for run in listed if None in run.disk.values()]
    if large and not as_json:
        typer.echo(
            f"sizes of runs with more than {MOST:,} files: ecgbench runs ls {quoted(folder)} "
            f"--sizes"
        )
    for run in listed if not as_json else ():
        if run.note:
            typer.echo(f"cannot be read: {line(run.note)}", err=True)
        for aside in run.set_aside:
            typer.echo(f"set aside: {run.path / aside.now}: {line(aside.why)}")
    if verify:
        from ecgbench.results.verify import faults
        from ecgbench.study.store import Store

        found = [fault for run in listed for fault in faults(Store(run.path))]
        for fault in found:
            typer.echo(f"damaged: {line(fault)}", err=True)
        typer.echo(f"{counted(len(found), 'damage')} in {counted(len(listed), 'run')}", err=True)
        raise typer.Exit(1 if found else 0)


def prune(
    run: Path = RUN,
    yes: bool = flag("Remove it; without this, only list what would be removed.", "--yes", "-y"),
) -> None:
    """Free disk: features, checkpoints, intervals, what was damaged and set aside, cells that the
    plan does not name or that an edited plug-in replaced.

    No number of the plan is lost.

    Intervals are computed again when the run is read, features when a run needs them; a fine-tuning
    whose checkpoint is removed begins anew.
    """
    from ecgbench.study import disk

    if yes:
        typer.echo(f"{size(disk.prune(run))} freed in {run}")
        return
    sizes = {folder: disk.size(folder) for folder in disk.spare(run)}
    for folder, freed in sizes.items():
        typer.echo(f"{size(freed):>10}  {folder}")
    total = (
        f"{size(sum(sizes.values()))} would be freed; to remove them: ecgbench runs prune "
        f"{quoted(run)} --yes"
    )
    typer.echo(total if sizes else f"nothing to free in {run}")


def share(
    run: Path = RUN,
    to: Path = option("A new or empty folder for what may be given away.", default=...),
) -> None:
    """Write tables, page, figures and predictions with numbers in place of names.

    Signals, ages, sexes, folders and commands stay here. Probabilities and targets of each test
    recording go with it: look whether you may give them away.

    Example:

      ecgbench runs share runs/mine --to to_share
    """
    from ecgbench import reports
    from ecgbench.results.study import read
    from ecgbench.study.progress import display

    written, left_out = reports.share(read(run, stage=display().stage), to)
    typer.echo("\n".join(str(path) for path in written))
    typer.echo(left_out)
    typer.echo(
        "what remains: scores and counts by model, leads and label; names of models and labels; "
        "for each test recording its number, the number of its patient, probabilities and targets"
    )
