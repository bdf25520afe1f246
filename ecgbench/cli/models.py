"""`ecgbench models fetch`: the authors' weights into this machine's cache."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from ecgbench.cli.options import argument, flag, option
from ecgbench.core.text import line
from ecgbench.errors import BadSetting, EcgbenchError, UnknownName

MEGABYTE = 10**6


def fetch(
    names: list[str] = argument("Models; all: those with published weights.", metavar="NAME..."),
    weights: str = option("Which of several files.", "--weights", "-w", default="released"),
    given: Path = option("The authors' file; nothing is downloaded.", "--from", metavar="FILE"),
    lock: Path = option(
        "Where hashes are pinned.  (default: ecgbench.lock)", metavar="FILE", envvar="ECGBENCH_LOCK"
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
    from ecgbench.study.progress import counting, display

    chosen = _chosen(names, weights)
    if given is not None and len(chosen) != 1:
        raise BadSetting(
            f"--from {given}: one file is the weights of one model, not of {len(chosen)}; name one"
        )
    if without := [name for name in chosen if not room.ROOM.card(name).weights]:
        title = room.ROOM.card(without[0]).title
        raise BadSetting(f"no weights of {title} are released; leave out {without[0]}")
    from ecgbench.weights import convert  # after the names, for it loads torch

    failed, terminal = 0, display()
    for name in chosen:
        try:
            with counting(f"download {name}", terminal, "MB", MEGABYTE) as progress:
                listener: Any = SimpleNamespace(note=terminal.note, progress=progress)
                convert.fetch(name, weights, given, lock, force, listener)
        except EcgbenchError as error:
            if len(chosen) == 1:
                raise
            failed += 1
            typer.echo(f"ecgbench: {name}: {line(str(error))}", err=True)
    if failed:
        typer.echo(f"{len(chosen) - failed} of {len(chosen)} are here")
        raise typer.Exit(1)


def _chosen(names: list[str], weights: str) -> list[str]:
    from ecgbench import models as room

    if "all" not in names:
        return list(dict.fromkeys(map(room.resolve, names)))
    cards = {name: room.ROOM.card(name) for name in room.names() if room.ROOM.built_in(name)}
    published = [name for name, c in cards.items() if weights in {w.name for w in c.weights}]
    if not published:
        known = dict.fromkeys(w.name for c in cards.values() for w in c.weights)
        raise UnknownName("weights", weights, known)
    return published
