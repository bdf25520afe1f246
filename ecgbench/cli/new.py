"""`ecgbench new`: a file of one's own to begin with, which runs as it is."""

from pathlib import Path
from typing import Literal

import typer

from ecgbench.cli.options import argument
from ecgbench.core.files import put
from ecgbench.core.registry import OWN, plain
from ecgbench.errors import BadSetting

TEMPLATES = Path(__file__).with_name("templates")
NEXT = {
    "model": "ecgbench check model {name}",
    "dataset": "ecgbench check dataset {name} --data DIR",
    "report": "ecgbench report RUN --only {name}",
    "perturbation": "ecgbench check perturbation {name}",
}
"""Kind -> the command that tries such a file."""


def new(
    kind: Literal["model", "dataset", "report", "perturbation"] = argument(
        "model, dataset, report or perturbation."
    ),
    name: str = argument("What it is called on the command line: letters, digits and _."),
) -> None:
    """Write a commented file of your own: a model, a data set, a report or a perturbation.

    It goes to ./adapters, where every command typed in this folder finds it by its name.

    Examples:

      ecgbench new model mynet

      ecgbench check model mynet
    """
    from ecgbench import datasets, models, perturbations, reports

    if not name.isidentifier():
        raise BadSetting(
            f"new: {name!r} is no name for a file of Python; use letters, digits and _"
        )
    rooms = {"model": models, "dataset": datasets, "report": reports, "perturbation": perturbations}
    room = rooms[kind].ROOM
    if taken := [n for n in [*room.names(), *room.variants()] if plain(n) == plain(name)]:
        raise BadSetting(
            f"new: {taken[0]!r} is an installed {kind}, which would be used instead of this file; "
            f"choose another name"
        )
    file = Path(OWN) / f"{name}.py"
    if file.exists():
        raise BadSetting(f"new: {file} exists; choose another name, or remove it")
    text = (TEMPLATES / f"{kind}.py").read_text(encoding="utf-8")
    file.parent.mkdir(exist_ok=True)
    put(file, text.replace("NAME", name).encode())
    typer.echo(f"written: {file}\nnext: {NEXT[kind].format(name=name)}")
