"""The command line: one file per group of commands; this one adds them and turns errors into one
line.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from typer.core import TyperGroup

from ecgbench import __version__
from ecgbench.cli import (
    check,
    cite,
    data,
    doctor,
    freeze,
    importing,
    lists,
    models,
    new,
    predict,
    pretrain,
    profile,
    read,
    report,
    run,
    runs,
)
from ecgbench.cli.options import add_commands
from ecgbench.core.text import line
from ecgbench.errors import INTERRUPTED, BadSetting, EcgbenchError, MissingRequirements

RESULTS, DATA, MODELS, MORE = "Run and report", "Data", "Models", "More"
"""Panels of `ecgbench --help`."""
ORDER = "run report read runs predict embed cite data models new check profile list freeze pretrain"
ORDER += " ablate doctor"
"""Commands in the order of the help; typer would put groups last."""


class Program(TyperGroup):
    """The commands in ORDER."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands."""
        return ORDER.split()


app = typer.Typer(
    cls=Program,
    name="ecgbench",
    help="How much of an ECG model's skill survives when only some leads are measured.\n\n"
    "Start with `ecgbench run`: a demo on synthetic recordings, and its report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
add_commands(
    app, RESULTS, run.run, report.report, read.read, predict.predict, predict.embed, cite.cite
)
add_commands(app, MODELS, new.new, profile.profile)
add_commands(app, MORE, lists.list_, freeze.freeze, pretrain.pretrain, pretrain.ablate)
add_commands(app, MORE, doctor.doctor)
GROUPS = (
    ("runs", RESULTS, "Run folders: ls, status, why, merge, prune, export.", runs.COMMANDS),
    (
        "data",
        DATA,
        "Datasets, and imports of your own recordings.",
        (importing.import_, *data.COMMANDS),
    ),
    ("models", MODELS, "Published weights of models.", (models.fetch,)),
    ("check", MODELS, "Test plug-ins, and results that others add.", check.COMMANDS),
)
for name, panel, text, commands in GROUPS:
    group = typer.Typer(help=text, no_args_is_help=True)
    add_commands(group, None, *commands)
    app.add_typer(group, name=name, rich_help_panel=panel)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        typer.echo(f"ecgbench {__version__}")
        raise typer.Exit


def main() -> None:
    """The program: exit codes 0 done, 1 some cells, a report or a check failed, 2 bad input, 130
    interrupted, 143 and 129 by SIGTERM and SIGHUP.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: the next file would take its number
            nowhere = open(os.devnull, "r+")  # noqa: SIM115
            os.set_inheritable(nowhere.fileno(), True)
            setattr(sys, name, nowhere)
    signals = list[int]()
    try:
        if "" in sys.argv[1:]:  # a path of it would be this folder
            raise BadSetting("an argument is empty; name it, or leave its option out")
        with _interrupted_by(signals):
            code = app(standalone_mode=False) or 0
    except MissingRequirements as error:
        code = _complain(*error.args)
    except EcgbenchError as error:
        code = _complain(str(error))
    except OSError as error:  # no space, no permission, a file where a folder should be
        file = f": {error.filename}" if error.filename else ""
        code = _complain(
            f"{error.strerror or error}{file}; choose another folder, or repair this one and run "
            f"the command again"
        )
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        # some versions of typer have their own copy of click: its errors are known by a method
        if not hasattr(error, "format_message"):
            raise
        code = _misused(error)
    if code == 130:
        with suppress(OSError):  # a terminal that was closed
            print(f"ecgbench: {INTERRUPTED}", file=sys.stderr)
    sys.exit(128 + signals[0] if signals else code)


@contextmanager
def _interrupted_by(signals: list[int]) -> Iterator[None]:
    """SIGTERM of a scheduler and SIGHUP of a closed terminal interrupt what is inside, as Ctrl+C
    does, and are added to `signals`; what nohup has switched off stays off.
    """

    def interrupt(number: int, frame: object) -> None:
        signals.append(number)
        raise KeyboardInterrupt

    heeded = []
    if threading.current_thread() is threading.main_thread():
        every = signal.SIGTERM, signal.SIGHUP
        heeded = [one for one in every if signal.getsignal(one) is signal.SIG_DFL]
    for one in heeded:
        signal.signal(one, interrupt)
    try:
        yield
    finally:
        for one in heeded:
            signal.signal(one, signal.SIG_DFL)


def _misused(error: Any) -> int:
    """An error of click: a word that is no command or option, or that cannot be its value."""
    command = getattr(getattr(error, "ctx", None), "command_path", "ecgbench")
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)
        return 2
    message = error.format_message().rstrip(".").replace("Value error, ", "")
    unknown = re.search(r"No such (?:command '|option:? ?'?)([\w-]+)", message)
    word = unknown[1] if unknown else ""
    key = word.lstrip("-").replace("-", "_")
    near = [k for k in _settings(command.split()[-1]) if key and k.rpartition(".")[2] == key]
    message += "".join(f"; give --set {k}=VALUE" for k in near)
    return _complain(f"{message}; see {command} --help")


def _settings(command: str) -> Collection[str]:
    """Keys of `--set` of a command, for which it has no option."""
    from ecgbench.study.plan_file import keys

    reports = [f"report.{key}" for key in report.SETTINGS]
    others = {"report": reports, "pretrain": pretrain.SETTINGS, "ablate": pretrain.ABLATE}
    return keys() if command == "run" else others.get(command, ())


def _complain(*lines: str) -> int:
    # names in a file may hold control characters
    print("ecgbench:", "\n  ".join(map(line, lines)), file=sys.stderr)
    return 2
