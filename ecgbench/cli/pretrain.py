"""`ecgbench pretrain`: make weights of LAEF, or of another network of nodes, by a recipe."""

import time
import tomllib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ecgbench.cli.options import (
    DATA,
    DEVICE,
    MORE,
    PREPARED,
    add_commands,
    argument,
    flag,
    option,
    words,
)
from ecgbench.cli.settings import assigned, numbers, switch
from ecgbench.cli.steps import shown
from ecgbench.core.registry import folder_name
from ecgbench.core.text import quoted
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from ecgbench.core.cells import Folders
    from ecgbench.pretraining.curve import Listener


LATER = 75
"""Exit code of a pre-training that stopped when its minutes were over (EX_TEMPFAIL)."""


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, pretrain, panel=MORE)


SETTINGS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "descriptor": ("descriptor", str),
    "codes": ("codes", numbers),
    "refined": ("refined", numbers),
    "init": ("init", str),
    "steps": ("steps", numbers),
    "batch": ("batch", int),
    "micro_batch": ("micro", int),
    "leads": ("shown", str),
    "masked": ("ratio", float),
    "edge_drop": ("edge_drop", float),
    "lr": ("lr", float),
    "warmup": ("warmup", int),
    "decay": ("decay", str),
    "clip": ("clip", float),
    "weight_decay": ("weight_decay", float),
    "adamw": ("adamw", switch),
    "precision": ("precision", str),
    "checkpoint_every": ("checkpoint_every", int),
    "probe_every": ("probe_every", int),
    "held_out": ("apart", int),
    "seed": ("seed", int),
    "alarm": ("alarm", switch),
    "corpus": ("how", str),
    "shards": ("shards", Path),
    "buffer": ("buffer", int),
}
"""Key of `--set` and of a recipe file -> field, and what reads its value."""


def pretrain(
    recipe: str = argument(
        "paper, small (one GPU), small-cpu, shipped (two cores), smoke (the synthetic demo), or a "
        "file RECIPE.toml.",
        metavar="RECIPE",
    ),
    model: str = option("Whose network: a name, or ./mine.py.  (default: the recipe's, laef)"),
    datasets: str = option("Corpora instead of the recipe's: ptbxl,brugada.", metavar="NAME,..."),
    sets: list[str] = option(
        "KEY=VALUE, any other setting; see below.", "--set", default=[], metavar="KEY=VALUE"
    ),
    data: Path = DATA,
    prepared: Path = PREPARED,
    out: Path = option("Folder; resumed.  (default: runs/pretrain-NAME)", "--out", "-o"),
    device: str = DEVICE,
    minutes: float = option("Stop cleanly after so long, exit code 75; the same command goes on."),
    wandb: str = option("Log to Weights & Biases too (pip install wandb).", metavar="PROJECT"),
    dry_run: bool = flag(
        "Only say what the recipe is, what it takes, and what is missing.", "--dry-run"
    ),
) -> None:
    """Pre-train LAEF.

    Codebook of signal descriptors, masked node modelling, codebook of its own nodes, masked node
    modelling again. Recordings of validation and test splits never enter training. In each stage
    encoders are kept every so many steps and scored by a linear probe on the development task.

    Settings of --set, and of a recipe file that begins with recipe = "small": descriptor, codes and
    refined (50,100), init (previous, scratch), steps (N,M), batch, micro_batch, leads (some, all),
    masked, edge_drop, lr, warmup, decay (none, cosine), clip, weight_decay, adamw, precision,
    checkpoint_every, probe_every, held_out (one in N training patients compares encoders; 0: the
    validation split), seed, alarm (off: go on though all nodes become equal), corpus (memory,
    stream, auto), shards, buffer.

    Several GPUs: torchrun --nproc-per-node 4 -m ecgbench pretrain ...

      ecgbench pretrain smoke                          (its weights mean nothing)

      ecgbench pretrain small --data DIR --out runs/laef
    """
    from ecgbench import models
    from ecgbench.datasets import resolve
    from ecgbench.pretraining import recipe as recipes
    from ecgbench.pretraining.streaming import Holding

    name, given = _settings(recipe, sets)
    if model is not None:
        given["model"] = models.resolve(model)
    if (corpora := words(datasets)) is not None:
        given["datasets"] = tuple(map(resolve, corpora))
    if len(steps := given.get("steps", (0, 0))) != 2:
        raise BadSetting(
            f"--set steps={','.join(map(str, steps))}: one number for each stage, for example "
            f"--set steps=800,800"
        )
    if "apart" in given:
        given["apart"] = given["apart"] or None
    holding = Holding(**{n: given.pop(n) for n in ("how", "shards", "buffer") if n in given})
    alarm = given.pop("alarm", True)
    chosen = recipes.get(name).changed(given)
    out = out or Path("runs") / folder_name(f"pretrain-{name}")
    from ecgbench.core.cells import Folders

    folders = Folders(data=data, prepared=prepared, out=out)
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
        alarm=alarm,
        project=wandb,
        minutes=minutes,
    )


def _settings(recipe: str, sets: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Name of a recipe, and field -> value of its file and of what was typed."""
    words = list(sets)
    if recipe.endswith(".toml"):
        try:
            table = tomllib.loads(Path(recipe).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadSetting(f"{recipe}: {error}; a recipe file is TOML") from None
        file, recipe = recipe, str(table.pop("recipe", ""))
        if not recipe:
            raise BadSetting(f'{file} names no recipe to start from; write recipe = "small"')
        words = [f"{key}={_as_typed(value)}" for key, value in table.items()] + words
    typed = assigned(words, {key: read for key, (_, read) in SETTINGS.items()})
    return recipe, {SETTINGS[key][0]: value for key, value in typed.items()}


def _as_typed(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _foretell(recipe: Any, folders: "Folders", holding: Any, device: str) -> None:
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
    folders: "Folders",
    holding: Any,
    device: str,
    *,
    alarm: bool,
    project: str | None,
    minutes: float | None,
) -> None:
    began = time.monotonic()
    from ecgbench.evaluate import torchrun
    from ecgbench.evaluate.device import choose
    from ecgbench.pretraining import curve, pretrain
    from ecgbench.pretraining.assemble import assemble
    from ecgbench.pretraining.stage import Stopped
    from ecgbench.profiling import rough
    from ecgbench.profiling.clock import about, ready
    from ecgbench.study.preflight import demand_writable
    from ecgbench.study.progress import SILENT, Display, display

    device, first = choose(device), torchrun.rank() == 0
    demand_writable(folders.out)
    ready(device)
    name = about(device)["device"] + (
        f", {torchrun.world()} processes" if torchrun.world() > 1 else ""
    )
    progress: Display = display() if first else SILENT
    slow = rough.warning(device, [stage.precision for stage in recipe.stages])
    for risk in [*recipe.risks(), *filter(None, [slow])]:
        progress.note(risk)
    finished, stopped = None, ""
    with ExitStack() as stack:
        stack.callback(torchrun.leave)
        data = assemble(recipe, folders, progress, holding)
        identity = pretrain.facts(recipe, data)
        listener: Callable[[str], Listener] = partial(shown, note=progress.note)
        if project and first:
            from ecgbench.core.cells import key

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
        torchrun.wait()
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
