"""Options of the commands: how they are declared, those that several share, and lists in their
text.
"""

import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from ecgbench.errors import BadSetting

RESULTS, DATA_PANEL, MODELS, MORE = "Run and report", "Data", "Models", "More"
"""Panels of `ecgbench --help`."""
MACHINE = "Machine"
"""Panel of `--help` for what changes no number."""


class Command(TyperCommand):
    """A command in whose words `~` is the home folder, wherever the shell leaves it as it is:
    `--data=~/ecg`, `--weights laef=~/w.pt`, settings of a plan, variables.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the home folder in place."""
        left = super().parse_args(ctx, args)
        ctx.params.update((name, at_home(value)) for name, value in ctx.params.items())
        return left


def add_commands(
    group: typer.Typer,
    *commands: Callable[..., Any],
    panel: str | None = None,
) -> None:
    """Add commands to a program; the paragraphs of their docstrings are as wide as the terminal."""
    for command in commands:
        # `import_`: its own name is a word of Python
        name = command.__name__.rstrip("_").replace("_", "-")
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
    "Folder that holds the datasets as published (DIR/ptbxl/...); only read.",
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


def at_home(value: Any) -> Any:
    """A text, path or list with the home folder for `~` where a path begins with it, also within a
    comma-separated list.

    >>> at_home("laef,~/m.py,merl=~/w.pt") == f"laef,{Path.home()}/m.py,merl={Path.home()}/w.pt"
    True
    """
    if isinstance(value, list | tuple):
        return type(value)(map(at_home, value))
    if not isinstance(value, str | Path):
        return value
    begins = r"((?:^|[,=])\s*)(~[^/,=]*)(?=/|,|$)"
    home = re.sub(begins, lambda found: found[1] + os.path.expanduser(found[2]), str(value))
    return type(value)(home)


def words(text: str | None) -> tuple[str, ...] | None:
    """The words of a comma-separated list, each once; None where the option is not given."""
    if text is None:
        return None
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def integers(flag: str, text: str | None) -> tuple[int, ...] | None:
    """The whole numbers of a comma-separated list; None where the option is not given."""
    try:
        return None if text is None else tuple(int(word) for word in text.split(","))
    except ValueError:
        raise BadSetting(
            f"{flag} {text}: whole numbers, comma-separated, for example 0,1,2"
        ) from None
