"""Origin of a number: code, versions, machine, command."""

import functools
import platform
import re
import shlex
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import ecgbench

PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "torch", "safetensors", "wfdb")
"""Packages whose version can change a number."""


@functools.cache
def code() -> dict[str, Any]:
    """Version of the package, commit and dirty flag (None outside a checkout): whether a file of
    the package is changed or new, which may be a plug-in.
    """
    folder = Path(ecgbench.__file__).parent
    commit = changed = None
    if (folder.parent / ".git").exists() and (commit := _git(folder, "rev-parse", "HEAD")):
        changed = _git(folder, "status", "--porcelain", ".")
    return {
        "version": ecgbench.__version__,
        "commit": commit,
        "dirty": None if changed is None else bool(changed),
    }


def files() -> list[tuple[str, int, int]]:
    """Name, size and time of every file of this package."""
    folder = Path(ecgbench.__file__).parent
    every = (file for file in sorted(folder.rglob("*.*")) if file.suffix != ".pyc")
    known = [(f"{file.relative_to(folder)}", file.stat()) for file in every if file.is_file()]
    return [(name, state.st_size, state.st_mtime_ns) for name, state in known]


def versions() -> dict[str, str]:
    """Installed versions of PACKAGES."""
    installed = {}
    for name in PACKAGES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            installed[name] = "not installed"
    return installed


def here() -> dict[str, Any]:
    """Everything about code, versions and machine; no path and no host name."""
    return {
        **code(),
        "python": platform.python_version(),
        "packages": versions(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def date() -> str:
    """Now, UTC: `2026-01-31T12:00:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def command(out: Path | None = None, typed: str = "") -> str:
    """The command line as typed, with the program's name instead of its path; with another --out
    where `out` is given. typed: another command line than that of this process.
    """
    program, *words = shlex.split(typed) or sys.argv
    called = Path(program).name
    if out is not None:
        old = [i for i, word in enumerate(words) if re.match(r"--out(=|$)|-o", word)]
        for i in reversed(old):
            del words[i : i + 2 if words[i] in ("--out", "-o") else i + 1]
        words += ["--out", str(out)]
    return shlex.join(["ecgbench" if called == "__main__.py" else called, *words])


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.check_output(
            command, stderr=subprocess.DEVNULL, text=True, timeout=10
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return None
