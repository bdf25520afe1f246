"""`ecgbench why | merge | runs`: where a number comes from, joining two run folders, what they take
on disk.
"""

import json
from pathlib import Path

import typer

from ecgbench.errors import BadSetting
from ecgbench.text import counted, line, size

RUN = typer.Argument(..., help="Folder of a run, for example runs/demo.")


def add(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("why")(why)
    app.command("merge")(merge)
    group = typer.Typer(
        help="Run folders: what they hold and what they take on disk.", no_args_is_help=True
    )
    group.command("ls")(ls)
    group.command("prune")(prune)
    app.add_typer(group, name="runs")


def why(
    run: Path = RUN,
    cell: str = typer.Argument(
        ...,
        help=(
            "A cell: its folder, the beginning of its key, or its identity as index.jsonl spells "
            "it."
        ),
    ),
    other: str = typer.Argument(None, help="Another cell of the run, to be compared with."),
) -> None:
    """Print where a number comes from, or what two numbers differ in.

    Of one cell: its weights, its fit, its scores, and every fact that was hashed for its key and
    for that of its fit. Of two: the facts that differ, and the scores beside one another. Folders
    and keys stand in cells.csv of a report.

    Examples:

      ecgbench why runs/demo 3fa9

      ecgbench why runs/demo 3fa9 cells/demo/stmem/12/81bc...
    """
    from ecgbench.results.explain import description, difference, explained
    from ecgbench.results.store import Store

    store = Store(run)
    first = explained(store, cell)
    lines = description(first) if other is None else difference(first, explained(store, other))
    typer.echo("\n".join(lines))


def merge(
    a: Path = typer.Argument(..., help="Folder of a run."),
    b: Path = typer.Argument(
        ..., help="Folder of another run with the same settings; it is only read."
    ),
    to: Path = typer.Option(
        None, "--to", help="A new folder for both.  (default: A, which then holds both)"
    ),
) -> None:
    """Join two run folders, for example of two machines.

    Cells, fits, features and facts are copied. What is there already stays; of two results of one
    cell the newer one is shown. Both runs must have the same training, draw of leads, limit and
    contract, and the same weights and code of each model. What is damaged is left out.

    Example:

      ecgbench merge runs/ptbxl runs/ptbxl_from_cluster
    """
    from ecgbench.results.merge import merge as merged

    counts = merged(a, b, to or a)
    copied = ", ".join(
        counted(counts[what], what.removesuffix("s")) for what in ("cells", "fits", "files")
    )
    typer.echo(f"{copied} copied to {to or a}")
    if counts["damaged"]:
        typer.echo(f"{counted(counts['damaged'], 'damaged folder')} left out", err=True)
    typer.echo(f"next: ecgbench report {to or a}")


def ls(
    folder: Path = typer.Argument(
        Path("runs"), help="Folder that holds run folders, or one of them."
    ),
    as_json: bool = typer.Option(
        False, "--json", help="One array of objects, sizes in bytes, instead of a table."
    ),
) -> None:
    """List runs: cells that are done, failed, skipped or missing, and disk by part."""
    from ecgbench.cli.lists import show
    from ecgbench.results.disk import runs

    if not folder.is_dir():
        raise BadSetting(f"{folder} is no folder; name one that holds runs: ecgbench runs ls DIR")
    listed = runs(folder)
    if as_json:
        typer.echo(
            json.dumps(
                [{"run": str(r.path), **r.states, **r.disk, "note": r.note} for r in listed],
                indent=1,
            )
        )
        return
    rows = [
        {"run": str(r.path), **r.states, **{part: size(n) for part, n in r.disk.items()}}
        for r in listed
    ]
    show(rows, False, tuple(rows[0]) if rows else ("run",))
    for note in (r.note for r in listed if r.note):
        typer.echo(f"cannot be read: {line(note)}", err=True)


def prune(
    run: Path = RUN,
    yes: bool = typer.Option(
        False, "--yes", "-y", help="Remove it; without this, only list what would be removed."
    ),
) -> None:
    """Free disk: features, checkpoints, intervals, cells that the plan does not name or that an
    edited plug-in replaced.

    No number of the plan is lost.

    Intervals are computed again when the run is read, features when a run needs them; a fine-tuning
    whose checkpoint is removed begins anew.
    """
    from ecgbench.results import disk

    if yes:
        typer.echo(f"{size(disk.prune(run))} freed in {run}")
        return
    sizes = {folder: disk.size(folder) for folder in disk.spare(run)}
    for folder, freed in sizes.items():
        typer.echo(f"{size(freed):>10}  {folder}")
    total = (
        f"{size(sum(sizes.values()))} would be freed; to remove them: ecgbench runs prune "
        f"{run} --yes"
    )
    typer.echo(total if sizes else f"nothing to free in {run}")
