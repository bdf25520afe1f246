"""`ecgbench models fetch`: the authors' weights into this machine's cache."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import typer

from ecgbench.cli.options import MODELS, add_commands, argument, flag, option
from ecgbench.errors import BadSetting, EcgbenchError

MEGABYTE = 10**6


def add(app: typer.Typer) -> None:
    """Add the group to the program."""
    group = typer.Typer(help="Weights of models that their authors publish.", no_args_is_help=True)
    add_commands(group, fetch)
    app.add_typer(group, name="models", rich_help_panel=MODELS)


def fetch(
    names: list[str] = argument(
        "Models, or the word all: every model whose authors publish weights.", metavar="NAME..."
    ),
    weights: str = option(
        "Which file, where the authors publish several (see list models --json).",
        "--weights",
        "-w",
        default="released",
    ),
    given: Path = option(
        "The authors' file that you have already; nothing is downloaded.",
        "--from",
        metavar="FILE",
    ),
    lock: Path = option(
        "Where hashes that no card knows are pinned on first use.  (default: ecgbench.lock "
        "in this folder)",
        metavar="FILE",
        envvar="ECGBENCH_LOCK",
    ),
    force: bool = flag("Convert anew what is here already.", "--force"),
) -> None:
    """Get authors' weights: download, check the hash, read without running anything, convert to
    safetensors in your cache.

    Every tensor of the network must be in the file, under its name and in
    its shape, or nothing is stored. Then `--weights released` of the other
    commands loads the conversion, which lies in your cache folder (or in
    ECGBENCH_WEIGHTS) and never in a repository. What a licence forbids is
    printed until a fetch or a run has succeeded.

    A file that your browser has downloaded is given with --from, or put
    into the folder that the error names:

      ecgbench models fetch stmem --from ~/Downloads/st_mem_vit_base_full.pth

    Exit 0: all are here; 1: some of several could not be had; 2: bad input,
    or the only one asked for could not be had.
    """
    from ecgbench import models as room

    chosen = _chosen(names, weights)
    if given is not None and len(chosen) != 1:
        raise BadSetting(
            f"--from {given}: one file is the weights of one model, not of {len(chosen)}; name one"
        )
    for name in chosen:
        if not room.ROOM.card(name).weights:
            raise BadSetting(
                f"no weights of {room.ROOM.card(name).title} are released; leave out {name}"
            )
    from ecgbench.weights import convert

    failed = 0
    for name in chosen:
        try:
            with _Progress(name) as progress:
                convert.fetch(name, weights, given, lock, force, progress)
        except EcgbenchError as error:
            if len(chosen) == 1:
                raise
            failed += 1
            typer.echo(f"ecgbench: {name}: {' '.join(str(error).split())}", err=True)
    if failed:
        typer.echo(f"{len(chosen) - failed} of {len(chosen)} are here")
        raise typer.Exit(1)


def _chosen(names: list[str], weights: str) -> list[str]:
    from ecgbench import models as room

    if "all" not in names:
        return list(dict.fromkeys(room.resolve(name) for name in names))
    if len(names) > 1:
        raise BadSetting(f"models fetch {' '.join(names)}: all stands alone")
    published = [
        name
        for name in room.names()
        if room.ROOM.built_in(name) and any(w.name == weights for w in room.ROOM.card(name).weights)
    ]
    if not published:
        raise BadSetting(
            f"--weights {weights}: no model has weights of that name; see "
            f"ecgbench list models --json"
        )
    return published


class _Progress:
    """Shows how the weights of one model are obtained."""

    def __init__(self, name: str) -> None:
        from ecgbench.study.progress import display

        self._name, self._display, self._stage, self._shown = name, display(), ExitStack(), 0
        self._advance: Callable[[int], None] | None = None

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._stage.close()

    def note(self, text: str) -> None:
        """One line; an open bar ends before it."""
        self._stage.close()
        self._display.note(text)

    def progress(self, done: int, total: int | None) -> None:
        """Bytes that are here: a bar or lines of megabytes, where the server says how many there
        will be.
        """
        if not total:
            return
        if self._advance is None:
            whole = max(1, total // MEGABYTE)
            self._advance = self._stage.enter_context(
                self._display.stage(f"download {self._name}", whole, "MB")
            )
        more = done // MEGABYTE - self._shown
        if more > 0:
            self._advance(more)
            self._shown += more
