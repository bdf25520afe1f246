"""`ecgbench doctor`: what this machine has, and whether every model runs on it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ecgbench.cli.lists import show
from ecgbench.cli.options import DATA, PREPARED, flag, option, words
from ecgbench.core.text import aligned, counted, line, shortened, size


def doctor(
    models: str = option(
        "Models; with paths alone, also all others.  (default: all)", "--models", "-m"
    ),
    data: Path = DATA,
    prepared: Path = PREPARED,
    out: Path = option("Folder of runs.", "--out", "-o", default=Path("runs")),
    timeout: float = option(
        "Seconds after which a model is stopped.", default=120, min=1, max=3600
    ),
    as_json: bool = flag("One JSON object and nothing else.", "--json"),
) -> None:
    """Check versions, device, memory and disk, and run one forward pass of every model.

    The verdict comes first, then problems and their remedies, then the details. Exit 0 when
    everything works, 1 when something is broken. Which data and weights are here: ecgbench list
    tasks, ecgbench list models.
    """
    from ecgbench import models as room
    from ecgbench.check.machine import examine

    typed = words(models) or ()
    named = list(dict.fromkeys(map(room.resolve, typed)))
    tried = room.names() if all(word.endswith(".py") for word in typed) else named
    folders = data, prepared, out
    report = examine(tried, folders, timeout, lambda text: typer.echo(f"{text} ...", err=True))
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        page(report)
    if not report["ok"]:
        raise typer.Exit(1)


def page(report: dict[str, Any]) -> None:
    """Print for a person: the verdict, what to do, what was found."""
    todo = report["problems"]
    verdict = f"{counted(len(todo), 'thing')} to repair; then: ecgbench doctor"
    typer.echo(verdict if todo else "All is well: every model runs. Next: ecgbench run")
    for text in todo:
        typer.echo(f"BROKEN: {line(text)}")
    typer.echo("\n".join(["", *aligned(list(_facts(report))), ""]))
    columns = ("name", "ok", "ms", "parameters", "error")
    models = [{**dict.fromkeys(columns), **model} for model in report["models"]]
    show([{**m, "error": shortened(m["error"], 60)} for m in models], False, columns)
    for text in report["remarks"]:
        typer.echo(f"Remark: {line(text)}")


def _facts(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    v, device, torch, memory = (report[name] for name in ("versions", "device", "torch", "memory"))
    yield "Versions", f"ecgbench {v['ecgbench']}, Python {v['python']}, {v['platform']}"
    yield "", ", ".join(f"{name} {version}" for name, version in v["packages"].items())
    yield "Device", f"{device['cpu']}, {device['cores']} cores, {torch.get('threads')} threads"
    for gpu in torch.get("gpus", ()):
        yield "", f"{gpu['name']}, {size(gpu['memory'])}, {size(gpu['free'])} free"
    limit = f", limit {size(memory['limit'])}" if memory["limit"] else ""
    yield "Memory", f"{size(memory['total'])}, {size(memory['available'])} available{limit}"
    for row in report["disk"]:
        free = "NOT WRITABLE" if row["reason"] else f"{size(row['free'])} free"
        yield "Disk", f"{row['what']}: {free}, {row['path']}"
