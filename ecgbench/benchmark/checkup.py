"""Everything `ecgbench doctor` looks at, gathered into one object of plain JSON types, and what of it is broken."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

from ecgbench import datasets, models
from ecgbench.benchmark import machine
from ecgbench.benchmark.device import gpus
from ecgbench.errors import BadRecord, EcgbenchError, MissingData
from ecgbench.prepared.prepare import find
from ecgbench.prepared.source import command, root_of, where

Note = Callable[[str], None]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
SCARCE = 10**9
"""Bytes of free disk or available memory below which a remark is made."""
GRACE = 5.0
"""Seconds that a trial may outlive its own alarm."""


def checkup(names: Sequence[str], data: Path | None, prepared: Path | None, seconds: float, note: Note) -> dict[str, Any]:
    """versions, device, threads, memory, disk, data, models, and from them `problems`, `remarks` (sentences) and `ok`.

    names: models to try, each in a process of its own that is ended after `seconds`; `note` hears what is being tried.
    """
    note("asking torch")
    torch = trial("cpu", [], seconds)
    graphics = torch.get("gpus", [])
    found: dict[str, Any] = {
        "versions": machine.versions(),
        "device": {**machine.processor(), "gpus": graphics, "driver_gpus": gpus(), "cuda": torch.get("cuda")},
        "threads": {"torch": torch.get("threads"), **{name: os.environ.get(name) for name in THREADS}},
        "torch": {"ok": torch["ok"], "version": torch.get("version"), "error": torch["error"]},
        "memory": machine.memory(),
        "disk": disks(data, prepared),
        "data": [dataset(name, data, prepared) for name in datasets.names()],
        "models": [],
    }
    for i, name in enumerate(names if torch["ok"] else (), 1):
        note(f"one forward pass of {name} ({i} of {len(names)})")
        paths = [str(path) for path in models.ROOM.paths() if path.stem == name]
        answer = trial("cuda" if graphics else "cpu", [name, *paths], seconds)
        found["models"].append({"name": name, "device": "cuda" if graphics else "cpu", **answer})
    found["problems"], found["remarks"] = problems(found), remarks(found)
    return {"ok": not found["problems"], **found}


def trial(device: str, words: Sequence[str], seconds: float) -> dict[str, Any]:
    """What `inference.trial` answers, or ok False and why there is no answer: its process was ended, or took too long."""
    line = [sys.executable, "-m", "ecgbench.inference.trial", device, str(int(seconds + GRACE)), *words]
    process = subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True, text=True
    )
    try:
        told, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"ok": False, "error": f"no answer within {seconds:g} s, so it was ended"}
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and whatever it started
        process.wait()
    try:
        return dict(json.loads(told.splitlines()[-1]))
    except (ValueError, IndexError):
        return {"ok": False, "error": _ended(process.returncode)}


def _ended(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    known = {s.value: s.name for s in signal.Signals}
    return f"its process was ended by {known.get(-code, f'signal {-code}')}" + (" (memory may have run out)" if code == -9 else "")


def disks(data: Path | None, prepared: Path | None) -> list[dict[str, Any]]:
    """Where things are written: what, path, free (bytes), writable, reason, and the option or variable that moves it."""
    cache = Path(platformdirs.user_cache_dir("ecgbench"))
    places = (
        ("runs", Path("runs"), "--out DIR"), ("prepared", where(prepared, data), "--prepared DIR"), ("cache", cache, "XDG_CACHE_HOME=DIR"),
        ("temporary", _temporary(), "TMPDIR=DIR"),
    )  # fmt: skip
    return [{**machine.disk(what, place), "moved_by": how} for what, place, how in places]


def _temporary() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        return Path(os.environ.get("TMPDIR", "/tmp"))


def dataset(name: str, data: Path | None, prepared: Path | None) -> dict[str, Any]:
    """name, title, state (ready, downloaded, absent or broken), folder, records (ready ones only), and what to do about it."""
    row: dict[str, Any] = {"name": name, "title": name, "state": "absent", "folder": None, "records": None, "next": ""}
    try:
        card = datasets.get(name).CARD
        row["title"] = card.title
        root = root_of(name, card, data)
        row |= {"state": "downloaded", "folder": None if root is None else str(root), "next": command(name, data)}
        ready = find(name, data, prepared)
        return row | {"state": "ready", "folder": str(ready.folder), "records": len(ready.index), "next": ""}
    except BadRecord as error:
        return row | {"state": "broken", "next": str(error)}
    except MissingData as error:
        return row if row["state"] == "downloaded" else row | {"next": str(error)}
    except EcgbenchError as error:
        return row | {"state": "broken", "next": str(error)}
    except Exception as error:  # a stranger's index may fail in any way
        return row | {"state": "broken", "next": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def problems(found: dict[str, Any]) -> list[str]:
    """What must be mended before a run can work, with the way to mend it."""
    made = [_unmet(p) for p in found["versions"]["packages"] if not p["ok"]]
    if not found["torch"]["ok"]:
        made.append(f"torch cannot be used ({found['torch']['error']}): install it, python -m pip install torch; no model was tried")
    for row in found["disk"]:
        if not row["writable"] and row["what"] != "cache":
            made.append(f"{row['path']} cannot be written ({row['reason']}): mend it, or choose another place with {row['moved_by']}")
    made += [f"dataset {row['name']}: {row['next']}" for row in found["data"] if row["state"] == "broken"]
    device = found["device"]
    if device["driver_gpus"] and not device["gpus"] and found["torch"]["ok"]:
        made.append("the driver shows a GPU that torch cannot use: install a CUDA build of torch, or run with --device cpu")
    for row in found["models"]:
        if not row["ok"]:
            made.append(f"model {row['name']}: {row['error']}; leave it out with --models, or see: ecgbench check model {row['name']}")
        made += [f"weights of {row['name']}: {w['problem']}" for w in row.get("weights", []) if w["problem"]]
    return made


def _unmet(package: dict[str, Any]) -> str:
    there = "is not installed" if package["version"] is None else f"is {package['version']}, needed is {package['wanted']}"
    return f"{package['name']} {there}: python -m pip install '{package['name']}{package['wanted']}'"


def remarks(found: dict[str, Any]) -> list[str]:
    """What works, but slower or not for long."""
    device, threads, made = found["device"], found["threads"]["torch"], []
    allowed = min(device["usable"] or 1, device["limit"] or float("inf"))
    if threads and threads > max(1, allowed):
        made.append(f"torch uses {threads} threads on {allowed:g} processors, which slows it: OMP_NUM_THREADS={max(1, int(allowed))}")
    if device["compiler"] is None:
        made.append("no C++ compiler is found (g++, clang++ or CXX): LAEF runs uncompiled, somewhat slower")
    for row in found["disk"]:
        if row["writable"] and row["free"] is not None and row["free"] < SCARCE:
            made.append(f"less than 1 GB is free for {row['what']} ({row['path']}): {row['moved_by']}")
    available = found["memory"]["available"]
    if available is not None and min(available, found["memory"]["limit"] or available) < SCARCE:
        made.append("less than 1 GB of memory is available; large models will not fit")
    return made
