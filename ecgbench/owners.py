"""Who writes a temporary file, or is inside a lock, and whether that process still lives.

A lock of the system (flock) is one sign. It is never the only one, for some disks grant it to
everybody, and shared ones often keep it to one machine. The others: a temporary name and the note
of a claim say which process of which machine made them, and whoever holds a claim touches its note.
"""

import errno
import fcntl
import hashlib
import os
import platform
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ecgbench.errors import WriteError

PASSING = ".tmp"
"""Suffix of files that are being written; what a kill leaves behind is removed at the next start.
"""
NOTE = ".owner"
"""Suffix of the file beside a lock that says who holds it, while it is held."""
BEAT = 15.0
"""Seconds after which whoever holds a claim touches its note again."""
SILENCE = 120.0
"""Seconds without a touch after which a claim whose process cannot be looked up counts as dead."""
FORGOTTEN = 86_400.0
"""The same of a temporary file, which nobody touches; the longest write is far shorter."""
PAUSE = 0.1
"""Seconds between two looks at the note of another."""
_OURS = re.compile(r"\..+?(?:\.(?P<host>[\w-]+))?\.(?P<pid>\d+)(?:\.[0-9a-f]{16})?\.tmp")
"""Temporary names of this version, and those without host and random part of earlier ones; a folder
may hold other people's.
"""


@dataclass(frozen=True)
class Owner:
    """A process of a machine."""

    host: str
    """Of `host`; "" where it is not known."""
    pid: int

    @property
    def dead(self) -> bool:
        """Whether this is certain: it was a process of this machine, and there is none."""
        if self.host != host():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):  # another user's
            pass
        return False


@cache
def host() -> str:
    """A word for the place whose process numbers this process sees: the machine's name, and a hash
    that also tells its start and its container apart.
    """
    parts = [platform.node()]
    with suppress(OSError):  # Linux has them
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
        parts.append(os.readlink("/proc/self/ns/pid"))
    name = re.sub(r"[^A-Za-z0-9]+", "-", parts[0])[:24]
    return f"{name}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:8]}"


def temporary(path: Path) -> Path:
    """A name beside `path` that nobody else gives and nobody can foretell."""
    mine = f"{host()}.{os.getpid()}.{secrets.token_hex(8)}"
    return path.with_name(f".{path.name[:40]}.{mine}{PASSING}")


def abandoned(left: Path) -> bool:
    """Whether a path has a name of `temporary` and its writer is dead: it is a process of this
    machine that ended, or its file was not written for a day.
    """
    match = _OURS.fullmatch(left.name)
    if not match:
        return False
    owner = Owner(match["host"] or "", int(match["pid"]))
    return owner.dead or time.time() - left.lstat().st_mtime > FORGOTTEN


def take(handle: int) -> bool:
    """Hold the lock of an open file until it is closed; False where another holds it. True where
    there are no locks, too: ask `abandoned` as well.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


@contextmanager
def claim(handle: int, path: Path, wait: bool) -> Iterator[None]:
    """The claim of an open lock, a file or a folder at `path`: one process at a time inside, by the
    lock of the system and by a note beside it. BlockingIOError where another is inside and `wait`
    is false; WriteError where the disk has no locks that work.
    """
    folder = path.is_dir()
    note = path / f".ecgbench{NOTE}" if folder else path.with_name(path.name + NOTE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError as error:
        # NFS locks no folders; then the note alone is the claim
        if not (folder and error.errno == errno.EBADF):
            raise _unlockable(path, f"has no locks ({error.strerror})") from None
    else:
        _demand_lock(handle, path)
    mine = f"{host()}.{os.getpid()}.{secrets.token_hex(8)}"
    done = threading.Event()
    try:
        while not _noted(note, mine):
            if _remove_dead(note, handle):
                continue
            if not wait:
                raise BlockingIOError(errno.EWOULDBLOCK, "another process is inside", str(note))
            time.sleep(PAUSE)
        threading.Thread(target=_beat, args=(note, mine, done), daemon=True).start()
        yield
    finally:
        done.set()
        with suppress(OSError):
            if _said(note) == mine:
                note.unlink()


def _demand_lock(handle: int, path: Path) -> None:
    """WriteError where the lock that this process holds is granted once more."""
    again = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_NOFOLLOW)
    try:
        # another file has the name by now: the note decides
        if os.path.samestat(os.fstat(handle), os.fstat(again)) and take(again):
            raise _unlockable(path, "grants one lock to two at once")
    finally:
        os.close(again)


def _unlockable(path: Path, why: str) -> WriteError:
    return WriteError(
        f"cannot lock {path}: its disk {why}; choose a folder on a local disk, or mount this one "
        f"with locks (flock), then run the same command again"
    )


def _noted(note: Path, mine: str) -> bool:
    """Writes who holds the claim; False where a note is there."""
    try:
        handle = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    except FileExistsError:
        return False
    try:
        os.write(handle, mine.encode())
    except OSError:
        note.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    return True


def _said(note: Path) -> str:
    return note.read_text(encoding="ascii", errors="replace")


def _remove_dead(note: Path, handle: int) -> bool:
    """Takes away the note of an owner that is dead, and no other; True where there is none now."""
    try:
        said = _said(note)
        silent = _now(handle) - note.lstat().st_mtime
    except FileNotFoundError:
        return True
    name, _, rest = said.partition(".")
    pid = rest.partition(".")[0]
    owner = Owner(name, int(pid) if pid.isdecimal() else 0)
    if silent <= SILENCE and not (owner.pid and owner.dead):
        return False
    # of two that find it dead, the slower one must not take away the note of the faster
    away = temporary(note)
    with suppress(FileNotFoundError):
        os.rename(note, away)
        if _said(away) != said:
            with suppress(FileExistsError):
                os.link(away, note)
        away.unlink()
    return True


def _now(handle: int) -> float:
    """The time of the disk, which may be another machine's, by touching the lock."""
    try:
        os.utime(handle)
        return os.fstat(handle).st_mtime
    except OSError:
        return time.time()


def _beat(note: Path, mine: str, done: threading.Event) -> None:
    while not done.wait(BEAT):
        with suppress(OSError):
            if _said(note) == mine:
                os.utime(note)
