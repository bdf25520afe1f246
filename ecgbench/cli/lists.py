"""`ecgbench list models | tasks | adapters | metrics | reports | engines | plans`: what there is,
as a table or as JSON.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from ecgbench.cli.options import DATA, JSON, MORE, PREPARED, add_commands, argument
from ecgbench.core.cards import facts
from ecgbench.core.registry import Room, plain
from ecgbench.core.text import aligned, line, printed_json
from ecgbench.errors import EcgbenchError, UnknownName

Rows = list[dict[str, Any]]


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, list_, panel=MORE)


def list_(
    what: str = argument("models, tasks, adapters, metrics, reports, engines or plans."),
    as_json: bool = JSON,
    data: Path = DATA,
    prepared: Path = PREPARED,
) -> None:
    """List what there is: models, tasks, ways to fill missing leads, ...

    models: how they are fed, whether they read any subset of leads, whether their weights are here
    (`ecgbench models fetch NAME` gets them). tasks: the number of targets beside the paper's, what
    the reader of their dataset was tried on, whether the data are prepared. plans: studies for
    `ecgbench run NAME`. engines: where `ecgbench run --engine` has models run. --json has more
    columns.
    """
    name = next((known for known in _LISTS if plain(known) == plain(what)), None)
    if name is None:
        raise UnknownName("list", what, _LISTS)
    rows, columns = _LISTS[name]
    show(_tasks(data, prepared) if name == "tasks" else rows(), as_json, columns)


def _models() -> Rows:
    from ecgbench import models as room
    from ecgbench.weights import released

    rows = []
    for name, card in _cards(room.ROOM):
        contract = card.contracts[0]
        here = [w.name for w in card.weights if released.is_here(name, w)]
        where = ", ".join(here) or ("not here" if card.weights else "none released")
        row = {"name": name, **_fields(card, "title", "parameters", "native", "licence")}
        row |= _fields(contract, "fs", "seconds", "policy")
        row |= {"leads": len(contract.leads), "released": [w.name for w in card.weights]}
        rows.append({**row, "here": here, "weights": "here" if here == ["released"] else where})
    return rows


def _tasks(data: Path | None = None, prepared: Path | None = None) -> Rows:
    from ecgbench import datasets as room

    of_card = ("records", "country", "pretraining", "verified", "licence", "access", "synthetic")
    rows = []
    for dataset, card in _cards(room.ROOM):
        where = _state(dataset, data, prepared)
        common = {"dataset": dataset, "leads": len(card.leads), "Hz": card.fs}
        common |= {"patients": card.patients if card.patients_known else None}
        common |= {**_fields(card, *of_card), "prepared": where == "ready", "data": where}
        for task in card.tasks:
            row = _fields(task, "name", "title", "paper", "rule")
            row |= {"targets": len(task.labels), "evaluation_only": task.parent is not None}
            rows.append({**row, **common})
    return rows


def _fields(card: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(card, name) for name in names}


def _state(dataset: str, data: Path | None, prepared: Path | None) -> str:
    from ecgbench.data.prepare import state

    try:
        return state(dataset, data, prepared)
    except Exception as error:  # a plug-in's index may fail in any way
        _complain(f"dataset {dataset!r}: {type(error).__name__}: {error}")
        return "broken"


def _adapters() -> Rows:
    from ecgbench import adapters as room
    from ecgbench.adapters.hide import NATIVE

    native = "Native: the network reads the measured leads only; models that can."
    summaries = {
        name: (module.__doc__ or "").strip().partition("\n")[0]
        for name, module in _modules(room.ROOM)
    }
    return [{"name": n, "summary": text} for n, text in {**summaries, NATIVE: native}.items()]


def _of_cards(package: str) -> Rows:
    room = import_module(package).ROOM
    return [{"name": name, **facts(card)} for name, card in _cards(room)]


def _plans() -> Rows:
    from ecgbench import suites

    return [
        {"name": name, "summary": line(suites.about(name).partition("\n\n")[0])}
        for name in suites.names()
    ]


_FED = ("parameters", "fs", "seconds", "leads", "policy", "native", "weights")
_KNOWN = ("dataset", "targets", "paper", "records", "verified", "data")
_LISTS: dict[str, tuple[Callable[[], Rows], tuple[str, ...]]] = {
    "models": (_models, ("name", "title", *_FED)),
    "tasks": (_tasks, ("name", "title", *_KNOWN)),
    "adapters": (_adapters, ("name", "summary")),
    "metrics": (
        partial(_of_cards, "ecgbench.metrics"),
        ("name", "title", "direction", "range", "summary"),
    ),
    "reports": (partial(_of_cards, "ecgbench.reports"), ("name", "reads", "summary")),
    "engines": (partial(_of_cards, "ecgbench.study.engines"), ("name", "summary")),
    "plans": (_plans, ("name", "summary")),
}
"""What is listed -> its rows, and the columns of its table."""


def _cards(room: Room) -> Iterator[tuple[str, Any]]:
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
        typer.echo(printed_json(rows))
        return
    typer.echo("\n".join(aligned([columns, *([_word(r[c]) for c in columns] for r in rows)])))


def _word(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_word, value))
    return f"{value:,}" if isinstance(value, int) else line(str(value))
