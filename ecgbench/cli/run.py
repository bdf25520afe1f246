"""`ecgbench run`: compute what is missing of a study."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import typer

from ecgbench.cli import frozen, own
from ecgbench.cli.execution import INLINE, Execution, compute
from ecgbench.cli.options import (
    DATA,
    DEVICE,
    MACHINE,
    PREPARED,
    Bare,
    add_commands,
    option,
    words,
)
from ecgbench.core.cells import Absent, Bootstrap, Folders, Precision, Protocol, Request, TrainLeads
from ecgbench.core.registry import folder_name
from ecgbench.ecg.draw import Draw
from ecgbench.errors import BadSetting
from ecgbench.evaluate import ranks
from ecgbench.study import controls as declared

DEFAULT, SLURM = "isolated", "slurm"
"""The engine without options, and that of --slurm."""

_what, _leads, _training, _machine = (
    partial(option, rich_help_panel=panel) for panel in ("What", "Leads", "Training", MACHINE)
)


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, run, cls=Bare)


def run(
    context: typer.Context,
    suite: str | None = _what(
        "A named study to start from: demo, ptbxl, paper. Without --suite and --tasks: demo."
    ),
    models: str | None = _what(
        "Models, comma-separated; a path adds your own: laef,./mine.py", "--models", "-m"
    ),
    tasks: str | None = _what(
        "Tasks, comma-separated; see `ecgbench tasks`. A path: your own dataset.", "--tasks", "-t"
    ),
    records: Path | None = own.RECORDS,
    labels: Path | None = own.LABELS,
    label_columns: str | None = own.LABEL_COLUMNS,
    positive: str | None = own.POSITIVE,
    partial: bool = own.PARTIAL,
    match_zeros: bool = own.MATCH_ZEROS,
    fs: float | None = own.FS,
    unit: str | None = own.UNIT,
    signals: str | None = own.SIGNALS,
    weights: str | None = _what(
        "released, random, released_or_random, a path, or NAME=... per model.  (default: "
        "released; suites: released_or_random)",
        "--weights",
        "-w",
    ),
    contract: Literal["paper", "upstream"] | None = _what(
        "How models are fed: paper (reference benchmark) or upstream (authors)."
    ),
    controls: str | None = _what(
        "After the study its controls, in OUT/controls: all, or names: labels (permuted by "
        "patient), leads (names scrambled), phases (randomised), and baselines: age_sex, rate_qrs, "
        "recorder (site and device).",
        metavar="[NAMES]",
    ),
    metrics: str | None = _what(
        "Metrics, the first leads the tables; a path adds your own: auroc,./mine.py.  (default:"
        " auroc)"
    ),
    rows: Literal["all", "labelled"] = _what(
        "Evaluation-only tasks: all records, or labelled ones only.", default="all"
    ),
    bootstrap: Bootstrap = _what(
        "Intervals: none (from placements, without draws); draws of patients: bayesian or "
        "multinomial; draws of records: records (the reference benchmark's way).",
        default="none",
    ),
    absent: Absent = _what(
        "A label without both values in the test set: undefined (left out of the macro), or half "
        "(counts 0.5, the reference benchmark's way).",
        default="undefined",
    ),
    limit: int | None = _what(
        "Use N records of each dataset in all, seeded, in the proportion of its splits."
    ),
    exclude: str | None = _what(
        "Leave out records of kinds: flat_leads (a lead without variation), suspect_leads (any "
        "finding of `ecgbench data facts`)."
    ),
    fix: bool = _what(
        "Use the copies of `ecgbench data prepare --fix`: exchanged or inverted limb leads are put "
        "right where that is beyond doubt.",
        "--fix",
        default=False,
    ),
    leads: str | None = _leads(
        "Counts drawn at random, ranges and named sets: 1,2,12,I,II,I+V2 or 1-12.", "--leads", "-l"
    ),
    seeds: int | None = _leads(
        "Draws of random leads, seeds 0..N-1, on one fit.  (default: 5; demo: 2)"
    ),
    draw: Draw = _leads("Random leads per record, or anew in each window.", default="record"),
    policy: str | None = _leads(
        "How missing leads are filled: paper (each model's own way), native, or names of "
        "`ecgbench adapters`."
    ),
    protocol: Protocol | None = _training(
        "probe: logistic regression on the frozen encoder's features, converged. linear: the "
        "paper's linear probe, 100 epochs. finetune: the whole network is trained.  (default: "
        "probe)"
    ),
    train_leads: TrainLeads | None = _training(
        "all: training sees twelve leads. random: 1 to 12 of them, drawn per record and epoch; "
        "probe: 20 times per record. same: a probe for each set of leads, trained on those.  "
        "(default: all)"
    ),
    folds: str | None = _training(
        "K: cross-validation by patient, each record is tested once; own recordings of fewer than "
        "200 patients: 5. official: the datasets' splits. NAME=N: that dataset's own "
        "split is made with N folds (ptb=10). reference: patients without a label train, as in the "
        "reference benchmark.  (default: the datasets' splits)"
    ),
    fit_seeds: str | None = _training("Seeds of the training, comma-separated.  (default: 0)"),
    epochs: int | None = _training("Linear and finetune: training epochs.  (default: 100)"),
    lr: float | None = _training(
        "Learning rate of the head; fine-tuning: late layers a tenth, early ones a hundredth.  "
        "(default: 0.001)"
    ),
    lr_groups: Literal["on", "off"] | None = _training(
        "on, or off: one rate for all layers.  (default: on)"
    ),
    batch: int | None = _training("Records per training step.  (default: 64)"),
    micro_batch: int | None = _training(
        "Fine-tuning: records per pass where a batch does not fit the memory."
    ),
    precision: Precision | None = _training(
        "bf16: of fine-tuning's training step, or of the frozen encoder where that moves no "
        "feature by over 1 %."
    ),
    data: Path | None = DATA,
    prepared: Path | None = PREPARED,
    out: Path | None = _machine(
        "Run folder; an existing one is resumed or extended.  (default: runs/NAME)", "--out", "-o"
    ),
    device: str = DEVICE,
    engine: str | None = _machine(
        "Where models run: a name of `ecgbench engines`, local:N for N processes at once, or the "
        "path of your own.  (default: isolated)"
    ),
    slurm: str | None = _machine(
        "Of --engine slurm: options of sbatch and our own (minutes, at_once, cpus), such as "
        "partition=gpu,time=4h,gpus=1,minutes=60."
    ),
    detach: bool = _machine(
        "Of --engine slurm: return when the tasks are submitted; see `ecgbench status`.",
        "--detach",
        default=False,
    ),
    emit_sbatch: Path | None = _machine(
        "Write an array script for sbatch, and submit nothing.", metavar="FILE"
    ),
    in_process: bool = _machine(
        "--engine inline: in this process, for a debugger; what a model does to its process "
        "then ends the run.",
        "--in-process",
        default=False,
    ),
    cell_timeout: float = _machine(
        "Seconds without progress (a record, a training step, a score) after which a cell has "
        "failed; where the command itself stands still so long, and 120 s at least, it ends.",
        default=900,
    ),
    keep_features: Literal["yes", "no"] = _machine(
        "yes, or no: features of the test records are removed when the run ends; reports may "
        "need them.",
        default="yes",
    ),
    views: Literal["keep", "stream"] = _machine(
        "Filtered and resampled recordings: keep them on disk, or stream: compute them while "
        "reading, which writes nothing.",
        default="keep",
    ),
    pin_environment: bool = _machine(
        "Refuse cells that were computed with another version of torch or on another kind of "
        "device.",
        "--pin-environment",
        default=False,
    ),
    dry_run: bool = _machine(
        "Only list what would be computed, with disk and the time that one record tells.",
        "--dry-run",
        default=False,
    ),
) -> None:
    """Compute every cell of a study that is not finished yet.

    A cell is one model on one task under one set of leads. What is finished is kept: run the
    same command again after it was killed, or a larger one into the same folder, and only what is
    missing is computed.

    Examples:

      ecgbench run                      (the demo: synthetic recordings, laef and stmem)

      ecgbench run --records FOLDER --labels labels.csv --models laef,merl --leads I

      ecgbench run --models laef,stmem --tasks ptbxl_super --leads 1,2,12,I,II,I+II
      --weights random --data DIR --out runs/ptbxl
    """
    from ecgbench.study import plan as planning

    named, out, prepared = own.within(context.params)
    request = frozen.asked(context, out, named)
    if not cell_timeout > 0:
        raise BadSetting(
            f"--cell-timeout {cell_timeout:g}: seconds, more than 0; the default is 900"
        )
    checked = planning.check(request)
    if planning.ALL in (named or (planning.ALL,)):
        checked = _with_data(checked, data)
    execution = Execution(
        controls=declared.resolve(words(controls) or ()),
        device=device,
        **_where(engine, in_process, slurm, detach, emit_sbatch),
        patience=cell_timeout,
        dry_run=dry_run,
        keep_features=keep_features == "yes",
        pin_environment=pin_environment,
        keep_views=views == "keep",
    )
    folders = Folders(data=data, prepared=prepared, out=out or _usual(checked))
    frozen.demand_same(context, checked, folders.out)
    with own.reported(folders.out, records is not None and not dry_run and ranks.rank() == 0):
        compute(checked, folders, execution)


def _usual(request: Request) -> Path:
    """The run folder where none is named."""
    return Path("runs") / folder_name(request.name or "+".join(request.tasks))


def _where(
    engine: str | None, in_process: bool, slurm: str | None, detach: bool, emit: Path | None
) -> dict[str, Any]:
    """Engine, its options, and whether the command waits for it."""
    if slurm is not None or detach or emit is not None:
        engine = engine or SLURM
        if engine != SLURM:
            option = "--slurm" if slurm is not None else "--detach" if detach else "--emit-sbatch"
            raise BadSetting(f"{option} is of --engine slurm, and this is --engine {engine}")
    if detach and emit is not None:
        raise BadSetting("--detach submits, and --emit-sbatch does not; leave one of the two out")
    options: dict[str, str] = {}
    for word in words(slurm) or ():
        name, equals, value = word.partition("=")
        if not equals or not value or name in options:
            raise BadSetting(
                f"--slurm {word}: NAME=VALUE, each name once, such as partition=gpu,time=4h"
            )
        options[name] = value
    if emit is not None:
        options["emit_sbatch"] = str(emit.absolute())
    name, colon, number = (engine or "").partition(":")
    if colon and not name.endswith(".py"):
        engine, options[""] = name, number
    return {
        "engine": _engine_name(engine, in_process),
        "options": options,
        "detach": "write" if emit is not None else "hand over" if detach else "no",
    }


def _engine_name(named: str | None, in_process: bool) -> str:
    """The engine that the options name; under torchrun models run in the processes that it has
    started.
    """
    from ecgbench.study import engines

    inline = in_process or ranks.world() > 1
    if named and inline:
        why = "--in-process" if in_process else "torchrun"
        raise BadSetting(
            f"--engine {named}: {why} runs models in its own processes; leave one of the two out"
        )
    return engines.resolve(named or (INLINE if inline else DEFAULT))


def _with_data(request: Request, data: Path | None) -> Request:
    """A request for all tasks, or those of a suite, without the ones whose data are not here, which
    are named; as it is where that leaves none.
    """
    from ecgbench.study import plan as planning

    here, absent = planning.with_data(request.tasks, data)
    if not here or not absent:
        return request
    typer.echo(
        f"{len(here)} tasks are run; the data of {len(absent)} others are not here: "
        f"{', '.join(absent)} (ecgbench tasks; ecgbench data fetch NAME)",
        err=True,
    )
    return replace(request, tasks=tuple(here))
