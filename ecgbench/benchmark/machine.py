"""What this machine offers a run: versions, processor, memory, disk. Read from the system itself, without torch."""

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from ecgbench import __version__

DISTRIBUTION = "ecgbench-leads"
ROOMY = 2**50
"""Bytes above which a cgroup's limit means none (version 1 writes a number near 2^63)."""


def packages() -> list[dict[str, Any]]:
    """Direct dependencies: name, version (None where it is not installed), wanted (`>=2.6`), ok."""
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return [{"name": DISTRIBUTION, "version": None, "wanted": f"=={__version__}", "ok": False}]
    made = []
    for line in lines:
        needed, _, marker = line.partition(";")
        parts = re.match(r"\s*([\w.-]+)\s*(?:\[[^]]*\])?\s*\(?([^)]*)\)?", needed)
        if parts and "extra" not in marker:
            made.append(_package(parts[1], parts[2].strip()))
    return made


def _package(name: str, wanted: str) -> dict[str, Any]:
    try:
        found: str | None = version(name)
    except PackageNotFoundError:
        found = None
    return {"name": name, "version": found, "wanted": wanted, "ok": found is not None and satisfies(found, wanted)}


def satisfies(found: str, wanted: str) -> bool:
    """Whether a version is at least what a requirement of the form `>=1.2` says; other forms are not judged.

    >>> satisfies("2.10.1+cpu", ">=2.6"), satisfies("1.9", ">=1.14"), satisfies("3", "")
    (True, False, True)
    """
    least = re.match(r">=\s*([\d.]+)", wanted)
    return least is None or _numbers(found) >= _numbers(least[1])


def _numbers(text: str) -> tuple[int, ...]:
    release = re.match(r"\d+(?:\.\d+)*", text)
    whole = [int(n) for n in release[0].split(".")] if release else [0]
    return tuple(whole + [0] * (4 - len(whole)))


def versions() -> dict[str, Any]:
    """ecgbench, python, platform and `packages`."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return {"ecgbench": __version__, "python": platform.python_version(), "platform": system, "packages": packages()}


def processor(system: Path = Path("/")) -> dict[str, Any]:
    """cpu (its name), cores, usable (after affinity), limit (processors that the cgroup allows, None: all) and the C++ compiler."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    name = re.search(r"model name\s*:\s*(.+)", _read(system / "proc/cpuinfo"))
    cpu = name[1].strip() if name else platform.processor() or platform.machine()
    return {"cpu": cpu, "cores": os.cpu_count(), "usable": usable, "limit": cpu_limit(system), "compiler": compiler()}


def compiler() -> str | None:
    """The C++ compiler that torch.compile would use, None where there is none."""
    return next((path for name in (os.environ.get("CXX"), "g++", "clang++") if name and (path := shutil.which(name))), None)


def memory(system: Path = Path("/")) -> dict[str, int | None]:
    """total, available and the cgroup's limit, in bytes; None where there is none or it is not known."""
    found = dict(re.findall(r"(\w+):\s+(\d+) kB", _read(system / "proc/meminfo")))
    total, available = (1024 * int(found[k]) if k in found else None for k in ("MemTotal", "MemAvailable"))
    limits = [int(n) for n in _cgroup(system, "memory", "memory.limit_in_bytes", "memory.max") if n.isdigit() and int(n) < ROOMY]
    return {"total": total, "available": available, "limit": min(limits, default=None)}


def cpu_limit(system: Path = Path("/")) -> float | None:
    """How many processors' worth of time the cgroup allows; None: no limit."""
    pairs = [text.split() for text in _cgroup(system, "cpu", "", "cpu.max")]
    quotas = list(_cgroup(system, "cpu", "cpu.cfs_quota_us", ""))
    pairs += [list(pair) for pair in zip(quotas, _cgroup(system, "cpu", "cpu.cfs_period_us", ""))]
    found = [int(p[0]) / int(p[1]) for p in pairs if len(p) == 2 and p[0].isdigit() and p[1].isdigit() and int(p[1])]
    return min(found, default=None)


def _cgroup(system: Path, controller: str, first: str, second: str) -> Iterator[str]:
    """The text of a limit in this process's cgroup and in those around it; `first`, `second`: file names of versions 1 and 2."""
    for line in _read(system / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        base, file = (system / "sys/fs/cgroup" / controller, first) if controllers else (system / "sys/fs/cgroup", second)
        here = base / path.lstrip("/")
        for folder in [here, *here.parents] if file else []:
            if folder.is_relative_to(base) and (text := _read(folder / file).strip()):
                yield text


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def disk(what: str, place: Path) -> dict[str, Any]:
    """what, path, free (bytes), writable and the reason where it is not; nothing is left behind."""
    path = Path(os.path.abspath(place.expanduser()))
    near = next(p for p in (path, *path.parents) if os.path.lexists(p))
    row: dict[str, Any] = {"what": what, "path": str(path), "free": None, "writable": False, "reason": ""}
    try:
        row["free"] = shutil.disk_usage(near).free
        with tempfile.TemporaryFile(dir=near) as trial:
            trial.write(bytes(4096))
            trial.flush()
    except OSError as error:
        return row | {"reason": f"{near} is a file" if near.is_file() else f"{error.strerror or error} ({near})"}
    return row | {"writable": True}
