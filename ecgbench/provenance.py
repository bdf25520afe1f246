"""Where a number comes from: code, versions, machine, command."""

import functools
import platform
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import ecgbench

PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "torch", "safetensors", "wfdb")
"""Packages whose version can change a number."""


@functools.cache
def code() -> dict[str, Any]:
    """Version of the package; commit and dirty flag (None where it does not run from a
    checkout).
    """
    folder = Path(ecgbench.__file__).parent
    commit = _git(folder, "rev-parse", "HEAD") if (folder.parent / ".git").exists() else None
    changed = (
        None if commit is None else _git(folder, "status", "--porcelain", "--untracked-files=no")
    )
    return {
        "version": ecgbench.__version__,
        "commit": commit,
        "dirty": None if changed is None else bool(changed),
    }


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


def command() -> str:
    """The command line as typed, with the program's name instead of its path."""
    called = Path(sys.argv[0]).name
    return shlex.join(["ecgbench" if called == "__main__.py" else called, *sys.argv[1:]])


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
