"""What this machine offers a run: versions, processor, memory, disk, and whether each model runs on
it.
"""

import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import platformdirs
import psutil

from ecgbench import __version__, errors, models
from ecgbench.core import process, provenance
from ecgbench.core.machine import cpu, memory
from ecgbench.core.parallel import cores
from ecgbench.core.text import quoted
from ecgbench.data.source import where
from ecgbench.evaluate.device import gpus

Report = dict[str, Any]
IMPORT = 60.0
"""Seconds that importing torch may take on a busy machine."""
SCARCE = 10**9
"""Bytes of free disk or available memory below which there is a remark."""


def examine(
    names: Sequence[str],
    folders: tuple[Path | None, Path | None, Path],
    seconds: float,
    note: Callable[[str], None],
) -> Report:
    """versions, device, torch, memory, disk, models, and from them `problems`, `remarks`
    (sentences) and `ok`: there is no problem.

    names: models to try, each in a process of its own that is killed after `seconds`; `note` gets a
    line about each. folders: of data, of prepared copies, of runs.
    """
    note("importing torch")
    torch = attempt(("torch",), max(seconds, IMPORT))
    device = "cuda" if torch.get("gpus") else "cpu"
    data, prepared, runs = folders
    cache = Path(platformdirs.user_cache_dir("ecgbench"))
    report: Report = {
        "versions": {
            "ecgbench": __version__,
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
            "packages": provenance.versions(),
        },
        "device": {"cpu": cpu(), "cores": cores(), "driver_gpus": gpus()},
        "torch": torch,
        "memory": memory(),
        "disk": [
            _disk("runs", runs, "--out DIR"),
            _disk("prepared", where(prepared, data), "--prepared DIR"),
            _disk("cache", cache, "XDG_CACHE_HOME=DIR"),
            _disk("temporary", Path(tempfile.gettempdir()), "TMPDIR=DIR"),
        ],
        "models": [],
    }
    for i, name in enumerate(names if torch["ok"] else (), 1):
        note(f"one forward pass of {name} ({i} of {len(names)})")
        outcome = attempt(("forward", models.ROOM.argument(name), device), seconds)
        report["models"].append({"name": name, "device": device, **outcome})
    report |= {"problems": list(problems(report)), "remarks": list(remarks(report))}
    return {"ok": not report["problems"], **report}


def attempt(words: Sequence[str], seconds: float) -> Report:
    """What `torch` or `forward MODEL DEVICE` gives in a process of its own, with ok and error (why
    there is none).
    """
    try:
        found = process.ask(__name__, words, seconds)
    except process.DiedError as died:
        return {"ok": False, "error": str(died)}
    if "reason" not in found:
        return {"ok": True, "error": "", **found}
    kind = "" if hasattr(errors, found["error"]) else f"{found['error']}: "
    return {"ok": False, "error": f"{kind}{found['reason']}"}


def _disk(what: str, folder: Path, moved_by: str) -> Report:
    """Where things are written: what, path, free (bytes), reason ("" where it can be written), and
    the option or variable that moves it.
    """
    path = folder.absolute()
    near = next(p for p in (path, *path.parents) if p.exists())
    free, reason = None, ""
    try:
        free = psutil.disk_usage(str(near)).free
        with tempfile.TemporaryFile(dir=near) as attempt:
            attempt.write(bytes(4096))
    except OSError as error:
        reason = f"{near} is a file" if near.is_file() else f"{error.strerror or error} ({near})"
    return {"what": what, "path": str(path), "free": free, "reason": reason, "moved_by": moved_by}


def torch_here() -> Report:
    """version, threads, and the CUDA devices as name, memory and free (bytes)."""
    import torch

    found = []
    for i in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(i)
        found.append({"name": torch.cuda.get_device_name(i), "memory": total, "free": free})
    return {"version": str(torch.__version__), "threads": torch.get_num_threads(), "gpus": found}


def forward(name: str, device: str) -> Report:
    """One 12-lead window through a model with random weights; a first pass warms up.

    parameters, ms (of one window), dim, leads. EcgbenchError: what comes out is not one finite
    vector as long as the card says.
    """
    import numpy as np

    from ecgbench.core.seeds import rng
    from ecgbench.ecg.leads import ALL, LEADS
    from ecgbench.evaluate.encode import Encoder
    from ecgbench.evaluate.network import build
    from ecgbench.policies.hide import NATIVE, Policy

    name, started = models.resolve(name), 0.0
    built = build(name, "random", device)
    card, contract = built.card, built.card.contracts[0]
    # with all leads there is nothing to fill
    encoder = Encoder(built.encoder, contract, Policy(NATIVE, None), dim=card.dim)
    shape = len(LEADS), contract.samples
    signal = 0.3 * rng("doctor", contract.samples).standard_normal(shape, np.float32)
    for _ in range(2):
        started = time.perf_counter()
        encoder(signal, {ALL.bits: np.arange(1)})
    return {
        "ms": round(1000 * (time.perf_counter() - started), 2),
        "parameters": sum(p.numel() for p in built.module.parameters()),
        "dim": card.dim,
        "leads": len(contract.leads),
    }


def problems(report: Report) -> Iterator[str]:
    """What must be repaired before a run can work, and how."""
    torch = report["torch"]
    if not torch["ok"]:
        yield f"torch cannot be used ({torch['error']}): python -m pip install torch"
    for row in report["disk"]:
        if row["reason"] and row["what"] != "cache":
            yield f"{row['path']} cannot be written ({row['reason']}): {row['moved_by']} moves it"
    if report["device"]["driver_gpus"] and not torch.get("gpus") and torch["ok"]:
        yield "torch cannot use the GPU: install a CUDA build of torch, or run with --device cpu"
    for row in report["models"]:
        if not row["ok"]:
            more = f"ecgbench check model {quoted(models.ROOM.argument(row['name']))}"
            yield f"model {row['name']}: {row['error']}; leave it out with --models, or: {more}"


def remarks(report: Report) -> Iterator[str]:
    """What works, but slowly, and what will soon run out."""
    cores = report["device"]["cores"]
    if report["torch"].get("threads", 0) > cores:
        yield f"torch uses more threads than the {cores} processors: OMP_NUM_THREADS={cores}"
    for row in report["disk"]:
        if row["free"] is not None and row["free"] < SCARCE:
            yield f"less than 1 GB is free for {row['what']} ({row['path']}): {row['moved_by']}"
    here = report["memory"]
    if min(here["available"], here["limit"] or here["available"]) < SCARCE:
        yield "less than 1 GB of memory is available; large models will not fit"


def _work(words: list[str]) -> Report:
    return torch_here() if words[0] == "torch" else forward(*words[1:])


if __name__ == "__main__":
    process.answer(_work)
