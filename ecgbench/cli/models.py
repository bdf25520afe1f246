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
    names: list[str] = argument(
        "Models; all: every model with published weights.", metavar="NAME..."
    ),
    weights: str = option("Which of a model's weights.", "--weights", "-w", default="released"),
    file: Path = option("The authors' file, downloaded already.", "--from", metavar="FILE"),
    force: bool = flag("Convert again even if the weights are here.", "--force"),
) -> None:
    """Download the authors' weights, check their hash and convert them to safetensors.

    Nothing is stored unless the file has every tensor of the network, in its shape. Afterwards
    `--weights released` of the other commands loads the converted weights from your cache folder
    (or ECGBENCH_WEIGHTS). The restrictions of a licence are printed until a fetch or a run has
    succeeded.

    Give a file that you downloaded in a browser with --from, or put it into the folder that the
    error names:

      ecgbench models fetch stmem --from ~/Downloads/st_mem_vit_base_full.pth

    Exit 0: all are here; 1: some of several failed; 2: bad input, or the only one failed.
    """
    from ecgbench import models as room
    from ecgbench.study.progress import counting, display

    chosen = _chosen(names, weights)
    if file is not None and len(chosen) != 1:
        raise BadSetting(
            f"--from {file}: one file is the weights of one model, not of {len(chosen)}; name one"
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
                convert.fetch(name, weights, file, force, listener)
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
