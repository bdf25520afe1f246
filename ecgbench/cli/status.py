"""`ecgbench status`: how far a run is, wherever its models run."""

import gc
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import typer

from ecgbench.cli.options import add_commands, argument, flag, option
from ecgbench.core.text import aligned, counted, duration, line, printed_json
from ecgbench.errors import BadSetting

MODELS = 40
"""Models that are listed at most."""
NAMED = 5
"""Tasks that are named one by one."""


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, status)


def status(
    run: Path = argument("Folder of a run, for example runs/demo."),
    watch: bool = flag("Again every --every seconds, until no task waits or runs.", "--watch"),
    every: float = option("Seconds between two looks of --watch.", default=10.0),
    as_json: bool = flag("One object instead of lines.", "--json"),
) -> None:
    """Print how far a run is: cells that are finished, skipped, failed and missing, how fast they
    come, and the tasks of a cluster that wait, run or ended too early.

    It reads the index of the run, squeue, and sacct where the cluster has one. Nothing is changed.
    Of many models those are shown that have cells left.

    Example:

      ecgbench status runs/paper --watch
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
    alive = any(standing != "ended" for _, _, standing, _ in tasks)
    ended = [(name, why) for _, name, standing, why in tasks if standing == "ended" and why]
    return {
        "cells": sum(counts.all.values()),
        **{state: counts.all[state] for state in ("ok", "skipped", "failed", "damaged", "missing")},
        "models": {model: dict(own) for model, own in counts.models.items()},
        "cells_per_hour": round(3600 * counts.rate, 1) if counts.rate else None,
        "seconds_left": None if counts.left is None else round(counts.left),
        "tasks": dict(Counter(standing for _, _, standing, _ in tasks)),
        "waiting_for": dict(Counter(w for _, _, s, w in tasks if s == "waiting" and w)),
        "ended_early": [{"task": name, "why": why} for name, why in ended],
    }, alive


def _tasks(run: Path) -> Iterator[tuple[int, str, str, str]]:
    """(task, its name in the cluster, standing, why) of the tasks that were handed over. Of one
    that ended with all its cells nothing is said: `why` is "".
    """
    from ecgbench.study import engines
    from ecgbench.study.batch import of_run
    from ecgbench.study.engine import Setup
    from ecgbench.study.workers import Workers, is_over

    for batch in of_run(run):
        names = batch.handed_over()
        if not names or batch.engine not in engines.names():
            continue
        setup = Setup(
            logs=run / "logs",
            patience=batch.patience,
            show=lambda event: None,
            options=batch.options,
        )
        engine = engines.get(batch.engine).start(setup)
        if not isinstance(engine, Workers):
            continue
        states = engine.launcher.states(batch)
        for number, state in states.items():
            over = state.standing == "ended" and all(map(is_over, batch.tasks[number]))
            yield number, names[number], state.standing, "" if over else state.why


def _lines(run: Path, told: dict[str, object]) -> Iterator[str]:
    shown = {"ok": "finished", "missing": "not yet"}
    states = [s for s in ("ok", "skipped", "failed", "damaged", "missing") if told[s]]
    head = ", ".join(f"{told[s]:,} {shown.get(s, s)}" for s in states)
    yield f"{run}: {counted(int(str(told['cells'])), 'cell')}: {head or 'none'}"
    models = told["models"]
    assert isinstance(models, dict)
    listed = {m: own for m, own in models.items() if len(models) <= MODELS or set(own) != {"ok"}}
    table = [
        [m, *(str(own.get(s, 0) or "-") for s in states)]
        for m, own in list(listed.items())[:MODELS]
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
                ("ended", "ended"),
            )
            if tasks.get(s)
        )
    early = told["ended_early"]
    assert isinstance(early, list)
    for one in early[:NAMED]:
        yield f"  ended before its cells were finished: {one['task']}: {line(one['why'])}"
    if len(early) > NAMED:
        yield f"  and {len(early) - NAMED} more"
    if early:
        yield "the `ecgbench run` command, given again, computes what is missing"
