"""`ecgbench list models | tasks | policies | perturbations | metrics | reports | engines | plans`:
what there is, as a table or as JSON.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from ecgbench.cards.checked import facts
from ecgbench.cli.options import DATA, JSON, PREPARED, argument
from ecgbench.core.registry import Room, plain
from ecgbench.core.text import aligned, line
from ecgbench.errors import EcgbenchError, UnknownName

Rows = list[dict[str, Any]]
_COLUMNS = {
    "models": "name title parameters fs seconds leads policy native weights",
    "tasks": "name title dataset targets paper records verified data",
    "policies": "name summary",
    "perturbations": "name level levels summary",
    "metrics": "name title direction range summary",
    "reports": "name reads summary",
    "engines": "name summary",
    "plans": "name summary",
}
"""What is listed -> the columns of its table; JSON has more."""


def list_(
    what: str = argument(
        "models, tasks, policies, perturbations, metrics, reports, engines, plans."
    ),
    as_json: bool = JSON,
    data: Path = DATA,
    prepared: Path = PREPARED,
) -> None:
    """List what there is of one kind: models, tasks, policies for missing leads, plans ...

    models: their input, whether they read any subset of leads, whether their weights are here
    (`ecgbench models fetch NAME` gets them). tasks: the number of labels here and in the paper,
    what the reader of their dataset was tested on, whether the data are prepared. plans: studies
    for `ecgbench run NAME`. engines: values of `ecgbench run --engine`. --json has more columns.
    """
    name = next((known for known in _COLUMNS if plain(known) == plain(what)), None)
    if name is None:
        raise UnknownName("list", what, _COLUMNS)
    show(_rows(name, data, prepared), as_json, _COLUMNS[name].split())


def _rows(name: str, data: Path | None, prepared: Path | None) -> Rows:
    from ecgbench import policies, suites
    from ecgbench.policies.hide import NATIVE

    if name == "models":
        return _models()
    if name == "tasks":
        return _tasks(data, prepared)
    if name == "plans":
        abouts = {plan: suites.about(plan).partition("\n\n")[0] for plan in suites.names()}
        return [{"name": plan, "summary": line(about)} for plan, about in abouts.items()]
    if name == "policies":
        texts = {one: module.__doc__ or "" for one, module in _of(policies.ROOM, policies.get)}
        first = {one: text.strip().partition("\n")[0] for one, text in texts.items()}
        first[NATIVE] = "Native: the network reads the measured leads only; models that can."
        return [{"name": one, "summary": text} for one, text in first.items()]
    package = "ecgbench.study.engines" if name == "engines" else f"ecgbench.{name}"
    room = import_module(package).ROOM
    return [{"name": one, **facts(card)} for one, card in _of(room, room.card)]


def _models() -> Rows:
    from ecgbench import models as room
    from ecgbench.weights import released

    rows = []
    for name, card in _of(room.ROOM, room.ROOM.card):
        contract = card.contracts[0]
        here = [w.name for w in card.weights if released.is_here(name, w)]
        without = "none released" if card.parameters else "none needed"
        where = ", ".join(here) or ("not here" if card.weights else without)
        row = {"name": name, **_fields(card, "title", "parameters", "native", "licence")}
        row |= _fields(contract, "fs", "seconds", "policy")
        row |= {"leads": len(contract.leads), "released": [w.name for w in card.weights]}
        rows.append({**row, "here": here, "weights": "here" if here == ["released"] else where})
    return rows


def _tasks(data: Path | None, prepared: Path | None) -> Rows:
    from ecgbench import datasets as room
    from ecgbench.data.prepare import state

    of_card = ("records", "country", "pretraining", "verified", "licence", "access", "synthetic")
    rows = []
    for dataset, card in _of(room.ROOM, room.ROOM.card):
        try:
            where: str = state(dataset, data, prepared)
        except Exception as error:  # a plug-in's index may fail in any way
            where = "broken"
            _complain(f"dataset {dataset!r}: {type(error).__name__}: {error}")
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


def _of(room: Room, read: Callable[[str], Any]) -> Iterator[tuple[str, Any]]:
    """Names, and what is read of each (its card, its module); a plug-in that cannot be imported is
    left out, with a line on standard error.
    """
    for name in room.names():
        try:
            yield name, read(name)
        except EcgbenchError as error:
            _complain(str(error))


def _complain(text: str) -> None:
    typer.echo(f"ecgbench: {line(text)}", err=True)


def show(rows: Sequence[dict[str, Any]], as_json: bool, columns: Sequence[str]) -> None:
    """Print rows as a table of some columns, or all of them as JSON."""
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
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
