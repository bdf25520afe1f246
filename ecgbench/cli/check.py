"""`ecgbench check model | policy | dataset | metric | perturbation | results | parity`: conformance
tests of plug-ins, and of results that others add.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from ecgbench.cli.options import DATA, JSON, PREPARED, argument, flag, option
from ecgbench.core.text import aligned, words
from ecgbench.errors import BadSetting

NAME = argument("A name, or the path of your own: ./mine.py")


def model(
    name: str = NAME,
    weights: str = option("random, released, or a PATH.", "--weights", "-w", default="random"),
    seconds: float = option("Seconds after which a test is stopped."),
    audit: bool = flag("Instead, measure what missing leads do to models: NAME,NAME or all."),
    as_json: bool = JSON,
) -> None:
    """Test a model. Exit 1 when a test fails. Of a file of weights it names what is left out.

    The most important test: changing the hidden leads of a raw recording, in millivolts, leaves
    the features bit-identical.

    --audit tells which rows it reads, what zeros, order and scale change, and whether limb leads
    that follow from I and II change a score, on generated recordings.
    """
    from ecgbench.check.models import SECONDS, check

    if audit:
        _audit(name, weights, seconds or SECONDS, as_json)
        return
    with _stopped(name, seconds or SECONDS) as begin:
        _show(check(name, begin, weights), as_json)


def _audit(text: str, weights: str, seconds: float, as_json: bool) -> None:
    """Each model in turn, then two tables of all."""
    from ecgbench import models
    from ecgbench.cards.plan import weights_of
    from ecgbench.check import any_lead

    chosen = models.names() if text == "all" else map(models.resolve, words(text) or [text])
    names, rows = [*dict.fromkeys(chosen)], []
    own = weights_of(weights, names, models.resolve)
    for number, name in enumerate(names, 1):
        typer.echo(f"{name}: {number} of {len(names)}", err=True)
        with _stopped(name, seconds) as begin:
            begin("audit")
            rows += any_lead.audit(name, own[name])
    if as_json:
        typer.echo(json.dumps([row.plain for row in rows], indent=1))
        return
    kinds = ", ".join(sorted({row.weights for row in rows}))
    typer.echo(f"weights: {kinds}; generated recordings; movement in units of their spread\n")
    for table in (any_lead.reading(rows), any_lead.limb(rows)):
        typer.echo("\n".join(aligned(table)) + "\n")


@contextmanager
def _stopped(name: str, seconds: float) -> Iterator[Callable[[str], None]]:
    """Gives a function to call as each test begins; one that takes longer ends this process with a
    line and exit code 1.
    """
    timers: list[threading.Timer] = []

    def end(test: str) -> None:
        line = f"BROKEN {test}: {name} gave no answer in {seconds:g} s, so the check was stopped\n"
        os.write(1, line.encode())
        os._exit(1)  # a network that hangs ends by no other way

    def begin(test: str) -> None:
        for timer in timers:
            timer.cancel()
        timers[:] = [threading.Timer(seconds, end, [test])]
        timers[0].daemon = True
        timers[0].start()

    try:
        yield begin
    finally:
        for timer in timers:
            timer.cancel()


def policy(name: str = NAME, as_json: bool = JSON) -> None:
    """Test a policy for missing leads. Exit 1 when a test fails."""
    from ecgbench.check.policies import check

    _show(check(name), as_json)


def dataset(
    name: str = NAME, data: Path = DATA, prepared: Path = PREPARED, as_json: bool = JSON
) -> None:
    """Test a prepared dataset. Exit 1 when a test fails."""
    from ecgbench.check.datasets import check

    _show(check(name, data, prepared), as_json)


def metric(name: str = NAME, as_json: bool = JSON) -> None:
    """Test a metric. Exit 1 when a test fails."""
    from ecgbench.check.metrics import check

    _show(check(name), as_json)


def perturbation(name: str = NAME, as_json: bool = JSON) -> None:
    """Test a perturbation at each level of its card. Exit 1 when a test fails."""
    from ecgbench.check.perturbations import check

    _show(check(name), as_json)


def results(
    folder: Path = argument("A folder that `ecgbench runs export` wrote."),
    data: Path = DATA,
    prepared: Path = PREPARED,
    as_json: bool = JSON,
) -> None:
    """Check results that others add: hashes, known tasks and splits, and every score and number of
    its pages again from the predictions. Exit 1 when a check fails.

    With --data or --prepared, test records are compared with those of the prepared copy.
    """
    from ecgbench.check.results import check

    _show(check(folder, data, prepared), as_json)


def _show(found: Iterable[dict[str, Any]], as_json: bool) -> None:
    """Each row as soon as it is known; of JSON, all at the end."""
    rows = []
    for row in found:
        rows.append(row)
        if not as_json:
            typer.echo(f"{'ok    ' if row['ok'] else 'BROKEN'} {row['name']}: {row['detail']}")
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    for means in dict.fromkeys(row["means"] for row in rows if "means" in row):
        typer.echo(f"This means for {means}", err=True)
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)


def parity(
    name: str = argument("A model's name."),
    pack: Path = option("The golden arrays, an npz."),
    keys: Path = option("The network's tensors, a keys.json."),
    seed_string: str = option("The pack's seed string."),
    as_json: bool = JSON,
) -> None:
    """Compare a network with another implementation of it.

    `ecgbench check parity laef` compares LAEF with torch_geometric's GATv2Conv, layer by layer,
    with the same weights, under several sets of leads (extra `graph`).

    --pack, --keys and --seed-string: with feature arrays that its authors' code computed. The
    network gets pseudo-random weights by the parity rule; every array is computed again.

    Exit 0 only if every array was compared and lies within 1e-5 * max(1, max|pack|); 1 on a
    difference or an array that cannot be computed; 2 on bad arguments.
    """
    from ecgbench.check import parity as parities

    given = [pack, keys, seed_string]
    if any(given) and not all(given):
        raise BadSetting("check parity: --pack, --keys and --seed-string belong together")
    rows = parities.check(name, pack, keys, seed_string) if all(given) else parities.layers(name)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=1))
    for row in () if as_json else rows:
        figures = ""
        if row.difference is not None:
            figures = f"largest difference {row.difference:.2e}, limit {row.limit:.2e}"
        typer.echo(f"{row.array:40} {row.status:24} {figures}{row.reason}")
    if not parities.passed(rows):
        raise typer.Exit(1)


COMMANDS = (model, policy, dataset, metric, perturbation, results, parity)
