"""`ecgbench pretrain`: weights of LAEF, or of another network of nodes, by a recipe; `ecgbench
ablate`: the paper's ablations, at any budget.
"""

import tomllib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ecgbench.cards.plan import Folders
from ecgbench.cards.settings import assigned
from ecgbench.cli.options import DATA, DEVICE, PREPARED, SETS, argument, flag, option, words
from ecgbench.core.registry import folder_name
from ecgbench.core.text import quoted
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from ecgbench.pretrain.recipe import Recipe
    from ecgbench.pretrain.run import Session
    from ecgbench.study.progress import Display

_KINDS: dict[Any, str] = {
    str: "task descriptor init leads decay precision",
    int: "batch micro_batch warmup checkpoint_every probe_every held_out seed",
    float: "masked edge_drop lr clip weight_decay",
    tuple[int, ...]: "codes refined steps",
    bool: "adamw alarm",
}
SETTINGS = {key: kind for kind, keys in _KINDS.items() for key in keys.split()}
"""Key of `--set` and of a recipe file -> type of its value."""
FIELDS = {
    "micro_batch": "micro",
    "leads": "shown",
    "masked": "ratio",
    "held_out": "apart",
}
"""Keys that are called otherwise in `pretrain`."""
ABLATE: dict[str, Any] = {
    **dict.fromkeys(("recipe", "task", "precision"), str),
    **dict.fromkeys(("steps", "batch", "micro_batch", "records"), int),
    **dict.fromkeys(("probe_records", "probe_epochs"), int),
    "lr": tuple[float, ...],
}
"""Key of `--set` of an ablation -> type of its value."""


def pretrain(
    recipe: str = argument("paper, small (one GPU), small-cpu, shipped, smoke, or RECIPE.toml."),
    model: str = option("Network: a name or a path.  (default: the recipe's, laef)"),
    datasets: str = option("Corpora instead of the recipe's: ptbxl,brugada.", metavar="NAME,..."),
    sets: list[str] = SETS,
    data: Path = DATA,
    prepared: Path = PREPARED,
    out: Path = option("Folder; resumed.  (default: runs/pretrain-NAME)", "--out", "-o"),
    device: str = DEVICE,
    dry_run: bool = flag("Only print the recipe, what it takes, and what is missing.", "--dry-run"),
) -> None:
    """Pre-train LAEF.

    Two stages of masked node modelling: the targets of the first are a codebook of signal
    descriptors, those of the second a codebook of the network's own nodes. Recordings of validation
    and test splits are never used for training. Encoders are saved at intervals and scored by a
    linear probe on the development task.

    Settings of --set, and of a recipe file that begins with recipe = "small": task (on which
    encoders are compared), descriptor, codes and refined (50,100), init (previous, scratch), steps
    (N,M), batch, micro_batch, leads (some, all), masked, edge_drop, lr, warmup, decay (none,
    cosine), clip, weight_decay, adamw, precision (bf16, or float32, which is often faster on a
    CPU), checkpoint_every, probe_every, held_out (one in N training patients compares encoders; 0:
    the validation split), seed, alarm (off: go on even if all nodes become equal).

    Several GPUs: torchrun --nproc-per-node 4 -m ecgbench pretrain ...

      ecgbench pretrain smoke                          (its weights mean nothing)

      ecgbench pretrain small --data DIR --out runs/laef
    """
    from ecgbench import models
    from ecgbench.datasets import resolve
    from ecgbench.evaluate.device import choose
    from ecgbench.pretrain import estimate
    from ecgbench.pretrain import recipe as recipes
    from ecgbench.pretrain.assemble import development

    name, given = _settings(recipe, sets)
    if model is not None:
        given["model"] = models.resolve(model)
    if (corpora := words(datasets)) is not None:
        given["datasets"] = tuple(map(resolve, corpora))
    alarm = given.pop("alarm", True)
    chosen = recipes.get(name).changed(given)
    out = out or Path("runs") / folder_name(f"pretrain-{name}")
    folders = Folders(data=data, prepared=prepared, out=out)
    if not dry_run:
        _make(chosen, folders, device, alarm)
        return
    for text in (*chosen.lines(), development(chosen), *chosen.risks()):
        typer.echo(text)
    for text in estimate.lines(chosen, folders, choose(device)):
        typer.echo(text)


