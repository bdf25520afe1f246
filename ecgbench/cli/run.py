"""`ecgbench run`: compute what is missing of a study."""

import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ecgbench.cells import Bootstrap, Folders, Plan, Precision, Protocol, Request, TrainLeads
from ecgbench.ecg.draw import Draw, parse_leads
from ecgbench.errors import BadSetting
from ecgbench.room import folder_name
from ecgbench.training import ranks

if TYPE_CHECKING:
    from ecgbench.benchmark.engine import Engine
    from ecgbench.benchmark.job_record import Outcome

T = TypeVar("T")

DEFAULT, INLINE = "isolated", "inline"
"""Engines: without options, and under --in-process and torchrun."""

CONTRACTS = ("paper", "upstream")
PROTOCOLS: tuple[Protocol, ...] = ("probe", "linear", "finetune")
TRAIN_LEADS: tuple[TrainLeads, ...] = ("all", "random")
PRECISIONS: tuple[Precision, ...] = ("float32", "bf16")
DRAWS: tuple[Draw, ...] = ("record", "window")
BOOTSTRAPS: tuple[Bootstrap, ...] = ("bayesian", "multinomial")

WHAT, LEADS, TRAINING, MACHINE = "What", "Leads", "Training", "Machine"
"""Panels of `ecgbench run --help`."""

DATA = typer.Option(
    None,
    "--data",
    envvar="ECGBENCH_DATA",
    help="Folder that holds the datasets as published (DIR/ptbxl/...); only read.",
    rich_help_panel=MACHINE,
)
PREPARED = typer.Option(
    None,
    "--prepared",
    envvar="ECGBENCH_PREPARED",
    help="Folder for prepared copies. Default: DATA/prepared, or the user's cache.",
    rich_help_panel=MACHINE,
)


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("run")(run)


def _option(panel: str, *names: str, help: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel)


