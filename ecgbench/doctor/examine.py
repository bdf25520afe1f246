"""Everything `ecgbench doctor` looks at, gathered into one object of plain JSON types, and what of
it is broken.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

from ecgbench import datasets, errors, models
from ecgbench.benchmark.device import gpus
from ecgbench.doctor import machine
from ecgbench.errors import BadRecord, EcgbenchError, MissingData
from ecgbench.prepared.prepare import find
from ecgbench.prepared.source import command, root_of, where
from ecgbench.processes import DiedError, ask
from ecgbench.text import shortened

Report = dict[str, Any]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
SCARCE = 10**9
"""Bytes of free disk or available memory below which a remark is made."""


def examine(
    names: Sequence[str],
    data: Path | None,
    prepared: Path | None,
    seconds: float,
    note: Callable[[str], None],
) -> Report:
    """versions, device, threads, memory, disk, data, models, and from them `problems`, `remarks`
    (sentences) and `ok`.

    names: models to try, each in a process of its own that is killed after `seconds`; `note` gets a
    line about each attempt.
    """
    note("looking at torch")
    torch = _attempt(["cpu"], seconds)
    graphics = torch.get("gpus", [])
    report: Report = {
        "versions": machine.versions(),
        "device": {
            **machine.processor(),
            "gpus": graphics,
            "driver_gpus": gpus(),
            "cuda": torch.get("cuda"),
        },
        "threads": {
            "torch": torch.get("threads"),
            **{name: os.environ.get(name) for name in THREADS},
        },
        "torch": {"ok": torch["ok"], "version": torch.get("version"), "error": torch["error"]},
        "memory": machine.memory(),
        "disk": disks(data, prepared),
        "data": [dataset(name, data, prepared) for name in datasets.names()],
        "models": [],
    }
    device, paths = (
        "cuda" if graphics else "cpu",
        {path.stem: str(path) for path in models.ROOM.paths()},
    )
    for i, name in enumerate(names if torch["ok"] else (), 1):
        note(f"one forward pass of {name} ({i} of {len(names)})")
        outcome = _attempt([device, paths.get(name, name)], seconds)
        report["models"].append({"name": name, "device": device, **outcome})
    report["problems"], report["remarks"] = problems(report), remarks(report)
    return {"ok": not report["problems"], **report}


def _attempt(arguments: Sequence[str], seconds: float) -> dict[str, Any]:
    """What `attempt` answers and ok, or ok False and error: why there is no answer."""
    try:
        result = ask("ecgbench.doctor.attempt", arguments, seconds)
    except DiedError as died:
        return {"ok": False, "error": str(died)}
    if "error" not in result:
        return {"ok": True, "error": "", **result}
    kind = "" if hasattr(errors, result["error"]) else f"{result['error']}: "
    return {"ok": False, "error": f"{kind}{result['reason']}".removesuffix(": ")}


def disks(data: Path | None, prepared: Path | None) -> list[dict[str, Any]]:
    """Where things are written: what, path, free (bytes), writable, reason, and the option or
    variable that moves it.
    """
    temporary = os.environ.get("TMPDIR", "/tmp")
    with suppress(OSError):
        temporary = tempfile.gettempdir()
    folders = (
        ("runs", Path("runs"), "--out DIR"),
        ("prepared", where(prepared, data), "--prepared DIR"),
        ("cache", Path(platformdirs.user_cache_dir("ecgbench")), "XDG_CACHE_HOME=DIR"),
        ("temporary", Path(temporary), "TMPDIR=DIR"),
    )
    return [{**machine.disk(what, folder), "moved_by": how} for what, folder, how in folders]


def dataset(name: str, data: Path | None, prepared: Path | None) -> dict[str, Any]:
    """name, title, state (ready, downloaded, absent or broken), folder, records (ready ones only),
    and what to do about it.
    """
    row: dict[str, Any] = {
        "name": name,
        "title": name,
        "state": "absent",
        "folder": None,
        "records": None,
        "next": "",
    }
    try:
        card = datasets.get(name).CARD
        row["title"] = card.title
        root = root_of(name, card, data)
        row |= {
            "state": "downloaded",
            "folder": None if root is None else str(root),
            "next": command(name, data),
        }
        ready = find(name, data, prepared)
        return row | {
            "state": "ready",
            "folder": str(ready.folder),
            "records": len(ready.index),
            "next": "",
        }
    except MissingData as error:
        return row if row["state"] == "downloaded" else row | {"next": str(error)}
    except (BadRecord, EcgbenchError) as error:
        return row | {"state": "broken", "next": str(error)}
    except Exception as error:  # a plug-in's index may fail in any way
        return row | {
            "state": "broken",
            "next": f"{type(error).__name__}: {shortened(str(error), 300)}",
        }


def problems(report: Report) -> list[str]:
    """What must be repaired before a run can work, and how."""
    lines = [_unmet(p) for p in report["versions"]["packages"] if not p["ok"]]
    torch, device = report["torch"], report["device"]
    if not torch["ok"]:
        lines.append(
            f"torch cannot be used ({torch['error']}): install it, python -m pip install torch; "
            f"no model was tried"
        )
    for row in report["disk"]:
        if not row["writable"] and row["what"] != "cache":
            lines.append(
                f"{row['path']} cannot be written ({row['reason']}): repair it, or choose another "
                f"place with {row['moved_by']}"
            )
    lines += [
        f"dataset {row['name']}: {row['next']}"
        for row in report["data"]
        if row["state"] == "broken"
    ]
    if device["driver_gpus"] and not device["gpus"] and torch["ok"]:
        lines.append(
            "the driver shows a GPU that torch cannot use: install a CUDA build of torch, or run "
            "with --device cpu"
        )
    for row in report["models"]:
        if not row["ok"]:
            lines.append(
                f"model {row['name']}: {row['error']}; leave it out with --models, or see: "
                f"ecgbench check model {row['name']}"
            )
        lines += [
            f"weights of {row['name']}: {w['problem']}"
            for w in row.get("weights", [])
            if w["problem"]
        ]
    return lines


def _unmet(package: dict[str, Any]) -> str:
    state = (
        "is not installed"
        if package["version"] is None
        else f"is {package['version']}, needed is {package['wanted']}"
    )
    return (
        f"{package['name']} {state}: python -m pip install '{package['name']}{package['wanted']}'"
    )


def remarks(report: Report) -> list[str]:
    """What works, but slower or not for long."""
    device, memory, threads, lines = (
        report["device"],
        report["memory"],
        report["threads"]["torch"],
        [],
    )
    allowed = min(device["usable"] or 1, device["limit"] or float("inf"))
    if threads and threads > max(1, allowed):
        lines.append(
            f"torch uses {threads} threads on {allowed:g} processors, which slows it: "
            f"OMP_NUM_THREADS={max(1, int(allowed))}"
        )
    if device["compiler"] is None:
        lines.append(
            "no C++ compiler is found (g++, clang++ or CXX): LAEF runs uncompiled, somewhat slower"
        )
    for row in report["disk"]:
        if row["writable"] and row["free"] is not None and row["free"] < SCARCE:
            lines.append(
                f"less than 1 GB is free for {row['what']} ({row['path']}): {row['moved_by']}"
            )
    if min(memory["available"], memory["limit"] or memory["available"]) < SCARCE:
        lines.append("less than 1 GB of memory is available; large models will not fit")
    return lines
