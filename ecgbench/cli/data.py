"""`ecgbench data prepare | verify`: from files as published to the prepared store."""

from pathlib import Path

import typer

from ecgbench.cli.options import DATA, PREPARED, add_commands, argument
from ecgbench.errors import UnknownName

DATASET = argument("Dataset: ptbxl, demo, or the path of your own: ./mine.py")


def add(app: typer.Typer) -> None:
    """Add the group to the program."""
    group = typer.Typer(
        help="Prepare downloaded datasets and verify prepared copies.", no_args_is_help=True
    )
    add_commands(group, prepare)
    add_commands(group, verify)
    app.add_typer(group, name="data")


def prepare(dataset: str = DATASET, data: Path = DATA, prepared: Path = PREPARED) -> None:
    """Read and check every recording once and store it for fast reading. `ecgbench run` does this
    by itself when it must.
    """
    from ecgbench.benchmark.progress import counting, display
    from ecgbench.prepared import prepare

    name = _name(dataset)
    with counting(f"prepare {name}", display()) as shown:
        copy = prepare.prepare(name, data, prepared, shown)
    typer.echo(
        f"{name}: {len(copy.index)} records of {copy.card.records:,} in the release, "
        f"{len(copy.excluded)} left out by rule, {len(copy.quarantined)} quarantined: {copy.folder}"
    )
    for reason, count in copy.excluded["reason"].value_counts().sort_index().items():
        typer.echo(f"  left out: {count:,} {reason}")
    for record, reason in copy.quarantined[["record", "reason"]].itertuples(index=False):
        typer.echo(f"  quarantined {record}: {reason}")


def verify(dataset: str = DATASET, data: Path = DATA, prepared: Path = PREPARED) -> None:
    """Read the published files again and compare them with the prepared copy, sample for sample.
    Exit 1 on a difference.
    """
    from ecgbench.benchmark.progress import counting, display
    from ecgbench.prepared import verify
    from ecgbench.prepared.prepare import held

    name = _name(dataset)
    copy = held(name, data, prepared)
    with counting(f"verify {name}", display()) as shown:
        problems = verify.verify(copy, data, shown)
    for record, reason in problems:
        typer.echo(f"  {record}: {reason}")
    part = "" if copy.whole else f"; {len(copy.published):,} records are published"
    typer.echo(f"{name}: {len(problems)} differences in {len(copy.index):,} prepared records{part}")
    if problems:
        raise typer.Exit(1)


def _name(dataset: str) -> str:
    from ecgbench import datasets
    from ecgbench.benchmark.plan import all_tasks
    from ecgbench.room import plain

    for task, (owner, _, _) in all_tasks().items():
        if plain(task) == plain(dataset) and plain(owner) != plain(dataset):
            raise UnknownName("dataset", dataset, datasets.names(), f"{task} is a task of {owner}")
    return datasets.resolve(dataset)