def run(
    suite: Annotated[
        str | None,
        _option(
            WHAT,
            "--suite",
            help=(
                "A named study to start from: demo, ptbxl, paper. Without --suite and --tasks: "
                "demo."
            ),
        ),
    ] = None,
    models: Annotated[
        str | None,
        _option(
            WHAT,
            "--models",
            "-m",
            help="Models, comma-separated; a path adds your own: laef,./mine.py",
        ),
    ] = None,
    tasks: Annotated[
        str | None,
        _option(
            WHAT,
            "--tasks",
            "-t",
            help="Tasks, comma-separated; see `ecgbench tasks`. A path: your own dataset.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        _option(
            WHAT,
            "--weights",
            "-w",
            help=(
                "released, random, released_or_random, a path, or NAME=... per model.  (default: "
                "released; suites: released_or_random)"
            ),
        ),
    ] = None,
    contract: Annotated[
        str | None,
        _option(
            WHAT,
            "--contract",
            help="How models are fed: paper (reference benchmark) or upstream (authors).",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        _option(
            WHAT,
            "--metrics",
            help=(
                "Metrics, the first leads the tables; a path adds your own: auroc,./mine.py.  "
                "(default: auroc)"
            ),
        ),
    ] = None,
    rows: Annotated[
        str,
        _option(WHAT, "--rows", help="Evaluation-only tasks: all records, or labelled ones only."),
    ] = "all",
    bootstrap: Annotated[
        str,
        _option(
            WHAT,
            "--bootstrap",
            help="Resampling of patients: bayesian, or multinomial (the paper's).",
        ),
    ] = "bayesian",
    limit: Annotated[
        int | None,
        _option(
            WHAT,
            "--limit",
            help="Use N records of each dataset in all, seeded, in the proportion of its splits.",
        ),
    ] = None,
    leads: Annotated[
        str | None,
        _option(
            LEADS,
            "--leads",
            "-l",
            help="Counts drawn at random, ranges and named sets: 1,2,12,I,II,I+V2 or 1-12.",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        _option(
            LEADS,
            "--seeds",
            help="Draws of random leads, seeds 0..N-1, on one fit.  (default: 5; demo: 2)",
        ),
    ] = None,
    draw: Annotated[
        str, _option(LEADS, "--draw", help="Random leads per record, or anew in each window.")
    ] = "record",
    policy: Annotated[
        str | None,
        _option(
            LEADS,
            "--policy",
            help=(
                "How missing leads are filled: paper (each model's own way), native, or names of "
                "`ecgbench adapters`."
            ),
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        _option(
            TRAINING,
            "--protocol",
            help=(
                "probe: logistic regression on the frozen encoder's features, converged. linear: "
                "the paper's linear probe, 100 epochs. finetune: the whole network is trained.  "
                "(default: probe)"
            ),
        ),
    ] = None,
    train_leads: Annotated[
        str | None,
        _option(
            TRAINING,
            "--train-leads",
            help=(
                "all: training sees twelve leads. random: 1 to 12 of them, drawn per record and "
                "epoch; probe: 20 times per record.  (default: all)"
            ),
        ),
    ] = None,
    fit_seeds: Annotated[
        str | None,
        _option(
            TRAINING,
            "--fit-seeds",
            help="Seeds of the training, comma-separated.  (default: 0)",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        _option(
            TRAINING,
            "--epochs",
            help="Linear and finetune: training epochs.  (default: 100)",
        ),
    ] = None,
    lr: Annotated[
        float | None,
        _option(
            TRAINING,
            "--lr",
            help=(
                "Learning rate of the head; fine-tuning: late layers a tenth, early ones a "
                "hundredth.  (default: 0.001)"
            ),
        ),
    ] = None,
    lr_groups: Annotated[
        str | None,
        _option(
            TRAINING, "--lr-groups", help="on, or off: one rate for all layers.  (default: on)"
        ),
    ] = None,
    batch: Annotated[
        int | None,
        _option(TRAINING, "--batch", help="Records per training step.  (default: 64)"),
    ] = None,
    micro_batch: Annotated[
        int | None,
        _option(
            TRAINING,
            "--micro-batch",
            help="Fine-tuning: records per pass where a batch does not fit the memory.",
        ),
    ] = None,
    precision: Annotated[
        str | None,
        _option(
            TRAINING,
            "--precision",
            help=(
                "bf16: of fine-tuning's training step, or of the frozen encoder where that moves "
                "no feature by over 1 %."
            ),
        ),
    ] = None,
    data: Path | None = DATA,
    prepared: Path | None = PREPARED,
    out: Annotated[
        Path | None,
        _option(
            MACHINE,
            "--out",
            "-o",
            help="Run folder; an existing one is resumed or extended.  (default: runs/NAME)",
        ),
    ] = None,
    device: Annotated[
        str,
        _option(MACHINE, "--device", help="auto (a GPU where there is one), cpu, cuda, cuda:1."),
    ] = "auto",
    engine: Annotated[
        str | None,
        _option(
            MACHINE,
            "--engine",
            help=(
                "Where models run: a name of `ecgbench engines`, or the path of your own.  "
                "(default: isolated)"
            ),
        ),
    ] = None,
    in_process: Annotated[
        bool,
        _option(
            MACHINE,
            "--in-process",
            help=(
                "--engine inline: in this process, for a debugger; what a model does to its "
                "process then ends the run."
            ),
        ),
    ] = False,
    cell_timeout: Annotated[
        float,
        _option(
            MACHINE,
            "--cell-timeout",
            help=(
                "Seconds without progress (a record, a training step, a score) after which a "
                "cell has failed."
            ),
        ),
    ] = 900,
    keep_features: Annotated[
        str,
        _option(
            MACHINE,
            "--keep-features",
            help=(
                "yes, or no: features of the test records are removed when the run ends; reports "
                "may need them."
            ),
        ),
    ] = "yes",
    dry_run: Annotated[
        bool,
        _option(
            MACHINE,
            "--dry-run",
            help=(
                "Only list what would be computed, with disk and time as a short probe estimates "
                "them."
            ),
        ),
    ] = False,
    yes: Annotated[
        bool,
        _option(
            MACHINE,
            "--yes",
            "-y",
            help="Start fine-tuning without a GPU even if it will take more than an hour.",
        ),
    ] = False,
) -> None:
    """Compute every cell of a study that is not finished yet.

    A cell is one model on one task under one set of leads. What is finished is kept: run the
    same command again after it was killed, or a larger one into the same folder, and only what is
    missing is computed.

    Examples:

      ecgbench run                      (the demo: synthetic recordings, laef and stmem)

      ecgbench run --models laef,stmem --tasks ptbxl_super --leads 1,2,12,I,II,I+II
      --weights random --data DIR --out runs/ptbxl
    """
    from ecgbench.benchmark import plan as planning

    base = _base(suite, tasks)
    training = replace(
        base.training,
        protocol=_one_of("--protocol", protocol, PROTOCOLS, base.training.protocol),
        epochs=_or(epochs, base.training.epochs),
        lr=_or(lr, base.training.lr),
        batch=_or(batch, base.training.batch),
        leads=_one_of("--train-leads", train_leads, TRAIN_LEADS, base.training.leads),
        lr_groups=_switch("--lr-groups", lr_groups, "on", "off", base.training.lr_groups),
        precision=_one_of("--precision", precision, PRECISIONS, base.training.precision),
        micro_batch=_or(micro_batch, base.training.micro_batch),
    )
    scoring = replace(
        base.scoring,
        draw=_one_of("--draw", draw, DRAWS, base.scoring.draw),
        rows=_one_of("--rows", rows, ("all", "labelled"), base.scoring.rows),
        bootstrap=_one_of("--bootstrap", bootstrap, BOOTSTRAPS, base.scoring.bootstrap),
        metrics=_or(_split(metrics), base.scoring.metrics),
    )
    request = replace(
        base,
        models=_or(_split(models), base.models),
        tasks=_or(_split(tasks), base.tasks),
        leads=base.leads if leads is None else parse_leads(leads),
        seeds=_or(seeds, base.seeds),
        fit_seeds=_or(_integers(fit_seeds), base.fit_seeds),
        weights=_or(weights, base.weights),
        policies=_or(_split(policy), base.policies),
        contract=_one_of("--contract", contract, CONTRACTS, base.contract),
        limit=_or(limit, base.limit),
        training=training,
        scoring=scoring,
    )
    if not cell_timeout > 0:
        raise BadSetting(
            f"--cell-timeout {cell_timeout:g}: seconds, more than 0; the default is 900"
        )
    checked = planning.check(request)
    execution = _Execution(
        device=device,
        engine=_engine_name(engine, in_process),
        patience=cell_timeout,
        dry_run=dry_run,
        yes=yes,
        keep_features=_switch("--keep-features", keep_features, "yes", "no", True),
    )
    name = folder_name(checked.name or "+".join(checked.tasks))
    folders = Folders(data=data, prepared=prepared, out=out or Path("runs") / name)
    _compute(checked, folders, execution)


@dataclass(frozen=True, kw_only=True)
class _Execution:
    """How a study is carried out; nothing of it changes a number."""

    device: str
    engine: str
    patience: float
    dry_run: bool
    yes: bool
    keep_features: bool


def _or(given: T | None, usual: T) -> T:
    return usual if given is None else given


def _one_of(flag: str, given: str | None, known: tuple[T, ...], usual: T) -> T:
    """The choice that was typed, or the usual one; BadSetting where it is none of `known`."""
    if given is None:
        return usual
    for choice in known:
        if choice == given:
            return choice
    raise BadSetting(f"{flag} {given}: one of {', '.join(map(str, known))}")


def _switch(flag: str, given: str | None, yes: str, no: str, usual: bool) -> bool:
    return _one_of(flag, given, (yes, no), yes if usual else no) == yes


def _engine_name(named: str | None, in_process: bool) -> str:
    """The engine that the options name; under torchrun models run in the processes that it has
    started.
    """
    from ecgbench.benchmark import engines

    inline = in_process or ranks.world() > 1
    if named and inline:
        why = "--in-process" if in_process else "torchrun"
        raise BadSetting(
            f"--engine {named}: {why} runs models in its own processes; leave one of the two out"
        )
    return engines.resolve(named or (INLINE if inline else DEFAULT))


def _compute(request: Request, folders: Folders, execution: _Execution) -> None:
    from ecgbench.benchmark.device import choose
    from ecgbench.benchmark.engine import Setup
    from ecgbench.benchmark.progress import EventDisplay, watcher
    from ecgbench.benchmark.run import Run
    from ecgbench.benchmark.started import start

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
            logs = (Path(passing) if execution.dry_run else folders.out) / "logs"
            setup = Setup(logs=logs, patience=execution.patience, show=EventDisplay(progress))
            with closing(start(execution.engine, setup)) as engine:
                planned = _planned(
                    request, folders, execution, engine, device if ranks.world() == 1 else ""
                )
                if execution.dry_run:
                    return
                done = Run(planned, folders, progress, engine, device)(execution.keep_features)
    _print_outcome(done, folders.out)


def _print_outcome(done: "Outcome", out: Path) -> None:
    typer.echo(
        f"{done.computed} cells computed, {done.reused} were there already, {len(done.skipped)} "
        f"skipped, {done.failures} failed: {out}"
    )
    for (model, reason, log), cells in done.failed.items():
        which = cells[0] if len(cells) == 1 else f"{len(cells)} cells of {model}"
        typer.echo(f"  failed: {which}: {reason}" + (f" (log: {log})" if log else ""), err=True)
    typer.echo(f"next: ecgbench report {out}")
    if done.failed:
        raise typer.Exit(1)


def _planned(
    request: Request, folders: Folders, execution: _Execution, engine: "Engine", device: str
) -> Plan:
    """The plan. Prints its time first for a dry run and for a long fine-tuning; `device` is ""
    where nothing can be measured.
    """
    from ecgbench.benchmark import plan as planning
    from ecgbench.benchmark.engine import ask
    from ecgbench.benchmark.job import Look, Measure, plugins
    from ecgbench.estimate import study

    started = time.monotonic()

    def policy(model: str, weights: str | None) -> str | None:
        look = Look(
            id=f"look {model}",
            model=model,
            weights=weights,
            contract=request.contract,
            plugins=plugins(),
        )
        answer: str | None = ask(engine, look).get("policy")
        return answer

    def measure(part: Plan, dataset: str) -> dict[str, Any]:
        model = part.cells[0].fit.model
        job = Measure(
            id=f"measure {model} on {dataset}",
            model=model,
            plan=part,
            dataset=dataset,
            folders=folders,
            device=device,
            plugins=plugins(),
        )
        return ask(engine, job)

    planned = planning.plan(request, policy)
    begun = time.monotonic() - started
    slow = (
        planned.training.protocol == "finetune" and device == "cpu" and not study.trifling(planned)
    )
    if execution.dry_run or slow:
        whole = replace(study.estimate(planned, folders.out, measure, device), begun=begun)
        if execution.dry_run:
            typer.echo("\n".join(study.table(whole, folders.out)))
        else:
            typer.echo(study.agreed(whole, execution.yes), err=True)
    return planned


def _base(suite: str | None, tasks: str | None) -> Request:
    from ecgbench import suites

    if suite is None and tasks is not None:
        return Request(models=("laef", "stmem"), tasks=(), leads=parse_leads("1,2,12"))
    plan: Request = suites.get(suite or "demo").PLAN
    return plan


def _split(text: str | None) -> tuple[str, ...] | None:
    return (
        None
        if text is None
        else tuple(dict.fromkeys(p.strip() for p in text.split(",") if p.strip()))
    )


def _integers(text: str | None) -> tuple[int, ...] | None:
    try:
        return None if text is None else tuple(int(p) for p in text.split(","))
    except ValueError:
        raise BadSetting(
            f"--fit-seeds {text}: whole numbers, comma-separated, for example 0,1,2"
        ) from None
