"""One process at a time inside a claim: on disks whose locks work, lie or are not there, and of
processes that die, sleep and run on other machines.
"""

import errno
import fcntl
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ecgbench import claims, owners
from ecgbench.core.files import locked, making, move, put, sweep
from ecgbench.errors import BadSetting, WriteError

pytestmark = pytest.mark.durable

HERE = owners.host()
GONE = 2**22 + 1  # above the largest number that Linux gives a process
FORK = multiprocessing.get_context("fork")


def none(code: int) -> Callable[[int, int], None]:
    """A disk without locks."""

    def flock(handle: int, how: int) -> None:
        raise OSError(code, os.strerror(code))

    return flock


DISKS = {
    "works": fcntl.flock,
    "granted to everybody": lambda handle, how: None,
    "none": none(errno.ENOLCK),
    "not known": none(errno.ENOSYS),
    "refused to everybody": none(errno.EWOULDBLOCK),
}


@pytest.fixture(params=list(DISKS))
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Whose locks do what its name says."""
    monkeypatch.setattr(fcntl, "flock", DISKS[request.param])
    monkeypatch.setattr(claims, "_WORKING", {})
    monkeypatch.setattr(claims, "PAUSES", (0.002, 0.01))
    return request.param


def count(folder: Path, times: int) -> None:
    """Adds to a number that another process would overwrite."""
    file = folder / "number"
    for _ in range(times):
        with locked(folder):
            number = int(file.read_text())
            time.sleep(0.001)
            file.write_text(str(number + 1))


def enter_and_wait(folder: Path) -> None:
    with locked(folder):
        (folder / "inside").touch()
        time.sleep(60)


def test_several_processes_lose_nothing_and_a_killed_one_holds_nobody_up(
    disk: str, tmp_path: Path
) -> None:
    (tmp_path / "number").write_text("0")
    killed = FORK.Process(target=enter_and_wait, args=(tmp_path,))
    killed.start()
    while not (tmp_path / "inside").exists():
        time.sleep(0.01)
    others = [FORK.Process(target=count, args=(tmp_path, 15)) for _ in range(4)]
    for other in others:
        other.start()
    time.sleep(0.1)
    assert (tmp_path / "number").read_text() == "0"
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    for other in others:
        other.join()
    assert (tmp_path / "number").read_text() == "60"
    assert {p.name for p in tmp_path.iterdir()} == {"inside", "number", ".lock"}


def test_what_a_disk_does_with_locks_is_found_out(disk: str, tmp_path: Path) -> None:
    assert claims.locks_work(tmp_path) == (disk == "works")
    assert list(tmp_path.iterdir()) == []
    # a file that nobody else writes needs none
    assert put(tmp_path / "a", "whole").read_text() == "whole"
    with making(tmp_path / "b") as unfinished:
        sweep(tmp_path)
        put(unfinished / "c", "whole")
        assert move(unfinished, tmp_path / "b")
    assert (tmp_path / "b" / "c").is_file()


def test_one_at_a_time_inside_a_lock(tmp_path: Path) -> None:
    with locked(tmp_path / "new"):
        with (
            pytest.raises(BadSetting, match="someone is here"),
            locked(tmp_path / "new", otherwise="someone is here"),
        ):
            pass
        with pytest.raises(BlockingIOError), locked(tmp_path / "new", wait=False):
            pass
        with locked(tmp_path / "new", "other"), locked(tmp_path / "new", ""):
            pass
    with locked(tmp_path / "new", wait=False):
        pass
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [".lock", "other"]
    with (
        pytest.raises(BlockingIOError, match="of the body"),
        locked(tmp_path, otherwise="someone is here"),
    ):
        raise BlockingIOError("of the body")
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot write"), locked(tmp_path / "file"):
        pass


@pytest.mark.parametrize(
    ("owner", "seconds", "enters"),
    [
        (f"{HERE}.{GONE}.0", 0, True),
        (f"{HERE}.{os.getppid()}.0", 60, False),
        (f"{HERE}.{os.getppid()}.0", 180, True),
        (f"elsewhere-0a1b2c3d.{GONE}.0", 60, False),
        (f"elsewhere-0a1b2c3d.{GONE}.0", 180, True),
        ("", 60, False),  # just being written
        ("\xff no note", 180, True),
        (f"elsewhere-0a1b2c3d.{'9' * 5000}.0", 60, False),
        (f"elsewhere-0a1b2c3d.{GONE}.0", -180, True),  # its clock was ahead, and is not any more
        (f"elsewhere-0a1b2c3d.{GONE}.0", -60, False),
    ],
)
@pytest.mark.parametrize("name", [".lock", ""])
def test_a_free_lock_of_the_system_is_not_enough(
    name: str, owner: str, seconds: int, enters: bool, tmp_path: Path
) -> None:
    """The lock of another machine may not be seen here; its note is."""
    note = tmp_path / f"{name or '.ecgbench'}{claims.NOTE}"
    note.write_text(owner, encoding="latin-1")
    then = time.time() - seconds
    os.utime(note, (then, then))
    if enters:
        with locked(tmp_path, name, wait=False):
            assert note.read_text().startswith(f"{HERE}.{os.getpid()}.")
        assert not note.exists()
        return
    with pytest.raises(BlockingIOError), locked(tmp_path, name, wait=False):
        pass
    with pytest.raises(BadSetting, match="busy"), locked(tmp_path, name, otherwise="busy"):
        pass
    assert note.read_text() == owner
    waiting = threading.Timer(0.1, note.unlink)
    waiting.start()
    with locked(tmp_path, name):
        waiting.join()


def test_whoever_is_inside_a_lock_says_so_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "BEAT", 0.01)
    with locked(tmp_path):
        note = tmp_path / f".lock{claims.NOTE}"
        os.utime(note, (0, 0))
        end = time.monotonic() + 10
        while note.stat().st_mtime == 0 and time.monotonic() < end:
            time.sleep(0.01)
        assert note.stat().st_mtime > 0


@pytest.mark.parametrize("locks", ["works", "none"])
def test_one_that_is_stopped_keeps_its_claim_where_locks_work(
    locks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a laptop that was closed, or a scheduler."""
    monkeypatch.setattr(claims, "_WORKING", {tmp_path.stat().st_dev: locks == "works"})
    holder = FORK.Process(target=enter_and_wait, args=(tmp_path,))
    holder.start()
    while not (tmp_path / "inside").exists():
        time.sleep(0.01)
    os.utime(tmp_path / f".lock{claims.NOTE}", (0, 0))
    try:
        with locked(tmp_path, wait=False):
            assert locks == "none"
    except BlockingIOError:
        assert locks == "works"
    finally:
        holder.kill()
        holder.join()


