"""`ecgbench doctor`: what this machine has, and whether every model runs on it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ecgbench.cli.options import DATA, MORE, PREPARED, add_commands, flag, option, words
from ecgbench.core.text import counted, line, shortened, size
from ecgbench.errors import BadSetting

Report = dict[str, Any]


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, doctor, panel=MORE)


def doctor(
    models: str = option(
        "Models to try, comma-separated; paths alone are tried beside all others.  (default: all)",
        "--models",
        "-m",
    ),
    data: Path = DATA,
    prepared: Path = PREPARED,
    out: Path = option("Folder of runs.", "--out", "-o", default=Path("runs")),
    timeout: float = option(
        "Seconds after which a model that gives no answer is ended.", default=120
    ),
    as_json: bool = flag("One JSON object and nothing else.", "--json"),
) -> None:
    """Look at versions, device, threads, memory, disk, data and weights, and try one forward pass
    of every model.

    The first line is the verdict, then comes what to do, then what was found. Exit 0 when all that
    is needed works, 1 when something is broken.
    """
    from ecgbench import models as room
    from ecgbench.check.machine import examine

    if not 1 <= timeout <= 3600:
        raise BadSetting(f"--timeout {timeout:g}: seconds, 1 to 3600; the default is 120")
    typed = words(models) or ()
    named = list(dict.fromkeys(map(room.resolve, typed)))
    tried = room.names() if all(word.endswith(".py") for word in typed) else named
    report = examine(
        tried,
        (data, prepared, out),
        timeout,
        lambda text: typer.echo(f"{line(text)} ...", err=True),
    )
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        page(report)
    if not report["ok"]:
        raise typer.Exit(1)


def page(report: Report) -> None:
    """Print for a person: the verdict, what to do, what was found."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    todo = [f"BROKEN: {text}" for text in report["problems"]]
    todo += [f"PARTIAL: {text}" for text in report["partial"]]
    verdict = f"{counted(len(todo), 'thing')} to do; then: ecgbench doctor"
    typer.echo(verdict if todo else "All is well: every model runs. Next: ecgbench run")
    for text in todo:  # each in one line: it ends with a command to be copied
        typer.echo(line(text))
    facts, tried = Table.grid(padding=(0, 2)), Table(box=None, pad_edge=False)
    for row in _facts(report):
        facts.add_row(*(Text(line(text)) for text in row))
    for name in ("Model", "result", "ms/window", "parameters", "weights"):
        tried.add_column(name, justify="right" if name in ("ms/window", "parameters") else "left")
    for m in report["models"]:
        tried.add_row(*(Text(shortened(text, 60)) for text in _model(m)))
    Console().print("", facts, "", tried, "")
    for text in _hints(report):
        typer.echo(line(text))


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    v, d, t, m = (report[name] for name in ("versions", "device", "threads", "memory"))
    yield "Versions", f"ecgbench {v['ecgbench']}, Python {v['python']}, {v['platform']}"
    yield "", ", ".join(f"{p['name']} {p['version'] or 'missing'}" for p in v["packages"])
    limit = "" if d["limit"] is None else f", cgroup limit {d['limit']:g}"
    yield "Device", f"{d['cpu']}, {d['cores']} cores, {d['usable']} usable{limit}"
    gpus = (f"{g['name']}, {size(g['memory'])}, {size(g['free'])} free" for g in d["gpus"])
    yield "", f"{'; '.join(gpus) or 'no CUDA device'}; compiler {d['compiler'] or 'none'}"
    yield "Threads", ", ".join(f"{name} {number or 'not set'}" for name, number in t.items())
    limit = "no cgroup limit" if m["limit"] is None else f"cgroup limit {size(m['limit'])}"
    yield "Memory", f"{size(m['total'])}, {size(m['available'])} available, {limit}"
    for row in report["disk"]:
        free = "NOT WRITABLE" if row["reason"] else f"{size(row['free'])} free"
        yield "Disk", f"{row['what']}: {free}, {row['path']}"
    for row in report["data"]:
        if row["state"] != "absent":
            records = f", {row['records']:,} records" if row["records"] else ""
            yield "Data", f"{row['name']}: {row['state']}{records}, {row['folder']}"


def _model(m: Report) -> tuple[str, ...]:
    if not m["ok"]:
        return m["name"], "BROKEN", "", "", m["error"]
    weights = "found" if any(w["here"] for w in m["weights"]) else "not here"
    weights = weights if m["weights"] else "none published"
    return m["name"], "ok", f"{m['ms']:.1f}", f"{m['parameters']:,}", weights


def _hints(report: Report) -> Iterator[str]:
    for m in report["models"]:
        for w in m.get("weights", []):
            if not w["here"] and not w["partial"]:
                which = "" if w["name"] == "released" else f" --weights {w['name']}"
                how = f"ecgbench models fetch {m['name']}{which} gets {w['file']} from {w['url']}"
                yield f"Weights of {m['name']}: {how}"
    for row in report["data"]:
        if row["state"] == "downloaded":
            yield f"Data: {row['name']} is not prepared; ecgbench run does it, or: {row['next']}"
    if absent := [row["name"] for row in report["data"] if row["state"] == "absent"]:
        how = "ecgbench data fetch NAME --data DIR gets the open ones, or says what to do"
        yield f"Data: not here: {', '.join(absent)}; {how}"
    yield from (f"Remark: {text}" for text in report["remarks"])
