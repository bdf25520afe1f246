"""Everything `ecgbench doctor` looks at, gathered into one object of plain JSON types, and what of
it is broken.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

from ecgbench import datasets, errors, models
from ecgbench.check import file_system, machine
from ecgbench.core.process import DiedError, ask
from ecgbench.core.text import enumerated, quoted, shortened, size
from ecgbench.data.prepare import held
from ecgbench.data.source import command, root_of, where
from ecgbench.data.views import missing_bytes
from ecgbench.ecg.preprocess import Preparation
from ecgbench.errors import EcgbenchError, MissingData
from ecgbench.evaluate.device import gpus
from ecgbench.weights.released import fetching

Report = dict[str, Any]
RUNS = Path("runs")
"""Where runs are written unless --out says otherwise."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
SCARCE = 10**9
"""Bytes of free disk or available memory below which a remark is made."""


def examine(
    names: Sequence[str],
    data: Path | None,
    prepared: Path | None,
    seconds: float,
    note: Callable[[str], None],
    runs: Path = RUNS,
) -> Report:
    """versions, device, threads, memory, disk, data, models, views, and from them `problems`,
    `partial`, `remarks` (sentences) and `ok`: there is no problem.

    names: models to try, each in a process of its own that is killed after `seconds`; `note` gets a
    line about each attempt. runs: the folder of runs, whose disk is tried by two processes.
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
        "disk": disks(data, prepared, runs),
        "file_system": file_system.tried(Path(os.path.abspath(runs.expanduser()))),
        "data": [dataset(name, data, prepared) for name in datasets.names()],
        "models": [],
    }
    device = "cuda" if graphics else "cpu"
    for i, name in enumerate(names if torch["ok"] else (), 1):
        note(f"one forward pass of {name} ({i} of {len(names)})")
        outcome = _attempt([device, models.ROOM.argument(name)], seconds)
        report["models"].append({"name": name, "device": device, **outcome})
    report["views"] = lacking_views(report, data, prepared)
    for what in (problems, partial, remarks):
        report[what.__name__] = list(what(report))
    return {"ok": not report["problems"], **report}


def _attempt(arguments: Sequence[str], seconds: float) -> dict[str, Any]:
    """What `attempt` answers and ok, or ok False and error: why there is no answer."""
    try:
        result = ask("ecgbench.check.attempt", arguments, seconds)
    except DiedError as died:
        return {"ok": False, "error": str(died)}
    if "error" not in result:
        return {"ok": True, "error": "", **result}
    kind = "" if hasattr(errors, result["error"]) else f"{result['error']}: "
    return {"ok": False, "error": f"{kind}{result['reason']}".removesuffix(": ")}


def disks(data: Path | None, prepared: Path | None, runs: Path = RUNS) -> list[dict[str, Any]]:
    """Where things are written: what, path, free (bytes), writable, reason, and the option or
    variable that moves it.
    """
    temporary = os.environ.get("TMPDIR", "/tmp")
    with suppress(OSError):
        temporary = tempfile.gettempdir()
    folders = (
        ("runs", runs, "--out DIR"),
        ("prepared", where(prepared, data), "--prepared DIR"),
        ("cache", Path(platformdirs.user_cache_dir("ecgbench")), "XDG_CACHE_HOME=DIR"),
        ("temporary", Path(temporary), "TMPDIR=DIR"),
    )
    return [{**machine.disk(what, folder), "moved_by": how} for what, folder, how in folders]


def dataset(name: str, data: Path | None, prepared: Path | None) -> dict[str, Any]:
    """name, title, state (ready, partial, downloaded, absent or broken), folder, records (prepared
    ones), published (records of this copy), and what to do about it.
    """
    row: dict[str, Any] = {"name": name, "title": name, "state": "absent"}
    row |= {"folder": None, "records": None, "published": None, "next": ""}
    try:
        card = datasets.get(name).CARD
        row["title"] = card.title
        root = root_of(name, card, data)
        folder = None if root is None else str(root)
        row |= {"state": "downloaded", "folder": folder, "next": command(name, data)}
        copy = held(name, data, prepared)
        row |= {"records": len(copy.index), "published": len(copy.published)}
        row |= {"state": "ready" if copy.whole else "partial", "folder": str(copy.folder)}
    except MissingData as error:
        row["next"] = row["next"] or str(error)
    except EcgbenchError as error:
        row |= {"state": "broken", "next": str(error)}
    except Exception as error:  # a plug-in's index may fail in any way
        told = f"{type(error).__name__}: {shortened(str(error), 300)}"
        row |= {"state": "broken", "next": told}
    return row


def lacking_views(report: Report, data: Path | None, prepared: Path | None) -> dict[str, int]:
    """Prepared dataset -> bytes of views for all models that run, as far as they are not kept."""
    views = {m["view"]["folder"]: m["view"] for m in report["models"] if m.get("view")}
    lacking = {}
    for row in report["data"]:
        if row["state"] in ("ready", "partial"):
            copy = held(row["name"], data, prepared)
            lacking[row["name"]] = sum(
                missing_bytes(
                    copy, Preparation(fs=v["fs"], filter=None, resampler=v["resampler"]), folder
                )
                for folder, v in views.items()
            )
    return lacking


def problems(report: Report) -> Iterator[str]:
    """What must be repaired before a run can work, and how."""
    torch, device = report["torch"], report["device"]
    for p in report["versions"]["packages"]:
        if not p["ok"]:
            state = (
                f"is {p['version']}, needed is {p['wanted']}"
                if p["version"]
                else "is not installed"
            )
            yield f"{p['name']} {state}: python -m pip install '{p['name']}{p['wanted']}'"
    if not torch["ok"]:
        yield (
            f"torch cannot be used ({torch['error']}): install it, python -m pip install torch; "
            f"no model was tried"
        )
    for row in report["disk"]:
        if not row["writable"] and row["what"] != "cache":
            yield (
                f"{row['path']} cannot be written ({row['reason']}): repair it, or choose another "
                f"place with {row['moved_by']}"
            )
    tried, runs = report["file_system"], report["disk"][0]
    if False in (tried["exclusive"], tried["whole"]):
        yield (
            f"{runs['path']} lies on a file system ({tried['file_system']}) that lets two "
            f"processes make one file or folder: results there may be lost; choose another disk "
            f"with {runs['moved_by']}"
        )
    for row in report["data"]:
        if row["state"] == "broken":
            yield f"dataset {row['name']}: {row['next']}"
    if device["driver_gpus"] and not device["gpus"] and torch["ok"]:
        yield (
            "the driver shows a GPU that torch cannot use: install a CUDA build of torch, or run "
            "with --device cpu"
        )
    for row in report["models"]:
        if not row["ok"]:
            yield (
                f"model {row['name']}: {row['error']}; leave it out with --models, or see: "
                f"ecgbench check model {quoted(models.ROOM.argument(row['name']))}"
            )
        for weights in row.get("weights", ()):
            if weights["problem"]:
                yield f"weights of {row['name']}: {weights['problem']}"


def partial(report: Report) -> Iterator[str]:
    """What is here only in part, and what gets the rest."""
    for row in report["data"]:
        if row["state"] == "partial":
            yield (
                f"data of {row['name']}: {row['records']:,} of {row['published']:,} records are "
                f"prepared, those that runs with --limit took; the rest: {row['next']}"
            )
    for row in report["models"]:
        # several weights of a model share the folder of an interrupted download
        for weights in [w for w in row.get("weights", ()) if w["partial"]][:1]:
            yield (
                f"weights of {row['name']}: of {weights['file']} only a part is here; run: "
                f"{fetching(weights['name'], row['name'])}"
            )


def remarks(report: Report) -> Iterator[str]:
    """What works, but slower or not for long."""
    device, memory, threads = report["device"], report["memory"], report["threads"]["torch"]
    allowed = min(device["usable"] or 1, device["limit"] or float("inf"))
    if threads and threads > max(1, allowed):
        yield (
            f"torch uses {threads} threads on {allowed:g} processors, which slows it: "
            f"OMP_NUM_THREADS={max(1, int(allowed))}"
        )
    if device["compiler"] is None:
        yield (
            "no C++ compiler is found (g++, clang++ or CXX): LAEF runs uncompiled, somewhat slower"
        )
    for row in report["disk"]:
        if row["writable"] and row["free"] is not None and row["free"] < SCARCE:
            yield f"less than 1 GB is free for {row['what']} ({row['path']}): {row['moved_by']}"
    tried, runs = report["file_system"], report["disk"][0]
    if tried["locks"] is False:
        yield (
            f"locks (flock) do not work on the disk of {runs['path']} ({tried['file_system']}): a "
            f"run does without, and may wait 2 minutes for one that was killed on another machine"
        )
    if runs["writable"] and tried["reason"]:
        yield f"the disk of {runs['path']} could not be tried: {tried['reason']}"
    views = {name: count for name, count in report["views"].items() if count}
    place = next(row for row in report["disk"] if row["what"] == "prepared")
    if place["free"] is not None and sum(views.values()) > place["free"]:
        yield (
            f"views of {enumerated(list(views))} for all models take {size(sum(views.values()))}, "
            f"and {place['path']} has {size(place['free'])} free: add --views stream to ecgbench "
            f"run, free some with ecgbench data prune, or move them with --prepared DIR"
        )
    if min(memory["available"], memory["limit"] or memory["available"]) < SCARCE:
        yield "less than 1 GB of memory is available; large models will not fit"
