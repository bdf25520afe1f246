"""`ecgbench run`: compute what is missing of a study."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import typer

from ecgbench.cells import Asked, Training
from ecgbench.errors import BadSetting

DATA = typer.Option(None, "--data", envvar="ECGBENCH_DATA", help="Folder that holds the datasets as published (DIR/ptbxl/...); only read.")
PREPARED = typer.Option(
    None, "--prepared", envvar="ECGBENCH_PREPARED", help="Folder for prepared copies. Default: DATA/prepared, or the user's cache."
)


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("run")(run)


def run(
    suite: str = typer.Option(None, "--suite", help="A named study to start from: demo, ptbxl. Without --suite and --tasks: demo."),
    models: str = typer.Option(None, "--models", "-m", help="Models, comma-separated; a path enters your own: laef,./mine.py"),
    tasks: str = typer.Option(None, "--tasks", "-t", help="Tasks, comma-separated; see `ecgbench tasks`."),
    leads: str = typer.Option(None, "--leads", "-l", help="Counts drawn at random, ranges and named sets: 1,2,12,I,II,I+V2 or 1-12."),
    seeds: int = typer.Option(None, "--seeds", help="Draws of random leads, seeds 0..N-1, on one fit.  (default: 5; demo: 2)"),
    fit_seeds: str = typer.Option(None, "--fit-seeds", help="Seeds of the training, comma-separated.  (default: 0)"),
    weights: str = typer.Option(
        None, "--weights", "-w",
        help="released, random, released_or_random, a path, or NAME=... per model.  (default: released; suites: released_or_random)",
    ),
    protocol: str = typer.Option("linear", "--protocol", help="linear: a linear probe on the frozen encoder."),
    policy: str = typer.Option(None, "--policy", help="Missing leads: paper (each model's own), native, or names of `ecgbench adapters`."),
    contract: str = typer.Option(None, "--contract", help="How models are fed: paper (reference benchmark) or upstream (authors)."),
    draw: str = typer.Option("record", "--draw", help="Random leads per record, or anew in each window."),
    rows: str = typer.Option("all", "--rows", help="Evaluation-only tasks: all records, or labelled ones only."),
    bootstrap: str = typer.Option("bayesian", "--bootstrap", help="Resampling of patients: bayesian, or multinomial (the paper's)."),
    limit: int = typer.Option(None, "--limit", help="Use N records of each dataset in all, seeded, in the proportion of its splits."),
    epochs: int = typer.Option(100, "--epochs", help="Training epochs."),
    lr: float = typer.Option(1e-3, "--lr", help="Learning rate of the head."),
    batch: int = typer.Option(64, "--batch", help="Records per training step."),
    data: Path = DATA,
    prepared: Path = PREPARED,
    out: Path = typer.Option(None, "--out", "-o", help="Run folder; an existing one is resumed or extended.  (default: runs/NAME)"),
) -> None:  # fmt: skip
    """Compute every cell of a study that is not finished yet.

    A cell is one model on one task under one set of leads. What is finished is kept: run the same command again after a kill,
    or a larger one into the same folder, and only what is missing is computed.

    Examples:

      ecgbench run                                     (the demo: synthetic recordings, laef and stmem)

      ecgbench run --models laef,stmem --tasks ptbxl_super --leads 1,2,12,I,II,I+II --weights random --data DIR --out runs/ptbxl
    """
    from ecgbench.benchmark import plan as planning

    words: dict[str, Any] = {
        "models": _split(models), "tasks": _split(tasks), "leads": leads, "seeds": seeds, "weights": weights, "policies": _split(policy),
        "contract": contract and _one_of("--contract", contract, "paper", "upstream"), "limit": limit, "fit_seeds": _integers(fit_seeds),
    }  # fmt: skip
    asked = replace(_base(suite, tasks), **{k: v for k, v in words.items() if v is not None})
    asked = replace(
        asked,
        training=Training(protocol=cast(Any, _one_of("--protocol", protocol, "linear")), epochs=epochs, lr=lr, batch=batch),
        scoring=replace(
            asked.scoring,
            draw=cast(Any, _one_of("--draw", draw, "record", "window")),
            rows=cast(Any, _one_of("--rows", rows, "all", "labelled")),
            bootstrap=cast(Any, _one_of("--bootstrap", bootstrap, "bayesian", "multinomial")),
        ),
    )
    checked = planning.check(asked)
    place = out or Path("runs") / (checked.name or "+".join(checked.tasks))
    _compute(checked, data, prepared, place)


def _compute(asked: Asked, data: Path | None, prepared: Path | None, out: Path) -> None:
    from ecgbench.benchmark import plan as planning
    from ecgbench.benchmark.progress import watcher
    from ecgbench.benchmark.run import Places, Run

    planned = planning.plan(asked)
    done = Run(planned, Places(data=data, prepared=prepared, out=out), watcher())()
    typer.echo(
        f"{done.computed} cells computed, {done.reused} were there already, {len(done.skipped)} skipped, {len(done.failed)} failed: {out}"
    )
    for line in done.failed:
        typer.echo(f"  failed: {line}", err=True)
    typer.echo(f"next: ecgbench report {out}")
    if done.failed:
        raise typer.Exit(1)


def _base(suite: str | None, tasks: str | None) -> Asked:
    from ecgbench import suites

    if suite is None and tasks is not None:
        return Asked(models=("laef", "stmem"), tasks=(), leads="1,2,12")
    found: Asked = suites.get(suite or "demo").PLAN
    return found


def _split(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(dict.fromkeys(p.strip() for p in text.split(",") if p.strip()))


def _integers(text: str | None) -> tuple[int, ...] | None:
    try:
        return None if text is None else tuple(int(p) for p in text.split(","))
    except ValueError:
        raise BadSetting(f"--fit-seeds {text}: whole numbers, comma-separated, for example 0,1,2") from None


def _one_of(flag: str, value: str, *known: str) -> str:
    if value not in known:
        raise BadSetting(f"{flag} {value}: one of {', '.join(known)}")
    return value
