"""Processor and memory of this machine, and what a container (cgroup v2) may use of them."""

import platform
import re
from collections.abc import Iterator
from pathlib import Path

import psutil


def cpu() -> str:
    """The name of the processor."""
    name = re.search(r"model name\s*:\s*(.+)", _read(Path("/proc/cpuinfo")))
    return name[1].strip() if name else platform.processor() or platform.machine()


def memory(system: Path = Path("/")) -> dict[str, int | None]:
    """total, available and the cgroup's limit (None where there is none), in bytes."""
    limits = (int(text[0]) for text in _limits(system, "memory.max") if text[0].isdigit())
    machine = psutil.virtual_memory()
    return {
        "total": machine.total,
        "available": machine.available,
        "limit": min(limits, default=None),
    }


def cpu_limit(system: Path = Path("/")) -> float | None:
    """How many processors' worth of time the cgroup allows; None: no limit."""
    pairs = (text for text in _limits(system, "cpu.max") if text[0].isdigit())
    return min((int(quota) / int(period) for quota, period in pairs), default=None)


def _limits(system: Path, name: str) -> Iterator[list[str]]:
    """The words of a limit in this process's cgroup and in those around it."""
    group = re.search(r"^0::/(.*)$", _read(system / "proc/self/cgroup"), re.MULTILINE)
    base = system / "sys/fs/cgroup"
    own = base / group[1] if group else base
    for folder in (own, *own.parents):
        if folder.is_relative_to(base) and (words := _read(folder / name).split()):
            yield words


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