def _settings(recipe: str, sets: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Name of a recipe, and field -> value of its file and of what was typed."""
    values: dict[str, Any] = {}
    if recipe.endswith(".toml"):
        try:
            table = tomllib.loads(Path(recipe).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadSetting(f"{recipe}: {error}; a recipe file is TOML") from None
        if "recipe" not in table:
            raise BadSetting(f'{recipe} names no recipe to start from; write recipe = "small"')
        recipe = str(table.pop("recipe"))
        values = assigned(table, SETTINGS)
    values = _task_known(values | assigned(sets, SETTINGS))
    if len(steps := values.get("steps", (0, 0))) != 2:
        text = ",".join(map(str, steps))
        raise BadSetting(f"--set steps={text}: one number for each stage, for example 800,800")
    if "held_out" in values:
        values["held_out"] = values["held_out"] or None
    return recipe, {FIELDS.get(key, key): value for key, value in values.items()}


def _task_known(chosen: dict[str, Any]) -> dict[str, Any]:
    """With the name of the development task as it is spelled; UnknownName."""
    from ecgbench.study.plan import resolve_tasks

    if "task" not in chosen:
        return chosen
    task, *others = resolve_tasks([chosen["task"]])
    if others:
        raise BadSetting(
            f"--set task={chosen['task']}: it has {task}, {', '.join(others)}; encoders are "
            f"compared on one task, for example --set task={task}"
        )
    return {**chosen, "task": task}


def _session(
    out: Path, device: str, progress: "Display", processes: int = 1, **more: Any
) -> "Session":
    """The device and the display: a line on the steps of a stage every 15 s."""
    from ecgbench.pretrain.curve import at_intervals
    from ecgbench.pretrain.run import Session
    from ecgbench.profile.clock import about, ready
    from ecgbench.study.preflight import demand_writable

    demand_writable(out)
    ready(device)
    return Session(
        out=out,
        device=device,
        name=about(device)["device"] + (f", {processes} processes" if processes > 1 else ""),
        progress=progress,
        listener=lambda stage: at_intervals(lambda steps: progress.note(f"{stage}, {steps}")),
        **more,
    )


def _make(recipe: "Recipe", folders: Folders, device: str, alarm: bool) -> None:
    """Pre-train, or go on."""
    from ecgbench import models
    from ecgbench.evaluate import torchrun
    from ecgbench.evaluate.device import choose
    from ecgbench.pretrain import run
    from ecgbench.pretrain.assemble import assemble
    from ecgbench.study.progress import SILENT, display

    first = torchrun.rank() == 0
    progress: Display = display() if first else SILENT
    session = _session(folders.out, choose(device), progress, torchrun.world(), alarm=alarm)
    for risk in recipe.risks():
        progress.note(risk)
    with ExitStack() as stack:
        stack.callback(torchrun.leave)
        data = assemble(recipe, folders, progress)
        run.run(recipe, data, session)
        torchrun.wait()
    if not first:  # torchrun ends the other processes when one fails
        return
    encoder = folders.out / run.ENCODER
    typer.echo(encoder)
    _report(folders.out)
    typer.echo(
        f"next: ecgbench run --models {quoted(models.ROOM.argument(recipe.model))} --weights "
        f"{quoted(f'{recipe.model}={encoder}')} ..."
    )


def _report(out: Path) -> None:
    from ecgbench import reports

    typer.echo("\n".join(map(str, reports.write(reports.read(out), out / "report"))))


def ablate(
    name: str = argument(
        "encoders, layers, masking, codebooks, stage2, encodings or lead-sampling.", metavar="NAME"
    ),
    seeds: int = option("Number of seeds (0, 1, ...) of every cell.", default=3),
    only: str = option("Only these cells, as --dry-run names them.", metavar="CELL,..."),
    sets: list[str] = SETS,
    data: Path = DATA,
    prepared: Path = PREPARED,
    out: Path = option("Folder; resumed.  (default: runs/ablate-NAME)", "--out", "-o"),
    device: str = DEVICE,
    dry_run: bool = flag("Only print the cells and how long they take.", "--dry-run"),
) -> None:
    """Train and probe the networks of one of the paper's ablations.

    All cells of a seed see the same recordings, codebooks, masks and order. Each network is probed
    before, halfway through and after its training: a linear head on frozen features, macro AUROC on
    held-out patients of the development task. The report compares the scores with the paper's, and
    states whether each order is evidence at this budget.

    The same command goes on where it was interrupted. More --seeds add cells to a finished
    ablation.

    Settings of --set, with their defaults and the paper's values: recipe=small-cpu (for corpora and
    task), task, steps=150 of each stage (60000), batch=64 (448), micro_batch, precision, lr=1e-4
    (1e-3; with several, each cell uses its best), records (at most so many for training, for
    comparing, and for the probe unless probe_records is given), probe_records, probe_epochs=100.

      ecgbench ablate encoders --data DIR --only gat/spatiotemporal,mlp/none --seeds 1

      ecgbench ablate stage2 --data DIR --set lr=3e-5,1e-4,3e-4 --out runs/stage2
    """
    from ecgbench.evaluate.device import choose
    from ecgbench.evaluate.gates import GateError
    from ecgbench.pretrain import ablate as ablating
    from ecgbench.pretrain import estimate, studies
    from ecgbench.pretrain import recipe as recipes
    from ecgbench.pretrain.ablation import CELLS
    from ecgbench.study.progress import display

    study = studies.get(name)
    cells = [study.cell(word) for word in words(only) or ()]
    chosen = _task_known(assigned(sets, ABLATE))
    of_recipe = ("task", "batch", "micro_batch", "precision", "probe_records")
    given = {FIELDS.get(key, key): chosen[key] for key in of_recipe if key in chosen}
    recipe = recipes.get(chosen.get("recipe", "small-cpu"))
    if (most := chosen.get("records", 0)) > 0:  # a trial in small is not probed at large
        given = {"probe_records": min(most, recipe.probe_records or most), **given}
    budget = ablating.Budget(
        recipe=recipe.changed({"batch": 64, **given}),
        steps=chosen.get("steps", 150),
        rates=chosen.get("lr", (1e-4,)),
        seeds=seeds,
        records=chosen.get("records"),
        epochs=chosen.get("probe_epochs", 100),
        parts=study.parts,
    )
    # what no training could be made of is refused before anything is read
    for cell in cells or study.cells:
        for rate in budget.rates:
            ablating.training(study, budget, cell, seed=0, rates=(rate, rate))
    out = out or Path("runs") / folder_name(f"ablate-{study.name}")
    folders, device = Folders(data=data, prepared=prepared, out=out), choose(device)
    if dry_run:
        for text in estimate.study_lines(study, budget, cells or study.cells, folders, device):
            typer.echo(text)
        return
    progress = display()
    session = _session(out, device, progress)
    found = ablating.assembled(budget, folders, progress)
    try:
        ablating.run(study, budget, found, session, cells)
    except GateError:  # of some cells; the others have their tables
        if (out / CELLS).is_file():
            _report(out)
        raise
    _report(out)
