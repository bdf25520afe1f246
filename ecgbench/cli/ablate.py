"""`ecgbench ablate`: the paper's ablations, at any budget."""

from collections.abc import Callable
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
from ecgbench.cli.settings import assigned, fractions, numbers
from ecgbench.cli.steps import shown
from ecgbench.core.registry import folder_name

if TYPE_CHECKING:
    from ecgbench.ablation.budget import Budget
    from ecgbench.ablation.studies import Cell, Study
    from ecgbench.core.cells import Folders


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, ablate, panel=MORE)


SETTINGS: dict[str, Callable[[str], Any]] = {
    "recipe": str,
    "steps": int,
    "batch": int,
    "micro_batch": int,
    "precision": str,
    "lr": fractions,
    "records": int,
    "probe_records": int,
    "probe_epochs": int,
    "only_seeds": numbers,
}
"""Key of `--set` -> what reads its value."""


def ablate(
    name: str = argument(
        "encoders, layers, masking, codebooks, stage2, encodings or lead-sampling.", metavar="NAME"
    ),
    seeds: int = option("Seeds 0, 1, ... that every cell is trained at.", default=3),
    only: str = option("Some cells alone, as --dry-run names them.", metavar="CELL,..."),
    sets: list[str] = option(
        "KEY=VALUE, any other setting; see below.", "--set", default=[], metavar="KEY=VALUE"
    ),
    data: Path = DATA,
    prepared: Path = PREPARED,
    out: Path = option("Folder; resumed.  (default: runs/ablate-NAME)", "--out", "-o"),
    device: str = DEVICE,
    dry_run: bool = flag(
        "Only say which cells there are and how long they take on this machine.", "--dry-run"
    ),
) -> None:
    """Train and probe the cells of one of the paper's ablations.

    All have the same recordings, codebooks, masks and order at a seed. Each network is probed
    before its first step, after half of its steps and after all of them: a linear head on frozen
    features, macro AUROC on patients of the development task who are set apart. The report puts the
    scores beside those that the paper prints, and says of each difference whether the order is
    evidence at this budget.

    The same command goes on where it was interrupted. More --seeds add to what is there.

    Settings of --set, with their defaults and the paper's: recipe=small-cpu (corpora and task of a
    recipe), steps=150 of each stage (60000), batch=64 (448), micro_batch, precision, lr=1e-4 (1e-3;
    of several each cell takes the best), records (recordings to train on at most), probe_records,
    probe_epochs=100, only_seeds=3,4.

      ecgbench ablate encoders --data DIR --only gat/spatiotemporal,mlp/none --seeds 1

      ecgbench ablate stage2 --data DIR --set lr=3e-5,1e-4,3e-4 --out runs/stage2
    """
    from ecgbench.ablation import budget as budgets
    from ecgbench.ablation import studies
    from ecgbench.pretraining import recipe as recipes

    study = studies.get(name)
    cells = [study.cell(word) for word in words(only) or ()]
    chosen = assigned(sets, SETTINGS)
    fields = {"batch": "batch", "micro_batch": "micro", "precision": "precision"}
    fields["probe_records"] = "probe_records"
    given = {"batch": 64, **{f: chosen[key] for key, f in fields.items() if key in chosen}}
    budget = budgets.Budget(
        recipe=recipes.get(chosen.get("recipe", "small-cpu")).changed(given),
        steps=chosen.get("steps", 150),
        rates=chosen.get("lr", (1e-4,)),
        seeds=seeds,
        records=chosen.get("records"),
        epochs=chosen.get("probe_epochs", 100),
        parts=study.parts,
        only=chosen.get("only_seeds", ()),
    )
    # what no training could be made of is refused before anything is read
    for cell in cells or study.cells:
        for rate in budget.rates:
            budgets.training(study, budget, cell, seed=0, rates=(rate, rate))
    out = out or Path("runs") / folder_name(f"ablate-{study.name}")
    from ecgbench.core.cells import Folders

    folders = Folders(data=data, prepared=prepared, out=out)
    if dry_run:
        _foretell(study, budget, cells, folders, device)
    else:
        _make(study, budget, cells, folders, device)


def _foretell(
    study: "Study", budget: "Budget", cells: "list[Cell]", folders: "Folders", device: str
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
    study: "Study", budget: "Budget", cells: "list[Cell]", folders: "Folders", device: str
) -> None:
    from ecgbench import reports
    from ecgbench.ablation import make
    from ecgbench.ablation.assemble import assembled
    from ecgbench.evaluate.device import choose
    from ecgbench.pretraining.pretrain import Session
    from ecgbench.profiling import rough
    from ecgbench.profiling.clock import about, ready
    from ecgbench.study.preflight import demand_writable
    from ecgbench.study.progress import Display, display

    device = choose(device)
    demand_writable(folders.out)
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
