"""`ecgbench tasks | adapters | metrics | reports | engines`: what is available, as a table or as
JSON; `ecgbench models` shows its table with these.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from ecgbench.cli.options import DATA, JSON, PREPARED, add_commands
from ecgbench.errors import EcgbenchError
from ecgbench.room import Room
from ecgbench.text import aligned, line


def add(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (tasks, adapters, metrics, reports, engines):
        add_commands(app, command)


def tasks(as_json: bool = JSON, data: Path = DATA, prepared: Path = PREPARED) -> None:
    """Tasks of every dataset, the number of targets, and whether the data are prepared."""
    from ecgbench import datasets as room
    from ecgbench.prepared.prepare import state

    rows: list[dict[str, Any]] = []
    for dataset, card in cards(room.ROOM):
        where = "broken"
        try:
            where = state(dataset, data, prepared)
        except Exception as error:  # a plug-in's index may fail in any way
            _complain(f"dataset {dataset!r}: {type(error).__name__}: {error}")
        rows += [
            {
                "name": task.name,
                "title": task.title,
                "dataset": dataset,
                "targets": len(task.labels),
                "evaluation_only": task.parent is not None,
                "prepared": where == "ready",
                "data": where,
                "synthetic": card.synthetic,
            }
            for task in card.tasks
        ]
    show(rows, as_json, ("name", "title", "dataset", "targets", "evaluation_only", "data"))


def adapters(as_json: bool = JSON) -> None:
    """Policies: how missing leads are filled."""
    from ecgbench import adapters as room
    from ecgbench.adapt import NATIVE

    rows = [
        {"name": n, "summary": _summary(module), "learns": hasattr(module, "fit")}
        for n, module in _modules(room.ROOM)
    ]
    native = "Native: the network reads the measured leads only; models that can."
    rows.append({"name": NATIVE, "summary": native, "learns": False})
    show(rows, as_json, ("name", "summary"))


def metrics(as_json: bool = JSON) -> None:
    """Metrics: how good predictions are, per label."""
    from ecgbench import metrics as room
    from ecgbench.cards import facts

    rows = [{"name": name, **facts(card)} for name, card in cards(room.ROOM)]
    rows = rows if as_json else [{**m, "range": "{:g} to {:g}".format(*m["range"])} for m in rows]
    show(rows, as_json, ("name", "title", "direction", "range", "summary"))


def reports(as_json: bool = JSON) -> None:
    """Reports that `ecgbench report` writes, and of what."""
    from ecgbench import reports as room

    rows = [
        {"name": name, "title": card.title, "reads": card.reads, "summary": card.summary}
        for name, card in cards(room.ROOM)
    ]
    show(rows, as_json, ("name", "reads", "summary"))


def engines(as_json: bool = JSON) -> None:
    """Engines: where `ecgbench run --engine` has models run."""
    from ecgbench.benchmark import engines as room

    rows = [{"name": n, "summary": module.CARD.summary} for n, module in _modules(room.ROOM)]
    show(rows, as_json, ("name", "summary"))


def _summary(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().partition("\n")[0]


def cards(room: Room) -> Iterator[tuple[str, Any]]:
    """Names and cards; a plug-in that cannot be had is left out, with a line on standard error."""
    return ((name, module.CARD) for name, module in _modules(room))


def _modules(room: Room) -> Iterator[tuple[str, ModuleType]]:
    """Names and modules; a plug-in that cannot be imported is left out, with a line on standard
    error.
    """
    for name in room.names():
        try:
            module = room.get(name)
        except EcgbenchError as error:
            _complain(str(error))
        else:
            yield name, module


def _complain(text: str) -> None:
    typer.echo(f"ecgbench: {line(text)}", err=True)


def show(rows: Sequence[dict[str, Any]], as_json: bool, columns: Sequence[str]) -> None:
    """Print rows as a table of some columns, or all of them as JSON."""
    if as_json:
        typer.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    typer.echo("\n".join(aligned([columns, *([_word(r[c]) for c in columns] for r in rows)])))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else line(str(value))