@pytest.mark.parametrize(
    ("state", "seconds", "enters"),
    [
        ("RUNNING", 60, False),
        ("RUNNING", 180, True),  # its process is gone, or it began anew
        ("SUSPENDED", 9999, False),
        ("CANCELLED", 60, True),
        ("PENDING", 60, True),  # queued again
        ("CANCELLED", 30, False),  # touched a moment ago, whatever squeue says
        ("", 60, True),
        ("Invalid job id specified", 60, True),
        ("Unable to contact slurm controller", 60, False),
        ("Unable to contact slurm controller", 180, True),
    ],
)
def test_slurm_is_asked_about_the_job_of_a_claim(
    state: str, seconds: int, enters: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    says = f"echo '7_N/A|{state}|None'" if state.isupper() else f"echo '{state}' >&2; exit 1"
    (programs / "squeue").write_text(
        f'#!/bin/sh\ncase "$1" in --jobs=7) {says if state else "true"};; *) exit 9;; esac\n'
    )
    (programs / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    claims._state.cache_clear()
    note = tmp_path / f".lock{claims.NOTE}"
    note.write_text(f"node7-0a1b2c3d.{GONE}.0123456789abcdef.7")
    then = time.time() - seconds
    os.utime(note, (then, then))
    try:
        with locked(tmp_path, wait=False):
            assert enters
    except BlockingIOError:
        assert not enters


def test_the_task_of_an_array_is_asked_about_by_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them has the number of the whole array as its job."""
    for name, value in (("JOB_ID", "7"), ("ARRAY_JOB_ID", "7"), ("ARRAY_TASK_ID", "2")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    with locked(tmp_path):
        assert (tmp_path / f".lock{claims.NOTE}").read_text().endswith(".7_2")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "squeue").write_text(
        "#!/bin/sh\necho '7_0|PENDING|None\n7_2|SUSPENDED|None\n7_3|COMPLETED|None'\n"
    )
    (programs / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for job, enters in (("7_2", False), ("7_3", True)):
        claims._state.cache_clear()
        note = tmp_path / f".lock{claims.NOTE}"
        note.write_text(f"node7-0a1b2c3d.{GONE}.0123456789abcdef.{job}")
        os.utime(note, (time.time() - 9999,) * 2)
        try:
            with locked(tmp_path, wait=False):
                assert enters
        except BlockingIOError:
            assert not enters


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_what_is_no_note_is_one_line(what: str, tmp_path: Path) -> None:
    note = tmp_path / f".lock{claims.NOTE}"
    if what == "link":
        note.symlink_to(tmp_path / "nothing")
    elif what == "pipe":
        os.mkfifo(note)
    else:
        note.mkdir()
    with pytest.raises(WriteError, match="is no file that a claim has written; remove it"):
        locked(tmp_path).__enter__()


def test_of_two_that_find_one_dead_the_slower_takes_nothing_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk without locks: between its look and its deed the other one has come in."""
    monkeypatch.setattr(claims, "_WORKING", {tmp_path.stat().st_dev: False})
    note = tmp_path / f".lock{claims.NOTE}"
    note.write_text(f"{HERE}.{GONE}.0")
    real, faster = claims._is_dead, []

    def slow(path: Path, handle: int) -> bool:
        dead = real(path, handle)
        if dead and not faster:
            faster.append(locked(tmp_path))
            faster[0].__enter__()
        return dead

    monkeypatch.setattr(claims, "_is_dead", slow)
    with pytest.raises(BlockingIOError), locked(tmp_path, wait=False):
        pass
    assert note.read_text().startswith(f"{HERE}.{os.getpid()}.")
    faster[0].__exit__(None, None, None)
    gate = tmp_path / f".lock.removing{claims.NOTE}"
    gate.touch()  # of one that was killed while it took a note away
    os.utime(gate, (0, 0))
    note.write_text(f"{HERE}.{GONE}.0")
    with locked(tmp_path):
        assert not gate.exists()


def test_a_claim_names_the_job_it_is_made_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    with locked(tmp_path):
        name, pid, _, job = (tmp_path / f".lock{claims.NOTE}").read_text().split(".")
    assert (name, pid, job) == (HERE, str(os.getpid()), "4711")
