"""`ecgbench check model | adapter | dataset | metric | perturbation | parity`: conformance tests of
plug-ins.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from ecgbench.cli.options import DATA, JSON, PREPARED, argument, option
from ecgbench.errors import BadSetting

NAME = argument("A name, or the path of your own: ./mine.py")


def model(name: str = NAME, as_json: bool = JSON) -> None:
    """Test a model with random weights. Exit 1 when a test fails.

    The most important test: changing the hidden leads of a raw recording, in millivolts, leaves
    the features bit-identical.
    """
    from ecgbench.check.models import check

    _show(check(name), as_json)


def adapter(name: str = NAME, as_json: bool = JSON) -> None:
    """Test a policy for missing leads. Exit 1 when a test fails."""
    from ecgbench.check.adapters import check

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


def _show(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    for row in () if as_json else rows:
        typer.echo(f"{'ok    ' if row['ok'] else 'BROKEN'} {row['name']}: {row['detail']}")
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


COMMANDS = (model, adapter, dataset, metric, perturbation, parity)
