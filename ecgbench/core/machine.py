"""Processor and memory of this machine, and the limit of a container (cgroup v2)."""

import platform
import re
from pathlib import Path

import psutil


def cpu() -> str:
    """The name of the processor."""
    name = re.search(r"model name\s*:\s*(.+)", _read(Path("/proc/cpuinfo")))
    return name[1].strip() if name else platform.processor() or platform.machine()


def memory(system: Path = Path("/")) -> dict[str, int | None]:
    """total, available and the cgroup's limit (None where there is none), in bytes."""
    group = re.search(r"^0::/(.*)$", _read(system / "proc/self/cgroup"), re.MULTILINE)
    base = system / "sys/fs/cgroup"
    cgroup = base / group[1] if group else base
    limits = (_read(folder / "memory.max").strip() for folder in (cgroup, *cgroup.parents))
    machine = psutil.virtual_memory()
    return {
        "total": machine.total,
        "available": machine.available,
        "limit": min((int(limit) for limit in limits if limit.isdigit()), default=None),
    }


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
