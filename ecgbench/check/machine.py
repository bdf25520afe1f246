"""What this machine offers a run: versions, processor, memory, disk. Found out without torch."""

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import psutil
from packaging.requirements import Requirement

from ecgbench import __version__

DISTRIBUTION = "ecgbench-leads"
NO_LIMIT = 2**50
"""Bytes above which a cgroup's limit means none (version 1 writes a number near 2^63)."""


def versions() -> dict[str, Any]:
    """ecgbench, python, platform and `packages`."""
    return {
        "ecgbench": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": packages(),
    }


def packages() -> list[dict[str, Any]]:
    """Direct dependencies: name, version (None where it is not installed), wanted (`>=2.6`), ok."""
    try:
        needed = [Requirement(text) for text in requires(DISTRIBUTION) or []]
    except PackageNotFoundError:
        needed = [Requirement(f"{DISTRIBUTION}=={__version__}")]
    return [_package(r) for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]


def _package(needed: Requirement) -> dict[str, Any]:
    installed = None
    with suppress(PackageNotFoundError):
        installed = version(needed.name)
    ok = installed is not None and needed.specifier.contains(installed, prereleases=True)
    return {"name": needed.name, "version": installed, "wanted": str(needed.specifier), "ok": ok}


def processor(system: Path = Path("/")) -> dict[str, Any]:
    """cpu (its name), cores, usable (after affinity), limit (processors that the cgroup allows,
    None: all), the C++ compiler.
    """
    cores = psutil.cpu_count()
    # as torch.compile looks
    compilers = (shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++") if name)
    return {
        "cpu": cpu(),
        "cores": cores,
        "usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores,
        "limit": cpu_limit(system),
        "compiler": next(filter(None, compilers), None),
    }


def cpu() -> str:
    """The name of the processor."""
    name = re.search(r"model name\s*:\s*(.+)", _read(Path("/proc/cpuinfo")))
    return name[1].strip() if name else platform.processor() or platform.machine()


def memory(system: Path = Path("/")) -> dict[str, int | None]:
    """total, available and the cgroup's limit (None where there is none), in bytes."""
    texts = _cgroup(system, "memory", "memory.limit_in_bytes", "memory.max")
    limits = (int(n) for n in texts if n.isdigit())
    machine = psutil.virtual_memory()
    limit = min((n for n in limits if n < NO_LIMIT), default=None)
    return {"total": machine.total, "available": machine.available, "limit": limit}


def cpu_limit(system: Path = Path("/")) -> float | None:
    """How many processors' worth of time the cgroup allows; None: no limit."""
    pairs = [text.split() for text in _cgroup(system, "cpu", "", "cpu.max")]
    old = (_cgroup(system, "cpu", f"cpu.cfs_{word}_us", "") for word in ("quota", "period"))
    pairs += map(list, zip(*old))
    shares = (int(quota) / int(period) for quota, period in pairs if quota.isdigit())
    return min(shares, default=None)


def _cgroup(system: Path, controller: str, first: str, second: str) -> Iterator[str]:
    """The text of a limit in this process's cgroup and in those around it; `first`, `second`: file
    names of versions 1 and 2.
    """
    for line in _read(system / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base, file = system / "sys/fs/cgroup", second
        if controllers:
            base, file = base / controller, first
        here = base / path.lstrip("/")
        for folder in [here, *here.parents] if file else []:
            if folder.is_relative_to(base) and (text := _read(folder / file).strip()):
                yield text


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def disk(what: str, path: Path) -> dict[str, Any]:
    """what, path, free (bytes), writable and the reason where it is not; nothing is left behind."""
    path = Path(os.path.abspath(path.expanduser()))
    near = next(p for p in (path, *path.parents) if os.path.lexists(p))
    free, reason = None, ""
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()  # of a name that is too long, say
        free = psutil.disk_usage(str(near)).free
        with tempfile.TemporaryFile(dir=near) as attempt:
            attempt.write(bytes(4096))
            attempt.flush()
    except OSError as error:
        reason = f"{error.strerror or error} ({near})"
        if near.is_file():
            reason = f"{near} is a file"
    return {
        "what": what,
        "path": str(path),
        "free": free,
        "writable": not reason,
        "reason": reason,
    }
