"""`ecgbench list models | tasks | adapters | metrics | reports | engines | plans`: what there is,
as a table or as JSON.
"""

import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from ecgbench.cli.options import DATA, JSON, MORE, PREPARED, add_commands, flag
from ecgbench.core.registry import Room
from ecgbench.core.text import aligned, line, printed_json
from ecgbench.errors import EcgbenchError


def add(app: typer.Typer) -> None:
    """Add the group to the program."""
    group = typer.Typer(
        help="What there is: models, tasks, ways to fill missing leads, ...", no_args_is_help=True
    )
    add_commands(group, models, tasks, adapters, metrics, reports, engines, plans)
    app.add_typer(group, name="list", rich_help_panel=MORE)


def models(as_json: bool = JSON) -> None:
    """Models: how they are fed, whether they read any subset of leads, whether their
    weights are here.

    `ecgbench models fetch NAME` gets the weights that a model's authors have published.
    """
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


def _where(published: bool, here: list[str]) -> str:
    if not published:
        return "none released"
    return "not here" if not here else "here" if here == ["released"] else ", ".join(here)


def tasks(
    as_json: bool = JSON,
    data: Path = DATA,
    prepared: Path = PREPARED,
    wide: bool = flag("Also leads, patients, rate, country, licence, and who chose the labels."),
    contamination: bool = flag("Which models have met the data of each task in pre-training."),
) -> None:
    """Tasks of every dataset, the number of targets beside the paper's, what its reader was tried
    on, and whether the data are prepared.

    A task marked as evaluation only is scored by the fit of another task of the same dataset.
    """
    from ecgbench import datasets as room

    if contamination:
        show(_met(), as_json, ("name", "dataset", "met", "in part", "not known"))
        if not as_json:
            typer.echo(
                "By what is published. Whether two datasets at hand share recordings: ecgbench "
                "data duplicates A B"
            )
        return
    rows: list[dict[str, Any]] = []
    for dataset, card in cards(room.ROOM):
        where = _state(dataset, data, prepared)
        rows += [
            {
                "name": task.name,
                "title": task.title,
                "dataset": dataset,
                "leads": len(card.leads),
                "targets": len(task.labels),
                "paper": task.paper,
                "records": card.records,
                "patients": card.patients if card.patients_known else None,
                "Hz": card.fs,
                "country": card.country,
                "pretraining": card.pretraining,
                "evaluation_only": task.parent is not None,
                "rule": task.rule,
                "verified": card.verified,
                "licence": card.licence,
                "access": card.access,
                "prepared": where == "ready",
                "data": where,
                "synthetic": card.synthetic,
            }
            for task in card.tasks
        ]
    few = ("name", "title", "dataset", "targets", "paper", "records", "verified", "data")
    hidden = ("prepared", "access", "synthetic")
    every = tuple(k for k in rows[0] if k not in hidden)
    show(rows, as_json, every if wide else few)


def _state(dataset: str, data: Path, prepared: Path) -> str:
    from ecgbench.data.prepare import state

    try:
        return state(dataset, data, prepared)
    except Exception as error:  # a plug-in's index may fail in any way
        _complain(f"dataset {dataset!r}: {type(error).__name__}: {error}")
        return "broken"


def _met() -> list[dict[str, Any]]:
    """For each task the models that have met its data, by how much of it."""
    from ecgbench import datasets as room
    from ecgbench import models
    from ecgbench.data import contamination as corpora

    networks = [(n, c) for n, c in cards(models.ROOM) if c.parameters]
    rows = []
    for dataset, card in cards(room.ROOM):
        met: dict[str, list[str]] = {}
        for name, model in networks:
            how, _ = corpora.met(model.corpora, dataset, card.title)
            met.setdefault(how, []).append(name)
        rows += [
            {
                "name": task.name,
                "dataset": dataset,
                "met": " ".join(met.get("equal", []) + met.get("contains", [])) or "-",
                "in part": " ".join(met.get("part", []) + met.get("overlaps", [])) or "-",
                "not known": " ".join(met.get("unknown", [])) or "-",
            }
            for task in card.tasks
        ]
    return rows


def adapters(as_json: bool = JSON) -> None:
    """Policies: how missing leads are filled."""
    from ecgbench import adapters as room
    from ecgbench.adapters.hide import NATIVE

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
    from ecgbench.core.cards import facts

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
    from ecgbench.study import engines as room

    rows = [{"name": n, "summary": module.CARD.summary} for n, module in _modules(room.ROOM)]
    show(rows, as_json, ("name", "summary"))


def plans(as_json: bool = JSON) -> None:
    """Studies that come with ecgbench: `ecgbench run NAME`."""
    from ecgbench import suites

    rows = [
        {"name": name, "summary": line(suites.about(name).partition("\n\n")[0])}
        for name in suites.names()
    ]
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
        typer.echo(printed_json(rows))
        return
    typer.echo("\n".join(aligned([columns, *([_word(r[c]) for c in columns] for r in rows)])))


def _word(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else line(str(value))
