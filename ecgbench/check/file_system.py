"""What a disk keeps to when two processes use it at once: run in the second of them, as `python -m
ecgbench.check.file_system FOLDER`.

A run needs two things of its disk: of two processes that make a file of one name, one fails; and a
folder gets its name whole or not at all. Locks (flock) only help. Both processes are of this
machine: what a shared disk does between machines may be less.
"""

import os
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, Timeout

from ecgbench.core.process import DiedError, answer, ask

SECONDS = 60.0
"""That the second process may take."""
NAMES, FOLDERS = 200, 20
"""Files and folders that both processes try to make."""
SHARED = ("nfs", "lustre", "gpfs", "beegfs", "cifs", "smb", "fuse", "ceph", "gluster", "9p", "afs")
"""Beginnings of the names of file systems that several machines may share."""
_READY = "ready"


def tried(path: Path) -> dict[str, Any]:
    """file_system (its name), shared (whether several machines may use it), exclusive (of two that
    make a file one fails), whole (folders get their names whole), locks (whether they work), and
    the reason where it could not be tried. Nothing is left behind.
    """
    near = next(p for p in (path, *path.parents) if os.path.lexists(p))
    name = file_system(near)
    found: dict[str, Any] = {
        "file_system": name,
        "shared": name.startswith(SHARED),
        "exclusive": None,
        "whole": None,
        "locks": None,
        "reason": "",
    }
    folder = None
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()  # of a name that is too long, say
        folder = Path(tempfile.mkdtemp(prefix=".ecgbench-", dir=near))
        found["locks"] = _locks_work(folder)
        ours: dict[str, Any] = {}
        racer = threading.Thread(target=lambda: ours.update(_race(folder, "first")))
        racer.start()
        theirs = ask(__name__, [str(folder)], SECONDS)
        racer.join()
        if reason := theirs.get("reason") or ours.get("reason"):
            found["reason"] = str(reason)
        else:
            found |= _judged(folder, ours, theirs)
    except (OSError, DiedError) as error:
        found["reason"] = str(getattr(error, "strerror", None) or error)
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    return found


def file_system(path: Path) -> str:
    """The name of the file system that a folder lies on, as the machine calls it: ext4, nfs4,
    lustre; "unknown" where it does not say.
    """
    place = Path(os.path.realpath(path))
    with suppress(OSError):
        around = {place, *place.parents}
        mounts = [p for p in psutil.disk_partitions(all=True) if Path(p.mountpoint) in around]
        if mounts:
            return str(max(mounts, key=lambda p: len(p.mountpoint)).fstype) or "unknown"
    return "unknown"


def _locks_work(folder: Path) -> bool:
    """Whether a lock (flock) keeps a second one out. OSError where nothing can be written."""
    try:
        with FileLock(folder / "lock"), FileLock(folder / "lock", timeout=0):
            return False
    except Timeout:
        return True


def _judged(folder: Path, ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, bool]:
    """What two races in one folder tell of its disk."""
    whole = all(
        len(owners := {file.read_text() for file in (folder / f"folder{n}").iterdir()}) == 1
        and owners <= {"first", "second"}
        for n in range(FOLDERS)
    )
    return {
        "exclusive": sorted([*ours["files"], *theirs["files"]]) == list(range(NAMES)),
        "whole": whole and sorted([*ours["folders"], *theirs["folders"]]) == list(range(FOLDERS)),
    }


def _race(folder: Path, name: str) -> dict[str, Any]:
    """Make what the other process makes at the same time: the numbers of those that were ours."""
    try:
        return {"files": list(_made(folder, name)), "folders": list(_named(folder, name))}
    except OSError as error:
        return {"reason": error.strerror or str(error)}


def _made(folder: Path, name: str) -> list[int]:
    own, other = folder / f"{_READY}-{name}", {"first": "second", "second": "first"}[name]
    own.touch()
    end = time.monotonic() + SECONDS
    while not (folder / f"{_READY}-{other}").exists():
        if time.monotonic() > end:
            raise TimeoutError(None, "the other process did not come")
        time.sleep(0.001)
    made = []
    for number in range(NAMES):
        with suppress(FileExistsError):
            os.close(os.open(folder / f"file{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            made.append(number)
    return made


def _named(folder: Path, name: str) -> list[int]:
    named = []
    for number in range(FOLDERS):
        passing = folder / f"{name}{number}"
        passing.mkdir()
        for part in "ab":
            (passing / part).write_text(name)
        with suppress(OSError):  # the other one has the name
            passing.rename(folder / f"folder{number}")
            named.append(number)
    return named


def _second(words: list[str]) -> dict[str, Any]:
    return _race(Path(words[0]), "second")


if __name__ == "__main__":
    answer(_second)
