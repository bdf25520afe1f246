"""`ecgbench run`: compute what is missing of a study."""

import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from ecgbench.cells import Asked, Places, Plan
from ecgbench.errors import BadSetting
from ecgbench.room import folder_name
from ecgbench.training import ranks

if TYPE_CHECKING:
    from ecgbench.benchmark.engine import Engine
    from ecgbench.benchmark.job_record import Outcome

USUAL, INLINE = "isolated", "inline"
"""Engines: without options, and under --in-process and torchrun."""

DATA = typer.Option(None, "--data", envvar="ECGBENCH_DATA", help="Folder that holds the datasets as published (DIR/ptbxl/...); only read.")
PREPARED = typer.Option(
    None, "--prepared", envvar="ECGBENCH_PREPARED", help="Folder for prepared copies. Default: DATA/prepared, or the user's cache."
)


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("run")(run)


def run(
    suite: str = typer.Option(None, "--suite", help="A named study to start from: demo, ptbxl, paper. Without --suite and --tasks: demo."),
    models: str = typer.Option(None, "--models", "-m", help="Models, comma-separated; a path enters your own: laef,./mine.py"),
    tasks: str = typer.Option(None, "--tasks", "-t", help="Tasks, comma-separated; see `ecgbench tasks`. A path: your own dataset."),
    leads: str = typer.Option(None, "--leads", "-l", help="Counts drawn at random, ranges and named sets: 1,2,12,I,II,I+V2 or 1-12."),
    seeds: int = typer.Option(None, "--seeds", help="Draws of random leads, seeds 0..N-1, on one fit.  (default: 5; demo: 2)"),
    fit_seeds: str = typer.Option(None, "--fit-seeds", help="Seeds of the training, comma-separated.  (default: 0)"),
    weights: str = typer.Option(
        None, "--weights", "-w",
        help="released, random, released_or_random, a path, or NAME=... per model.  (default: released; suites: released_or_random)",
    ),
    protocol: str = typer.Option(
        None, "--protocol", help="linear: a linear probe on the frozen encoder. finetune: the whole network is trained.  (default: linear)"
    ),
    policy: str = typer.Option(None, "--policy", help="Missing leads: paper (each model's own), native, or names of `ecgbench adapters`."),
    contract: str = typer.Option(None, "--contract", help="How models are fed: paper (reference benchmark) or upstream (authors)."),
    draw: str = typer.Option("record", "--draw", help="Random leads per record, or anew in each window."),
    rows: str = typer.Option("all", "--rows", help="Evaluation-only tasks: all records, or labelled ones only."),
    bootstrap: str = typer.Option("bayesian", "--bootstrap", help="Resampling of patients: bayesian, or multinomial (the paper's)."),
    limit: int = typer.Option(None, "--limit", help="Use N records of each dataset in all, seeded, in the proportion of its splits."),
    epochs: int = typer.Option(None, "--epochs", help="Training epochs.  (default: 100)"),
    lr: float = typer.Option(
        None, "--lr", help="Learning rate of the head; fine-tuning: late layers a tenth, early ones a hundredth.  (default: 0.001)"
    ),
    lr_groups: str = typer.Option(None, "--lr-groups", help="on, or off: one rate for all layers.  (default: on)"),
    batch: int = typer.Option(None, "--batch", help="Records per training step.  (default: 64)"),
    micro_batch: int = typer.Option(None, "--micro-batch", help="Fine-tuning: records per pass where a batch does not fit the memory."),
    train_leads: str = typer.Option(
        None, "--train-leads", help="all: training sees twelve leads. random: 1 to 12 of them, drawn per record and epoch.  (default: all)"
    ),
    precision: str = typer.Option(
        None, "--precision", help="bf16: of fine-tuning's training step, or of the frozen encoder where that moves no feature by over 1 %."
    ),
    device: str = typer.Option("auto", "--device", help="auto (a GPU where there is one), cpu, cuda, cuda:1."),
    data: Path = DATA,
    prepared: Path = PREPARED,
    out: Path = typer.Option(None, "--out", "-o", help="Run folder; an existing one is resumed or extended.  (default: runs/NAME)"),
    cell_timeout: float = typer.Option(
        900, "--cell-timeout", help="Seconds without progress (a record, a training step, a score) after which a cell has failed."
    ),
    engine: str = typer.Option(
        None, "--engine", help="Where models run: a name of `ecgbench engines`, or the path of your own.  (default: isolated)"
    ),
    in_process: bool = typer.Option(
        False, "--in-process", help="--engine inline: in this process, for a debugger; what a model does to its process then ends the run."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only tell what would be computed, with disk and time as a short probe tells."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Start fine-tuning without a GPU even if it will take more than an hour."),
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
    trained: dict[str, Any] = {
        "protocol": protocol and _one_of("--protocol", protocol, "linear", "finetune"), "epochs": epochs, "lr": lr, "batch": batch,
        "leads": train_leads and _one_of("--train-leads", train_leads, "all", "random"), "micro_batch": micro_batch,
        "lr_groups": lr_groups and _one_of("--lr-groups", lr_groups, "on", "off") == "on",
        "precision": precision and _one_of("--precision", precision, "float32", "bf16"),
    }  # fmt: skip
    base = _base(suite, tasks)
    asked = replace(base, **{k: v for k, v in words.items() if v is not None})
    asked = replace(
        asked,
        training=replace(base.training, **{k: v for k, v in trained.items() if v is not None}),
        scoring=replace(
            asked.scoring,
            draw=cast(Any, _one_of("--draw", draw, "record", "window")),
            rows=cast(Any, _one_of("--rows", rows, "all", "labelled")),
            bootstrap=cast(Any, _one_of("--bootstrap", bootstrap, "bayesian", "multinomial")),
        ),
    )
    if not cell_timeout > 0:
        raise BadSetting(f"--cell-timeout {cell_timeout:g}: seconds, more than 0; the default is 900")
    checked = planning.check(asked)
    place = out or Path("runs") / folder_name(checked.name or "+".join(checked.tasks))
    execution = _Execution(device, _engine_name(engine, in_process), cell_timeout, dry_run, yes)
    _compute(checked, Places(data=data, prepared=prepared, out=place), execution)


@dataclass(frozen=True)
class _Execution:
    """How a study is carried out; nothing of it changes a number."""

    device: str
    engine: str
    patience: float
    dry_run: bool
    yes: bool


def _engine_name(named: str | None, in_process: bool) -> str:
    """The engine that the options mean; torchrun has started its processes already, so models run in those."""
    from ecgbench.benchmark import engines

    inline = in_process or ranks.world() > 1
    if named and inline:
        why = "--in-process" if in_process else "torchrun"
        raise BadSetting(f"--engine {named}: {why} runs models in its own processes; leave one of the two out")
    return engines.resolve(named or (INLINE if inline else USUAL))


def _compute(asked: Asked, places: Places, execution: _Execution) -> None:
    from ecgbench.benchmark import engines
    from ecgbench.benchmark.device import choose
    from ecgbench.benchmark.engine import Setup
    from ecgbench.benchmark.progress import EventDisplay, watcher
    from ecgbench.benchmark.run import Run

    device = choose(execution.device)
    if execution.dry_run and ranks.world() > 1:
        raise BadSetting("--dry-run: its probe is of one process; run it without torchrun")
    with ranks.together():
        if ranks.rank() != 0:
            from ecgbench.benchmark.work import take_part

            take_part()
            return
        progress = watcher()
        with tempfile.TemporaryDirectory() as passing:
            logs = (Path(passing) if execution.dry_run else places.out) / "logs"
            setup = Setup(logs=logs, patience=execution.patience, show=EventDisplay(progress))
            with closing(engines.get(execution.engine).start(setup)) as engine:
                planned = _planned(asked, places, execution, engine, device if ranks.world() == 1 else "")
                if execution.dry_run:
                    return
                done = Run(planned, places, progress, engine, device)()
    _tell(done, places.out)


def _tell(done: "Outcome", out: Path) -> None:
    typer.echo(
        f"{done.computed} cells computed, {done.reused} were there already, {len(done.skipped)} skipped, {done.failures} failed: {out}"
    )
    for (model, reason, log), cells in done.failed.items():
        which = cells[0] if len(cells) == 1 else f"{len(cells)} cells of {model}"
        typer.echo(f"  failed: {which}: {reason}" + (f" (log: {log})" if log else ""), err=True)
    typer.echo(f"next: ecgbench report {out}")
    if done.failed:
        raise typer.Exit(1)


def _planned(asked: Asked, places: Places, execution: _Execution, engine: "Engine", device: str) -> Plan:
    """The plan, once its time is told where that was asked for or is long; `device` is "" where nothing can be tried."""
    from ecgbench.benchmark import plan as planning
    from ecgbench.benchmark.engine import ask
    from ecgbench.benchmark.job import Look, Measure, plugins
    from ecgbench.estimate import study

    started = time.monotonic()

    def policy(model: str, weights: str | None) -> str | None:
        look = Look(id=f"look {model}", model=model, weights=weights, contract=asked.contract, plugins=plugins())
        answer: str | None = ask(engine, look).get("policy")
        return answer

    def measure(part: Plan, dataset: str) -> dict[str, Any]:
        model = part.cells[0].fit.model
        job = Measure(
            id=f"measure {model} on {dataset}", model=model, plan=part, dataset=dataset, places=places, device=device,
            plugins=plugins(),
        )  # fmt: skip
        return ask(engine, job)

    planned = planning.plan(asked, policy)
    begun = time.monotonic() - started
    slow = planned.training.protocol == "finetune" and device == "cpu" and not study.trifling(planned)
    if execution.dry_run or slow:
        whole = replace(study.estimate(planned, places.out, measure, device), begun=begun)
        if execution.dry_run:
            typer.echo("\n".join(study.table(whole, places.out)))
        else:
            typer.echo(study.agreed(whole, execution.yes), err=True)
    return planned


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
