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
import re
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ecgbench import slurm_queue
from ecgbench.errors import WriteError
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
_JOB = re.compile(r"[0-9]{1,18}(_[0-9]{1,18})?")
"""A job of Slurm, or a task of an array."""
_LONGEST, _DIGITS = 4096, 19
"""Bytes of a note that are read, and digits of a number of a process; ours are far shorter."""
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
    names = ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID")
    # a task of an array may have the number of the whole array as its job
    job = "_".join(os.environ.get(name, "") for name in names)
    if not _JOB.fullmatch(job):
        job = os.environ.get("SLURM_JOB_ID", "")
    mine = f"{host()}.{os.getpid()}.{secrets.token_hex(8)}"
    return f"{mine}.{job}" if _JOB.fullmatch(job) else mine


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
    handle = os.open(note, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        return file.read(_LONGEST).decode("ascii", errors="replace")


def _read(content: str) -> _Said:
    name, pid, _, job = [*content.split("."), "", "", ""][:4]
    number = int(pid) if pid.isdecimal() and len(pid) < _DIGITS else 0
    return _Said(Owner(name, number), job if _JOB.fullmatch(job) else "")


def _remove_dead(note: Path, handle: int) -> bool:
    """Takes away the note of an owner that is dead, and no other; True where there is none now.

    One process at a time takes away, and looks once more before: of two that find it dead, the
    slower one would otherwise take away the note of the faster.
    """
    if not _is_dead(note, handle):
        return not os.path.lexists(note)
    gate = note.with_name(f"{note.stem}.removing{NOTE}")
    try:
        os.close(os.open(gate, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
    except FileExistsError:
        with suppress(FileNotFoundError):
            if _silent(gate, handle) > SILENCE:  # who took away was killed meanwhile
                gate.unlink()
        return False
    try:
        if _is_dead(note, handle):
            note.unlink(missing_ok=True)
    finally:
        gate.unlink(missing_ok=True)
    return True


def _is_dead(note: Path, handle: int) -> bool:
    """Whether a note is there and its owner counts as dead. WriteError for what is no file."""
    try:
        if not stat.S_ISREG(note.lstat().st_mode):
            raise WriteError(
                f"{note} is no file that a claim has written; remove it, then run the same command "
                f"again"
            )
        return _dead(_read(_content(note)), _silent(note, handle))
    except FileNotFoundError:
        return False


def _silent(note: Path, handle: int) -> float:
    """Seconds since a note was touched. A time in the future is of a clock that was set back: who
    lives would have touched it since.
    """
    return abs(_now(handle) - note.lstat().st_mtime)


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
        found = {task.name: task.state for task in slurm_queue.queued(job)}
        return found.get(job) or next(iter(found.values()), "")
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
