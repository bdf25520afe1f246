"""One process at a time, on one machine or on many that share a disk.

The claim is a note that only one process can make (O_EXCL). It says which process of which machine
holds the claim, and in which job of Slurm; whoever holds it touches it again and again. The note of
a process that is dead is taken away: one of this machine that is not there any more, one whose job
Slurm does not run any more, one that was silent for too long. A lock of the system (flock) helps
where the disk has one that works: whoever waits is woken at once, and a process that is asleep
keeps its claim. Disks without locks, and those that grant a lock to everybody, do without.

A claim that was lost because its process seemed dead costs time and no result: what is computed
gets its name by one rename.
"""

import errno
import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ecgbench import slurm_queue
from ecgbench.owners import Owner, host, temporary

NOTE = ".owner"
"""Suffix of the file beside a lock that says who holds it, while it is held."""
BEAT = 15.0
"""Seconds after which whoever holds a claim touches its note again."""
DOUBT = 45.0
"""Seconds without a touch after which Slurm is asked about the job of a claim."""
SILENCE = 120.0
"""Seconds without a touch after which a claim counts as dead where nobody knows of its process."""
PAUSES = 0.1, 1.0
"""Seconds between two looks at the note of another: the first, and the longest."""
ASKED = 30.0
"""Seconds after which Slurm is asked again about the same job."""
_WORKING: dict[int, bool] = {}
"""Disk -> whether its locks work."""


class _Said(NamedTuple):
    """What a note says."""

    owner: Owner
    job: str
    """Of Slurm; "" where it was none."""


@contextmanager
def claim(handle: int, path: Path, wait: bool) -> Iterator[None]:
    """The claim of an open lock, a file or a folder at `path`: one process at a time inside.
    BlockingIOError where another is inside and `wait` is false.
    """
    folder = path.is_dir()
    note = path / f".ecgbench{NOTE}" if folder else path.with_name(path.name + NOTE)
    if locks_work(note.parent):
        _lock(handle, wait)
    mine = _mine()
    done = threading.Event()
    pause, longest = PAUSES
    try:
        while not _noted(note, mine):
            if _remove_dead(note, handle):
                continue
            if not wait:
                raise BlockingIOError(errno.EWOULDBLOCK, "another process is inside", str(note))
            time.sleep(pause)
            pause = min(2 * pause, longest)
        threading.Thread(target=_beat, args=(note, mine, done), daemon=True).start()
        yield
    finally:
        done.set()
        with suppress(OSError):
            if _content(note) == mine:
                note.unlink()


def locks_work(folder: Path) -> bool:
    """Whether the disk of a folder has locks (flock) that keep a second one out; tried once on each
    disk, with a file that is removed again. OSError where nothing can be written there.
    """
    disk = folder.stat().st_dev
    if disk not in _WORKING:
        _WORKING[disk] = _try(folder)
    return _WORKING[disk]


def _try(folder: Path) -> bool:
    trial = temporary(folder / "lock")
    how = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    handles = [os.open(trial, how, 0o600)]
    try:
        handles.append(os.open(trial, os.O_RDWR | os.O_NOFOLLOW))
        first, second = map(_granted, handles)
        return first and not second
    finally:
        for handle in handles:
            os.close(handle)
        trial.unlink(missing_ok=True)


def _granted(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _lock(handle: int, wait: bool) -> None:
    """BlockingIOError where another process holds the lock and `wait` is false."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:  # NFS locks files and no folders
        pass


def _mine() -> str:
    job = os.environ.get("SLURM_JOB_ID", "")
    return f"{host()}.{os.getpid()}.{secrets.token_hex(8)}{f'.{job}' if job.isdecimal() else ''}"


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


def _content(note: Path) -> str:
    return note.read_text(encoding="ascii", errors="replace")


def _read(content: str) -> _Said:
    name, pid, _, job = [*content.split("."), "", "", ""][:4]
    return _Said(Owner(name, int(pid) if pid.isdecimal() else 0), job if job.isdecimal() else "")


def _remove_dead(note: Path, handle: int) -> bool:
    """Takes away the note of an owner that is dead, and no other; True where there is none now."""
    try:
        content = _content(note)
        silent = _now(handle) - note.lstat().st_mtime
    except FileNotFoundError:
        return True
    if not _dead(_read(content), silent):
        return False
    # of two that find it dead, the slower one must not take away the note of the faster
    away = temporary(note)
    with suppress(FileNotFoundError):
        os.rename(note, away)
        if _content(away) != content:
            with suppress(FileExistsError):
                os.link(away, note)
        away.unlink()
    return True


def _dead(said: _Said, silent: float) -> bool:
    """Whether the process of a note that was not touched for so many seconds counts as dead."""
    if said.owner.pid and said.owner.dead:
        return True
    if silent <= DOUBT:
        return False
    if said.job and said.owner.host != host():
        state = _state(said.job, int(time.monotonic() / ASKED))
        if state in slurm_queue.ASLEEP:
            return False
        if state is not None and state not in slurm_queue.RUNNING:
            return True
    return silent > SILENCE


@lru_cache(maxsize=64)
def _state(job: str, then: int) -> str | None:
    """What squeue calls the state of a job, "" where it does not know it; None where it gives no
    answer. `then`: when it was asked.
    """
    if not slurm_queue.there():
        return None
    try:
        return next((each.state for each in slurm_queue.queued(job)), "")
    except slurm_queue.Silent:
        return None


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
            if _content(note) == mine:
                os.utime(note)
