"""`ecgbench profile`: what models cost at each number of leads."""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ecgbench.cli.options import DEVICE, MODELS, add_commands, flag, option, words
from ecgbench.ecg.draw import parse_leads
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from ecgbench.profile.cost import Setup
    from ecgbench.results.profile import Complexity, Costs

LEADS = "1-12"


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, profile, panel=MODELS)


def profile(
    models: str = option(
        "Models, comma-separated; a path adds your own.  (default: all)", "--models", "-m"
    ),
    leads: str = option(
        f"Numbers of measured leads: 1,2,12 or 1-12.  (default: {LEADS})", "--leads", "-l"
    ),
    device: str = DEVICE,
    batch: int = option("Windows of a timed pass.  (default: 64 on a GPU, 4 on a CPU)"),
    no_timing: bool = flag(
        "Only count operations and parameters: a matter of seconds.", "--no-timing"
    ),
    complexity: bool = flag(
        "Of LAEF's graph instead: nodes, edges, formulas, time.", "--complexity"
    ),
    to: Path = option("Folder for the files.", default=Path("profile")),
) -> None:
    """Measure what models cost at each number of leads.

    Writes cost.csv (unrounded), cost.md, cost.tex, cost_paper.csv (the paper's figures beside
    ours), throughput.png and .svg, a page (index.html), and cost.json, of which `ecgbench report`
    makes them again.

    gflop_forward and gflop_backward count all that our networks execute, gflop_forward_paper what
    the paper's column counts. Weights are random, for no cost depends on them. A network that needs
    all of its leads is measured once; one that reads any number of them (LAEF) at each, with the
    median over 1 to 12 in the tables.

    With --complexity: the same of complexity, for L = 1 to 12 leads and windows of 2.5, 5 and 10 s.

    Examples:

      ecgbench profile --no-timing

      ecgbench profile --models laef,stmem --leads 1,2,12 --device cuda --to costs

      ecgbench profile --complexity --to costs
    """
    from ecgbench import models as room
    from ecgbench.core.files import writing
    from ecgbench.evaluate.device import choose
    from ecgbench.profile.cost import Setup

    if batch is not None and batch < 1:
        raise BadSetting(f"--batch {batch}: at least one window")
    if complexity and (models is not None or leads is not None):
        given = "--leads" if models is None else "--models"
        raise BadSetting(f"--complexity is of LAEF at 1 to 12 leads: leave out {given}")
    numbers = parse_leads(LEADS if leads is None else leads)
    if named := [item for item in numbers if not isinstance(item, int)]:
        raise BadSetting(
            f"--leads {leads}: {named[0]} names leads, and the cost depends on their number only; "
            f"for example --leads 1,2,12"
        )
    typed = words(models)
    names = room.names() if typed is None else list(dict.fromkeys(map(room.resolve, typed)))
    if not names:
        raise BadSetting(
            f"--models {models!r}: no model is named; known: {', '.join(room.names())}"
        )
    setup = Setup(choose(device), batch, not no_timing)
    with writing(to):  # before anything is measured
        to.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=to).close()
    try:
        if complexity:
            _complexity(setup, to)
        else:
            _cost(names, sorted(n for n in numbers if isinstance(n, int)), setup, to)
    except KeyboardInterrupt:
        typer.echo("ecgbench: interrupted; nothing is written before all is measured", err=True)
        sys.exit(130)


def _cost(names: list[str], leads: list[int], setup: "Setup", to: Path) -> None:
    from ecgbench.profile.cost import measure
    from ecgbench.study.progress import display

    costs = measure(names, leads, setup, display())
    for name, reason in costs.failed.items():
        typer.echo(f"failed: {name}: {reason}", err=True)
    for name, operators in costs.unknown.items():
        typer.echo(
            f"{name}: no rule counts {', '.join(sorted(operators))}: its totals stay empty",
            err=True,
        )
    for name, reason in costs.uncounted.items():
        typer.echo(f"{name}: no gflop_forward_paper: {reason}", err=True)
    if costs.rows:
        _report(costs, to)
    if costs.failed:
        raise typer.Exit(1)


def _complexity(setup: "Setup", to: Path) -> None:
    from ecgbench.profile.cost import ask
    from ecgbench.results.profile import Complexity

    typer.echo("measuring LAEF's graph layers at 12 numbers of leads and 3 windows ...", err=True)
    answer = ask(
        "complexity", {"device": setup.device, "batch": setup.windows, "timed": setup.timed}
    )
    if "error" in answer:
        typer.echo(f"failed: {answer['error']}: {answer['reason']}", err=True)
        raise typer.Exit(1)
    _report(Complexity(**answer), to)


def _report(measured: "Costs | Complexity", to: Path) -> None:
    """Keep what was measured, write the report of the folder, and print its table."""
    from ecgbench import reports
    from ecgbench.results.profile import save

    file = save(measured, to)
    profile = reports.read(to)
    typer.echo("\n".join(str(path) for path in [file, *reports.write(profile, to)]))
    for part in reports.get(file.stem).sections(profile)[0].parts:
        if isinstance(part, reports.Table) and part.name == file.stem:
            typer.echo("\n".join(["", *reports.terminal_lines(part)]))
