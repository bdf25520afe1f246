"""`ecgbench ablate`: the paper's ablations, at any budget."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ecgbench.cli.options import (
    DATA,
    DEVICE,
    PREPARED,
    add_commands,
    argument,
    flag,
    integers,
    option,
    words,
)
from ecgbench.cli.steps import shown
from ecgbench.core.cells import Folders
from ecgbench.core.registry import folder_name
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from ecgbench.ablation.budget import Budget
    from ecgbench.ablation.studies import Cell, Study


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, ablate)


def ablate(
    name: str = argument(
        "encoders, layers, masking, codebooks, stage2, encodings or lead-sampling.", metavar="NAME"
    ),
    recipe: str = option(
        "Corpora, development task and descriptor of a recipe of ecgbench pretrain.",
        default="small-cpu",
    ),
    steps: int = option("Of each stage.  (the paper's: 60000)", default=150),
    batch: int = option("Recordings per step.  (the paper's: 448)", default=64),
    micro_batch: int = option("Recordings per pass where a batch does not fit the memory."),
    precision: str = option("bf16 or float32, of the forward pass of training."),
    lr: str = option(
        "Learning rate; of several each cell takes the one with the best probe at a seed of its "
        "own.  (the paper's: 1e-3)",
        metavar="RATE,...",
        default="1e-4",
    ),
    seeds: int = option("Seeds 0, 1, ... that every cell is trained at.", default=3),
    records: int = option("Recordings to train on at most.  (default: all)"),
    probe_records: int = option("Training recordings of a probe at most.  (default: the recipe's)"),
    probe_epochs: int = option("Epochs of a probe.", default=100),
    only: str = option("Some cells alone, as --dry-run names them.", metavar="CELL,..."),
    only_seeds: str = option("Some seeds alone.", metavar="SEED,..."),
    data: Path = DATA,
    prepared: Path = PREPARED,
    out: Path = option(
        "Folder; an interrupted study in it goes on.  (default: runs/ablate-NAME)", "--out", "-o"
    ),
    device: str = DEVICE,
    dry_run: bool = flag(
        "Only say which cells there are and how long they take on this machine.", "--dry-run"
    ),
) -> None:
    """Train and probe the cells of one of the paper's ablations, all with the same recordings,
    codebooks, masks and order at a seed.

    Each network is probed before its first step, after half of its steps and after all of them: a
    linear head on frozen features, macro AUROC on patients of the development task who are set
    apart. The report puts the scores beside those that the paper prints, and says of each
    difference whether the order is evidence at this budget.

    The same command goes on where it was interrupted. More --seeds add to what is there.

    Examples:

      ecgbench ablate encoders --data DIR --dry-run

      ecgbench ablate encoders --data DIR --only gat/spatiotemporal,mlp/none --seeds 1

      ecgbench ablate stage2 --data DIR --lr 3e-5,1e-4,3e-4 --out runs/stage2

      ecgbench ablate lead-sampling --data DIR --seeds 5

      ecgbench ablate lead-sampling --data DIR --seeds 5 --only-seeds 3,4 --out runs/part2

      ecgbench report runs/stage2
    """
    from ecgbench.ablation import budget as budgets
    from ecgbench.ablation import studies
    from ecgbench.pretraining import recipe as recipes

    study = studies.get(name)
    cells = [study.cell(word) for word in words(only) or ()]
    changes: dict[str, Any] = {
        "batch": batch,
        "micro": micro_batch,
        "precision": precision,
        "probe_records": probe_records,
    }
    given = {k: v for k, v in changes.items() if v is not None}
    budget = budgets.Budget(
        recipe=recipes.get(recipe).changed(given),
        steps=steps,
        rates=_rates(lr),
        seeds=seeds,
        records=records,
        epochs=probe_epochs,
        parts=study.parts,
        only=integers("--only-seeds", only_seeds) or (),
    )
    # what no training could be made of is refused before anything is read
    for cell in cells or study.cells:
        for rate in budget.rates:
            budgets.training(study, budget, cell, seed=0, rates=(rate, rate))
    out = out or Path("runs") / folder_name(f"ablate-{study.name}")
    folders = Folders(data=data, prepared=prepared, out=out)
    if dry_run:
        _foretell(study, budget, cells, folders, device)
    else:
        _make(study, budget, cells, folders, device)


def _rates(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        raise BadSetting(f"--lr {text}: numbers, comma-separated, for example 3e-5,1e-4") from None


def _foretell(
    study: "Study", budget: "Budget", cells: "list[Cell]", folders: Folders, device: str
) -> None:
    from ecgbench.ablation import estimate
    from ecgbench.evaluate.device import choose
    from ecgbench.profiling import rough

    device = choose(device)
    if slow := rough.warning(device, [budget.recipe.stages[0].precision]):
        typer.echo(slow)
    for text in estimate.lines(study, budget, cells or study.cells, folders, device):
        typer.echo(text)


def _make(
    study: "Study", budget: "Budget", cells: "list[Cell]", folders: Folders, device: str
) -> None:
    from ecgbench import reports
    from ecgbench.ablation import make
    from ecgbench.ablation.assemble import assembled
    from ecgbench.evaluate.device import choose
    from ecgbench.pretraining.pretrain import Session
    from ecgbench.profiling import rough
    from ecgbench.profiling.clock import about, ready
    from ecgbench.study.lacking import writable
    from ecgbench.study.progress import Display, display

    device = choose(device)
    writable(folders.out)
    ready(device)
    progress: Display = display()
    if slow := rough.warning(device, [budget.recipe.stages[0].precision]):
        progress.note(slow)
    session = Session(
        out=folders.out,
        device=device,
        name=about(device)["device"],
        progress=progress,
        listener=lambda title: shown(title, progress.note),
    )
    make.run(study, budget, assembled(budget, folders, progress), session, cells)
    drawn = reports.write(reports.read(folders.out), folders.out / "report")
    typer.echo("\n".join(map(str, drawn)))
