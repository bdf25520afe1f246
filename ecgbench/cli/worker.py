"""`ecgbench worker`: one task of a batch, as engines of several processes start it."""

from pathlib import Path

import typer

from ecgbench.cli.options import add_commands, argument
from ecgbench.errors import BadSetting

DIGITS = 9
LEFT = 75
"""Exit code of a task that was asked to stop and could not be queued again."""


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, worker)


def worker(
    batch: Path = argument("The file batch.json of a run, below RUN/batches."),
    task: str = argument("The number of a task in it, from 0, or prepare.", metavar="TASK"),
) -> None:
    """Carry out one task of a run whose work was cut into tasks.

    `ecgbench run` with --engine local:N or slurm starts it, and so does the script that
    --emit-sbatch writes. Results go to the run folder; `ecgbench report` and `ecgbench status` find
    them there. USR1 asks it to stop: what is finished is kept, and a task of Slurm is queued again.
    The task "prepare" prepares the recordings of all others.
    """
    from ecgbench.study import engines
    from ecgbench.study import task as tasks

    if task == "prepare":
        tasks.prepare(tasks.read(batch, 0))
        return
    if not task.isdecimal() or len(task) > DIGITS:
        raise BadSetting(f"task {task}: a number from 0, or prepare")
    number = int(task)
    given = tasks.read(batch, number)
    # what an engine of several processes may define besides
    begun, again = (getattr(engines.get(given.engine), name, None) for name in ("begun", "requeue"))
    if begun is not None:
        begun(given, number)
    try:
        tasks.carry_out(given, number)
    except tasks.Left as left:
        if not left.further:
            typer.echo("its time ended before anything was stored; give its tasks more", err=True)
        elif again is not None and again():
            return
        raise typer.Exit(LEFT) from None
