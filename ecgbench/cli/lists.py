"""`ecgbench models | tasks | adapters | reports`: what there is, as a table or as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from ecgbench.cli.run import DATA, PREPARED

JSON = typer.Option(False, "--json", help="One array of objects instead of a table.")


def add(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (models, tasks, adapters, reports):
        app.command(command.__name__)(command)


def models(as_json: bool = JSON) -> None:
    """Models, how they are fed, and whether they read any subset of leads."""
    from ecgbench import models as room

    found = []
    for name in room.names():
        card = room.get(name).CARD
        c = card.contracts[0]
        found.append({
            "name": name, "title": card.title, "parameters": card.parameters, "fs": c.fs, "seconds": c.seconds, "leads": len(c.leads),
            "policy": c.policy, "native": card.native, "released": [w.name for w in card.weights], "licence": card.licence,
        })  # fmt: skip
    _show(found, as_json, ("name", "title", "parameters", "fs", "seconds", "leads", "policy", "native"))


def tasks(as_json: bool = JSON, data: Path = DATA, prepared: Path = PREPARED) -> None:
    """Tasks of every dataset, the number of targets, and whether the data are prepared."""
    from ecgbench.benchmark.plan import all_tasks
    from ecgbench.datasets._prepare import state

    found: list[dict[str, Any]] = []
    states: dict[str, str] = {}
    for name, (dataset, card, task) in all_tasks().items():
        states.setdefault(dataset, state(dataset, data, prepared))
        found.append({
            "name": name, "title": task.title, "dataset": dataset, "targets": len(task.labels), "evaluation_only": task.parent is not None,
            "prepared": states[dataset] == "ready", "data": states[dataset], "synthetic": card.synthetic,
        })  # fmt: skip
    _show(found, as_json, ("name", "title", "dataset", "targets", "evaluation_only", "data"))


def adapters(as_json: bool = JSON) -> None:
    """Policies: how missing leads are met."""
    from ecgbench import adapters as room
    from ecgbench.adapters._adapt import NATIVE

    found = [{"name": n, "summary": _summary(room.get(n)), "learns": hasattr(room.get(n), "fit")} for n in room.names()]
    found.append({"name": NATIVE, "summary": "Native: the network reads the measured leads only; models that can.", "learns": False})
    _show(found, as_json, ("name", "summary"))


def reports(as_json: bool = JSON) -> None:
    """Reports that `ecgbench report` draws."""
    from ecgbench import reports as room

    _show([{"name": n, "summary": _summary(room.get(n))} for n in room.names()], as_json, ("name", "summary"))


def _summary(module: Any) -> str:
    return (module.__doc__ or "").strip().splitlines()[0]


def _show(rows: Sequence[dict[str, Any]], as_json: bool, columns: Sequence[str]) -> None:
    if as_json:
        typer.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    cells = [[_word(r[c]) for c in columns] for r in rows]
    widths = [max(len(x) for x in (c, *(row[i] for row in cells))) for i, c in enumerate(columns)]
    for line in [list(columns), *cells]:
        typer.echo("  ".join(x.ljust(w) for x, w in zip(line, widths)).rstrip())


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
