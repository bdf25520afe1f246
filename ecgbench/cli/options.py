"""Options of the commands: how they are declared, and those that several share."""

import inspect
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from ecgbench.core.text import words as words

MACHINE = "Machine"
"""Panel of `--help` for what changes no number."""


class Command(TyperCommand):
    """A command in whose paths `~` is the home folder, also where a shell leaves it:
    `--data=~/ecg`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the home folder in place."""
        rest = super().parse_args(ctx, args)
        for name, value in ctx.params.items():
            if isinstance(value, Path):
                ctx.params[name] = Path(os.path.expanduser(value))
        return rest


def add_commands(group: typer.Typer, panel: str | None, *commands: Callable[..., Any]) -> None:
    """Add commands to a program; the paragraphs of their docstrings are as wide as the terminal."""
    for command in commands:
        name = command.__name__.rstrip("_")  # `import_`: its own name is a word of Python
        text = unwrapped(command.__doc__ or "")
        group.command(name, cls=Command, help=text, rich_help_panel=panel)(command)


def unwrapped(text: str) -> str:
    """Paragraphs of one line each; a paragraph that begins further right, an example, stays there.

    >>> lines = ["What it", "    does.", "", "      ecgbench run", "        --leads 1"]
    >>> unwrapped(chr(10).join(lines)).splitlines()
    ['What it does.', '', '  ecgbench run --leads 1']
    """
    paragraphs = [p.rstrip() for p in inspect.cleandoc(text).split("\n\n")]
    lines = [" " * (len(p) - len(p.lstrip())) + " ".join(p.split()) for p in paragraphs]
    return "\n\n".join(lines)


def option(help: str, *names: str, default: Any = None, **more: Any) -> Any:
    """An option, called as its parameter is unless `names` are given; `more`: see typer.Option."""
    return typer.Option(default, *names, help=help, **more)


def flag(help: str, *names: str, **more: Any) -> Any:
    """An option without a value: False unless it is given."""
    return option(help, *names, default=False, **more)


def argument(help: str, default: Any = ..., **more: Any) -> Any:
    """A word without a name; one without a default must be given."""
    return typer.Argument(default, help=help, **more)


DATA = option(
    "Folder that holds the datasets as published (DIR/ptbxl/...). Prepared copies go into "
    "DIR/prepared, or where --prepared says.",
    envvar="ECGBENCH_DATA",
    rich_help_panel=MACHINE,
)
PREPARED = option(
    "Folder for prepared copies. Default: DATA/prepared, or the user's cache.",
    envvar="ECGBENCH_PREPARED",
    rich_help_panel=MACHINE,
)
DEVICE = option(
    "auto (a GPU where there is one), cpu, cuda, cuda:1.", default="auto", rich_help_panel=MACHINE
)
JSON = flag("One array of objects instead of a table.", "--json")
SETS = option("KEY=VALUE, a setting named above.", "--set", default=[], metavar="KEY=VALUE")
YES = flag("Remove it; without this, only list what would be removed.", "--yes", "-y")


def demand_writable(folder: Path) -> None:
    """WriteError for a folder in which nothing can be written; made where there is none."""
    from ecgbench.core.files import writing

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


def width() -> int | None:
    """Columns of the terminal; None where a file or another program reads."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
