"""`ecgbench models`: which there are; `ecgbench models fetch`: the authors' weights into this
machine's cache; `pack`: our own to ship.
"""

import gc
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import typer

from ecgbench.cli.lists import cards, show
from ecgbench.cli.options import JSON, add_commands, argument, flag, option
from ecgbench.core.text import size
from ecgbench.errors import BadSetting, EcgbenchError

MEGABYTE = 10**6


def add(app: typer.Typer) -> None:
    """Add the group to the program."""
    group = typer.Typer(invoke_without_command=True)
    group.callback()(models)
    add_commands(group, fetch)
    add_commands(group, pack)
    app.add_typer(group, name="models")


def models(context: typer.Context, as_json: bool = JSON) -> None:
    """List the models: how they are fed, whether they read any subset of leads, whether their
    weights are here.

    `ecgbench models fetch NAME` gets the weights that a model's authors have published.
    """
    if context.invoked_subcommand is not None:
        return
    from ecgbench import models as room
    from ecgbench.weights import released

    rows = []
    # while torch and the networks are imported: a sixth of the time, and nothing of them is garbage
    gc.disable()
    known = dict(cards(room.ROOM))
    gc.enable()
    for name, card in known.items():
        c = card.contracts[0]
        here = [w.name for w in card.weights if released.is_here(name, w)]
        rows.append(
            {
                "name": name,
                "title": card.title,
                "parameters": card.parameters,
                "fs": c.fs,
                "seconds": c.seconds,
                "leads": len(c.leads),
                "policy": c.policy,
                "native": card.native,
                "weights": _where(bool(card.weights), here),
                "released": [w.name for w in card.weights],
                "here": here,
                "licence": card.licence,
            }
        )
    show(
        rows,
        as_json,
        ("name", "title", "parameters", "fs", "seconds", "leads", "policy", "native", "weights"),
    )
    if not as_json:
        told = ", ".join(room.ROOM.variants())
        typer.echo(f"Encoders of LAEF's ablations, by name only: {told}")


def fetch(
    names: list[str] = argument(
        "Models, or the word all: every model whose authors publish weights.", metavar="NAME..."
    ),
    weights: str = option(
        "Which file, where the authors publish several (see models --json).",
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


def pack(
    run: Path = argument(
        "Folder of a finished pre-training (ecgbench pretrain --out).", metavar="RUN"
    ),
    to: Path = option(
        "Folder that receives the files; of the repository: models/laef.",
        default=...,
        metavar="DIR",
    ),
) -> None:
    """Make the files that ship of a pre-training: weights in float16, pretraining.json, curves.

    The encoder must be the one that the folder's pretraining.json
    names. The same pre-training gives the same bytes. The sha256 that is
    printed belongs on LAEF's card; the file is compared with it at every load.
    """
    from ecgbench.weights import pack

    shipped = pack.pack(run, to)
    change = f"rounding moved no value by more than {shipped['largest_change']:.1e}"
    typer.echo(f"{to / shipped['file']}: {size(shipped['bytes'])}, {shipped['dtype']}; {change}")
    typer.echo(f"sha256 {shipped['sha256']}")


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
            f"--weights {weights}: no model has weights of that name; see ecgbench models --json"
        )
    return published


def _where(published: bool, here: list[str]) -> str:
    if not published:
        return "none released"
    return "not here" if not here else "here" if here == ["released"] else ", ".join(here)


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
