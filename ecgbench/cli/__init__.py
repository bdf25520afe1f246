"""The command line: one file per group of commands; this one only adds them and turns errors into
one line.
"""

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from ecgbench import __version__
from ecgbench.cli import settings
from ecgbench.core.text import line
from ecgbench.errors import INTERRUPTED, EcgbenchError, Lacking

ORDER = "run report runs predict embed data models check profile list freeze pretrain ablate doctor"
"""Commands, in the order in which a person meets them; typer would put groups last."""
FILES = "run report runs predict data models check profile lists freeze pretrain doctor"


class Program(TyperGroup):
    """The commands in ORDER."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands."""
        return ORDER.split()


app = typer.Typer(
    cls=Program,
    name="ecgbench",
    help="How much of an ECG model's skill survives when only some leads are measured.\n\n"
    "Start with `ecgbench run` (a demo on synthetic recordings), then `ecgbench report`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for file in FILES.split():
    import_module(f"ecgbench.cli.{file}").add(app)


@app.callback(invoke_without_command=True)
def _version(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        typer.echo(f"ecgbench {__version__}")
        raise typer.Exit


def main() -> None:
    """The program: exit codes 0 done, 1 some cells or a check failed, 2 bad input, 75 a
    pre-training whose minutes were over, 130 interrupted.
    """
    try:
        settings.demand_new(sys.argv[1:])
        code = app(standalone_mode=False) or 0
        if code == 130:  # typer caught the interrupt and printed nothing
            _stop()
        sys.exit(code)
    except Lacking as error:
        _complain(*error.args)
    except EcgbenchError as error:
        _complain(str(error))
    except OSError as error:  # no space, no permission, a file where a folder should be
        file = f": {error.filename}" if error.filename else ""
        _complain(
            f"{error.strerror or error}{file}; choose another folder, or repair this one and run "
            f"the command again"
        )
    except KeyboardInterrupt:
        _stop()
    except Exception as error:
        # some versions of typer have their own copy of click, so its errors are known by their
        # methods
        if type(error).__name__ == "Abort":
            _stop()
        if not hasattr(error, "format_message"):
            raise
        command = getattr(getattr(error, "ctx", None), "command_path", "ecgbench")
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
            sys.exit(2)
        message = error.format_message().rstrip(".").replace("Value error, ", "")
        _complain(f"{message}; see {command} --help")


def _complain(*lines: str) -> None:
    # names in a file may hold control characters
    print("ecgbench:", "\n  ".join(map(line, lines)), file=sys.stderr)
    sys.exit(2)


def _stop() -> None:
    print(f"ecgbench: {INTERRUPTED}", file=sys.stderr)
    sys.exit(130)
