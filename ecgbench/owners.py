"""Who writes a temporary file, and whether that process still lives.

A lock of the system (flock) is one sign. It is never the only one, for some disks grant it to
everybody, and shared ones often keep it to one machine. The other: a temporary name says which
process of which machine made it.
"""

import fcntl
import hashlib
import os
import platform
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PASSING = ".tmp"
"""Suffix of files that are being written; what a kill leaves behind is removed at the next start.
"""
FORGOTTEN = 86_400.0
"""Seconds without a write after which a temporary file of another machine counts as left behind;
the longest write is far shorter.
"""
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
