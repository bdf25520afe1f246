"""`ecgbench doctor`: what this machine has, and whether every model runs on it."""

import json
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ecgbench.cli.options import DATA, MORE, PREPARED, add_commands, flag, option, words
from ecgbench.core.text import counted, line, shortened, size
from ecgbench.errors import BadSetting

WIDTH, MARGIN = 79, 11
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
    out: Path = option(
        "Folder of runs: two processes try whether its disk serves several at once.",
        "--out",
        "-o",
        default=Path("runs"),
    ),
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
    from ecgbench.check.examine import examine

    if not 1 <= timeout <= 3600:
        raise BadSetting(f"--timeout {timeout:g}: seconds, 1 to 3600; the default is 120")
    typed = words(models) or ()
    named = list(dict.fromkeys(map(room.resolve, typed)))
    tried = room.names() if all(word.endswith(".py") for word in typed) else named
    report = examine(
        tried, data, prepared, timeout, lambda text: typer.echo(f"{line(text)} ...", err=True), out
    )
    typer.echo(json.dumps(report, indent=1) if as_json else "\n".join(page(report)))
    if not report["ok"]:
        raise typer.Exit(1)


def page(report: Report) -> Iterator[str]:
    """Lines for a person: the verdict, what to do, what was found."""
    yield from _verdict(report)
    v, t, m = report["versions"], report["threads"], report["memory"]
    here = f"ecgbench {v['ecgbench']}, Python {v['python']}, {v['platform']}"
    yield from _lines("Versions", here)
    installed = (
        f"{p['name']} {p['version'] or 'missing'}{'' if p['ok'] else ' (!)'}" for p in v["packages"]
    )
    yield from _lines("", ", ".join(installed))
    yield from _lines("Device", _device(report["device"]))
    variables = ", ".join(f"{name} {t[name] or 'not set'}" for name in t if name != "torch")
    yield from _lines("Threads", f"torch {t['torch'] or '?'}; {variables}")
    limit = "no cgroup limit" if m["limit"] is None else f"cgroup limit {size(m['limit'])}"
    yield from _lines("Memory", f"{size(m['total'])}, {size(m['available'])} available, {limit}")
    for i, d in enumerate(report["disk"]):
        state = f"{size(d['free'])} free" if d["writable"] else "NOT WRITABLE"
        yield from _row("" if i else "Disk", f"{d['what']:10} {state:14}", d["path"])
    yield from _lines("", _file_system(report["file_system"]))
    if lacking := sum(report["views"].values()):
        text = f"{size(lacking)} for all models on prepared data, not kept yet"
        yield from _lines("Views", text)
    for i, d in enumerate(d for d in report["data"] if d["state"] != "absent"):
        of = f" of {d['published']:,}" if d["state"] == "partial" else ""
        records = f" ({d['records']:,}{of} records)" if d["records"] else ""
        state = f"{d['name'][:16]:10} {d['state']}{records}"
        yield from _row("" if i else "Data", state, d["folder"] or "")
    yield from _models(report["models"])
    yield from _hints(report)


def _verdict(report: Report) -> Iterator[str]:
    todo = [("BROKEN", text) for text in report["problems"]]
    todo += [("PARTIAL", text) for text in report["partial"]]
    if todo:
        yield f"{counted(len(todo), 'thing')} to do; then: ecgbench doctor"
    else:
        yield "All is well: every model runs. Next: ecgbench run"
    for word, text in todo:
        yield from _lines("", f"{word}: {text}", 0)
    yield ""


def _device(d: Report) -> str:
    cpu = f"{d['cpu']}, {d['cores']} cores, {d['usable']} usable"
    cpu += "" if d["limit"] is None else f", cgroup limit {d['limit']:g}"
    gpus = (f"{g['name']}, {size(g['memory'])}, {size(g['free'])} free" for g in d["gpus"])
    graphics = "; ".join(gpus) or "no CUDA device"
    return f"{cpu}; {graphics}; compiler {d['compiler'] or 'none'}"


def _file_system(tried: Report) -> str:
    named = f"runs lie on {tried['file_system']}"
    if tried["reason"]:
        return f"{named}: not tried with two processes ({tried['reason']})"
    kept = "one wins" if tried["exclusive"] and tried["whole"] else "BOTH WIN"
    locks = "locks work" if tried["locks"] else "locks do not work, and runs do without"
    other = "; other machines were not tried" if tried["shared"] else ""
    return f"{named}: of two processes that make one file or folder {kept}; {locks}{other}"


def _models(rows: list[Report]) -> Iterator[str]:
    yield ""
    yield f"{'Model':22} {'result':7} {'ms/window':>9}  {'parameters':>11}  weights"
    for r in rows:
        name = shortened(r["name"], 22, end=True)
        if not r["ok"]:
            yield f"{name:22} BROKEN  {shortened(r['error'], WIDTH - 31)}"
            continue
        yield f"{name:22} ok      {r['ms']:9.1f}  {r['parameters']:11,}  {_weights(r['weights'])}"


def _weights(published: list[Report]) -> str:
    if not published:
        return "none published"
    return "found" if any(w["here"] for w in published) else "not here"


def _fetched(name: str, weights: Report) -> str:
    from ecgbench.weights import shipped

    if shipped.comes_along(weights["url"]):
        return f"{weights['file']} cannot be used; {shipped.remedy(weights['url'])}"
    which = "" if weights["name"] == "released" else f" --weights {weights['name']}"
    return f"ecgbench models fetch {name}{which} gets {weights['file']} from {weights['url']}"


def _hints(report: Report) -> Iterator[str]:
    yield ""
    for r in report["models"]:
        for w in r.get("weights", []):
            if not w["here"] and not w["partial"]:
                yield from _lines("", f"Weights of {r['name']}: {_fetched(r['name'], w)}", 0)
    unprepared = "{name} is not prepared yet; `ecgbench run` does it, or: {next}"
    for d in report["data"]:
        if d["state"] == "downloaded":
            yield from _lines("", f"Data: {unprepared.format(**d)}", 0)
    if absent := [d for d in report["data"] if d["state"] == "absent"]:
        named = ", ".join(d["name"] for d in absent)
        how = "ecgbench data fetch NAME --data DIR gets the open ones"
        first = f"; {absent[0]['next']}" if len(absent) == 1 else ""
        yield from _lines("", f"Data: not here: {named}; {how}, or says what to do{first}", 0)
    for text in report["remarks"]:
        yield from _lines("", f"Remark: {text}", 0)


def _lines(head: str, text: str, margin: int = MARGIN) -> Iterator[str]:
    """Text beside a heading, in lines of at most WIDTH."""
    fill = textwrap.TextWrapper(WIDTH, f"{head:{margin}}", " " * (margin or 2))
    # an address or a path must stay whole, to be copied
    fill.break_long_words = fill.break_on_hyphens = False
    yield from fill.wrap(line(text))


def _row(head: str, text: str, path: str) -> Iterator[str]:
    start = f"{head:{MARGIN}}{text}"
    yield f"{start}  {shortened(_home(path), WIDTH - len(start) - 2, end=True)}".rstrip()


def _home(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path.removeprefix(home) if path.startswith(home + os.sep) else path
