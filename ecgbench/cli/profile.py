"""`ecgbench profile`: what models cost at each number of leads."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ecgbench.cli.options import DEVICE, demand_writable, flag, option, words
from ecgbench.ecg.draw import parse_leads
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from ecgbench.profile.stored import Costs


def profile(
    models: str = option("Names, or paths of your own.  (default: all networks)", "--models", "-m"),
    leads: str = option("Numbers of leads: 1,2,12 or 1-12.  (default: 1-12)", "--leads", "-l"),
    device: str = DEVICE,
    batch: int = option("Windows of a timed pass.  (default: 64 on a GPU, 4 on a CPU)", min=1),
    no_timing: bool = flag("Only count operations and parameters, in seconds.", "--no-timing"),
    to: Path = option("Folder for the files.", default=Path("profile")),
) -> None:
    """Measure the cost of models at each number of leads.

    Writes cost.csv (unrounded), cost.md, cost.tex, cost_paper.csv (with the paper's figures),
    throughput.png and .svg, a page (index.html), and cost.json, from which `ecgbench report` makes
    them again.

    gflop_forward and gflop_backward count everything that our networks execute, gflop_forward_paper
    what the paper counts. Weights are random: no cost depends on them. A network that needs all of
    its leads is measured once; one that reads any number of them (LAEF) at each number, with the
    median over 1 to 12 in the tables.

    Examples:

      ecgbench profile --no-timing

      ecgbench profile --models laef,stmem --leads 1,2,12 --device cuda --to costs
    """
    from ecgbench.evaluate.device import choose
    from ecgbench.models import ROOM as room
    from ecgbench.profile import cost
    from ecgbench.study.progress import display

    numbers = [item for item in parse_leads(leads or "1-12") if isinstance(item, int)]
    if len(numbers) < len(parse_leads(leads or "1-12")):
        raise BadSetting(f"--leads {leads}: the cost depends on their number: --leads 1,2,12")
    networks = (n for n in room.names() if not room.built_in(n) or room.card(n).parameters)
    names = list(networks if models is None else map(room.resolve, words(models) or ()))
    if not names:
        raise BadSetting(f"--models {models!r}: no model is named")
    device, timed = choose(device), not no_timing
    batch = batch or (4 if device == "cpu" else 64)
    demand_writable(to)  # before anything is measured
    costs = cost.measure(names, sorted(numbers), device, batch, timed, display())
    _complain(costs)
    if costs.rows:
        _report(costs, to)
    if costs.failed:
        raise typer.Exit(1)


def _complain(costs: "Costs") -> None:
    for name, reason in costs.failed.items():
        typer.echo(f"failed: {name}: {reason}", err=True)
    for name, operators in costs.unknown.items():
        what = ", ".join(sorted(operators))
        typer.echo(f"{name}: no rule counts {what}: its totals stay empty", err=True)
    for name, reason in costs.uncounted.items():
        typer.echo(f"{name}: no gflop_forward_paper: {reason}", err=True)


def _report(measured: "Costs", to: Path) -> None:
    """Keep what was measured, write the report of the folder, and print its table."""
    from ecgbench import reports
    from ecgbench.profile.stored import save

    file = save(measured, to)
    profile = reports.read(to)
    typer.echo("\n".join(str(path) for path in [file, *reports.write(profile, to)]))
    parts = [part for section in reports.sections("cost", profile) for part in section.parts]
    for part in parts:
        if isinstance(part, reports.Table) and part.name == file.stem:
            typer.echo("\n".join(["", *reports.terminal_lines(part)]))
