"""`ecgbench pretrain`: make weights of LAEF, or of another network of nodes, by a recipe."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ecgbench.cli.options import DATA, DEVICE, PREPARED, add_commands, flag, integers, option, words
from ecgbench.cli.steps import shown
from ecgbench.core.cells import Folders, key
from ecgbench.core.registry import folder_name
from ecgbench.core.text import quoted
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from ecgbench.pretraining.curve import Listener


LATER = 75
"""Exit code of a pre-training that stopped when its minutes were over (EX_TEMPFAIL)."""


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, pretrain)


def pretrain(
    recipe: str = option(
        "paper, small (one GPU), small-cpu, shipped (two cores), smoke (the synthetic demo).",
        default=...,
    ),
    model: str = option(
        "Whose network: a name, or a path as ./mine.py.  (default: the recipe's, laef)"
    ),
    datasets: str = option(
        "Corpora to train on, instead of the recipe's: ptbxl,brugada.", metavar="NAME,..."
    ),
    data: Path = DATA,
    prepared: Path = PREPARED,
    out: Path = option(
        "Folder; an interrupted pre-training in it goes on.  (default: runs/pretrain-NAME)",
        "--out",
        "-o",
    ),
    corpus: str = option(
        "memory: a copy in each process; stream: from shards on disk, one copy for all processes "
        "of a machine; auto streams where copies would take more than half of its memory.  "
        "(default: auto)"
    ),
    shards: Path = option(
        "Folder of the shards, for example on a disk of each node.  (default: shards, beside the "
        "prepared copies)"
    ),
    buffer: int = option(
        "Recordings that are shuffled together where they are streamed: 128, 256 ...  "
        "(default: as it began, else 16384)"
    ),
    device: str = DEVICE,
    descriptor: str = option(
        "Of segments in stage 1: mfcc-paper, mfcc-ecg, time-frequency, mixed, mixed-ecg."
    ),
    codes: str = option(
        "Codes of stage 1; several codebooks are predicted at once: 50,100.", metavar="C,..."
    ),
    refined: str = option("Codes of stage 2, clustered from nodes of stage 1.", metavar="C,..."),
    init: str = option(
        "Where stage 2 starts: previous (the checkpoint selected in stage 1) or scratch."
    ),
    steps: str = option("Steps of both stages; more than before prolong stage 2.", metavar="N,M"),
    batch: int = option("Recordings per step; all, where there are fewer."),
    micro_batch: int = option("Recordings per pass where a batch does not fit the memory."),
    show: str = option("Leads of a recording in a step: some (1 to 12, drawn anew) or all."),
    masked: float = option("Share of the nodes of each lead that is hidden."),
    edge_drop: float = option("Probability with which stage 2 leaves out an edge within a lead."),
    lr: float = option("Learning rate, constant unless --warmup or --decay says otherwise."),
    warmup: int = option("Steps in which the learning rate rises to --lr.", metavar="STEPS"),
    decay: str = option("How it falls after that: none, or cosine, to 0 at the last step."),
    clip: float = option("Largest L2 norm of a gradient; a longer one is scaled down."),
    weight_decay: float = option("Added to the gradient (Adam); with --adamw decoupled."),
    adamw: bool = option("AdamW instead of the paper's Adam.", "--adamw"),
    precision: str = option("bf16 or float32, of the forward pass of training."),
    checkpoint_every: int = option("Steps between two checkpoints: at most these are lost."),
    probe_every: int = option("Steps between two encoders that are kept and measured."),
    apart: int = option(
        "Compare encoders on one in so many training patients of the development task's dataset, "
        "who are not trained on; 0: on its validation split.",
        metavar="N",
    ),
    seed: int = option("Of weights, codebooks, masks and windows."),
    no_alarm: bool = flag("Go on though the network collapses.", "--no-alarm"),
    minutes: float = option(
        "Stop cleanly after so long, with exit code 75; the same command goes on. A codebook is "
        "fitted in one go."
    ),
    wandb: str = option("Log to Weights & Biases too (pip install wandb).", metavar="PROJECT"),
    dry_run: bool = flag(
        "Only say what the recipe is, what it takes, and all that is missing for it.", "--dry-run"
    ),
) -> None:
    """Pre-train LAEF: codebook of signal descriptors, masked node modelling, codebook of its own
    nodes, masked node modelling again.

    Recordings of validation and test splits never enter training: PTB-XL's folds 9 and 10 raise an
    error, under their own or their Challenge names. In each stage encoders are kept every so many
    steps, and scored by a linear probe on the development task: on patients who are set apart for
    that (--apart). The earliest one within a standard error of the best is
    used, with --decay cosine the latest.

    A network whose nodes become equal learns nothing more. The command then ends with one line, and
    the checkpoint of before stays; --warmup and --clip help at high rates.

    Any phase may be interrupted: the same command goes on and ends with the same codebooks and
    curves. Several GPUs: torchrun --nproc-per-node 4 -m ecgbench pretrain ...

    Examples:

      ecgbench pretrain --recipe smoke                               (shows that everything runs;
      its weights mean nothing)

      ecgbench pretrain --recipe small --data DIR --out runs/laef    (DIR/ptbxl as published)

      until ecgbench pretrain --recipe small --data DIR --minutes 9; do [ $? = 75 ] || break; done

      ecgbench run --models laef --weights laef=runs/laef/encoder.safetensors --tasks ptbxl_super
      --data DIR
    """
    from ecgbench import models
    from ecgbench.datasets import resolve
    from ecgbench.pretraining import recipe as recipes
    from ecgbench.pretraining.streaming import Holding

    corpora = words(datasets)
    changes: dict[str, Any] = {
        "model": None if model is None else models.resolve(model),
        "datasets": corpora and tuple(map(resolve, corpora)),
        "descriptor": descriptor,
        "codes": integers("--codes", codes),
        "refined": integers("--refined", refined),
        "init": init,
        "steps": integers("--steps", steps),
        "batch": batch,
        "micro": micro_batch,
        "shown": show,
        "ratio": masked,
        "edge_drop": edge_drop,
        "lr": lr,
        "warmup": warmup,
        "decay": decay,
        "clip": clip,
        "weight_decay": weight_decay,
        "adamw": adamw,
        "precision": precision,
        "checkpoint_every": checkpoint_every,
        "probe_every": probe_every,
        "seed": seed,
    }
    if changes["steps"] is not None and len(changes["steps"]) != 2:
        raise BadSetting(f"--steps {steps}: one number for each stage, for example --steps 800,800")
    given = {k: v for k, v in changes.items() if v is not None}
    if apart is not None:
        given["apart"] = apart or None
    chosen = recipes.get(recipe).changed(given)
    out = out or Path("runs") / folder_name(f"pretrain-{recipe}")
    folders = Folders(data=data, prepared=prepared, out=out)
    held: dict[str, Any] = {"how": corpus, "shards": shards, "buffer": buffer}
    holding = Holding(**{k: v for k, v in held.items() if v is not None})
    if dry_run:
        _foretell(chosen, folders, holding, device)
        return
    if minutes is not None and not minutes > 0:
        raise BadSetting(f"--minutes {minutes:g}: a time above 0, for example 9")
    _make(
        chosen,
        folders,
        holding,
        device,
        alarm=not no_alarm,
        project=wandb,
        minutes=minutes,
    )


def _foretell(recipe: Any, folders: Folders, holding: Any, device: str) -> None:
    from ecgbench.evaluate.device import choose
    from ecgbench.pretraining import estimate
    from ecgbench.pretraining.assemble import development
    from ecgbench.profiling import rough

    typer.echo("\n".join(recipe.lines()))
    typer.echo("\n".join([development(recipe, folders), *recipe.risks()]))
    device = choose(device)
    if slow := rough.warning(device, [stage.precision for stage in recipe.stages]):
        typer.echo(slow)
    for text in estimate.lines(recipe, folders, holding, device):
        typer.echo(text)


def _make(
    recipe: Any,
    folders: Folders,
    holding: Any,
    device: str,
    *,
    alarm: bool,
    project: str | None,
    minutes: float | None,
) -> None:
    began = time.monotonic()
    from ecgbench.evaluate import ranks
    from ecgbench.evaluate.device import choose
    from ecgbench.pretraining import curve, pretrain
    from ecgbench.pretraining.assemble import assemble
    from ecgbench.pretraining.stage import Stopped
    from ecgbench.profiling import rough
    from ecgbench.profiling.clock import about, ready
    from ecgbench.study.lacking import writable
    from ecgbench.study.progress import Display, display
    from ecgbench.study.reporter import Reporter

    device, first = choose(device), ranks.rank() == 0
    writable(folders.out)
    ready(device)
    name = about(device)["device"] + (f", {ranks.world()} processes" if ranks.world() > 1 else "")
    progress: Display = display() if first else Reporter("", lambda event: None)
    slow = rough.warning(device, [stage.precision for stage in recipe.stages])
    for risk in [*recipe.risks(), *filter(None, [slow])]:
        progress.note(risk)
    finished, stopped = None, ""
    with ExitStack() as stack:
        stack.callback(ranks.leave)
        data = assemble(recipe, folders, progress, holding)
        identity = pretrain.facts(recipe, data)
        listener: Callable[[str], Listener] = partial(shown, note=progress.note)
        if project and first:
            of_all = key({**identity, "out": str(folders.out)})
            board = stack.enter_context(curve.wandb(project, recipe.name, of_all))
            listener = _on_both(listener, board)
        session = pretrain.Session(
            out=folders.out,
            device=device,
            name=name,
            progress=progress,
            listener=listener,
            alarm=alarm,
            over=(lambda: time.monotonic() - began > 60 * minutes) if minutes else None,
        )
        try:
            finished = pretrain.run(recipe, data, session)
        except Stopped as stop:
            stopped = f"stopped after {minutes:g} min at {stop}; the same command goes on"
        ranks.wait()
    # torchrun ends the other processes when one fails, so only the first tells that time is over
    if first:
        _tell(recipe, folders.out, finished, stopped)


def _on_both(
    one: "Callable[[str], Listener]", other: "Callable[[str], Listener]"
) -> "Callable[[str], Listener]":
    """Listeners that tell two places of a stage."""
    from ecgbench.pretraining import curve

    return lambda stage: curve.both(one(stage), other(stage))


def _tell(recipe: Any, out: Path, finished: dict[str, Any] | None, stopped: str) -> None:
    """Say what there is now."""
    from ecgbench import models, reports
    from ecgbench.pretraining import phase_times, pretrain

    if finished is None:
        typer.echo(stopped)
        raise typer.Exit(LATER)
    typer.echo("\n".join(phase_times.lines(finished["phases"])))
    drawn = reports.write(reports.read(out), out / "report")
    typer.echo("\n".join(str(path) for path in [out / pretrain.ENCODER, *drawn]))
    typer.echo(
        f"next: ecgbench run --models {quoted(models.ROOM.argument(recipe.model))} --weights "
        f"{quoted(f'{recipe.model}={out / pretrain.ENCODER}')} ..."
    )
