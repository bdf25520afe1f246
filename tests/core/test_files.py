import errno
import fcntl
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ecgbench.core import files
from ecgbench.core.files import as_json, locked, put, quarantine, sweep
from ecgbench.errors import BadSetting, WriteError
from tests.faults import KINDS, TOLD, Faults, failing

pytestmark = pytest.mark.durable

HERE = files._host()
GONE = 2**22 + 1  # above the largest number that Linux gives a process


def test_sweep_removes_what_put_left_and_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "replace", lambda a, b: None)
    # as if killed before the rename
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok=False: None)
    monkeypatch.setattr(os, "getpid", lambda: GONE)
    put(tmp_path / "cells" / "scores.parquet", b"half")
    monkeypatch.undo()
    left = [p.name for p in (tmp_path / "cells").iterdir() if p.name.startswith(".")]
    assert len(left) == 1
    assert left[0].startswith(f".scores.parquet.{HERE}.{GONE}.")
    mine = tmp_path / ".notes.tmp"
    mine.write_text("a user's own")
    sweep(tmp_path)
    assert not (tmp_path / "cells" / left[0]).exists()
    assert mine.exists()


@pytest.mark.parametrize(
    ("name", "hours", "goes"),
    [
        (f".a.json.{HERE}.{GONE}.{'0' * 16}.tmp", 0, True),
        (f".a.json.{HERE}.{os.getppid()}.{'0' * 16}.tmp", 23, False),
        (f".a.json.{HERE}.{os.getppid()}.{'0' * 16}.tmp", 25, True),  # the number was given again
        (f".a.json.elsewhere-0a1b2c3d.{GONE}.{'0' * 16}.tmp", 23, False),
        (f".a.json.elsewhere-0a1b2c3d.{GONE}.{'0' * 16}.tmp", 25, True),
        (f".a.json.{GONE}.tmp", 25, False),
        (".notes.tmp", 25, False),
        (f"a.json.{HERE}.{GONE}.{'0' * 16}.tmp", 25, False),
    ],
)
@pytest.mark.parametrize("folder", [False, True])
def test_sweep_takes_what_a_dead_owner_left(
    name: str, hours: int, goes: bool, folder: bool, tmp_path: Path
) -> None:
    left = tmp_path / name
    left.mkdir() if folder else left.touch()
    then = time.time() - 3600 * hours
    os.utime(left, (then, then))
    sweep(tmp_path)
    assert left.exists() != goes


FORK = multiprocessing.get_context("fork")


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


def no_locks(code: int) -> Callable[[int, int], None]:
    def flock(handle: int, how: int) -> None:
        raise OSError(code, os.strerror(code))

    return flock


@pytest.mark.filterwarnings("ignore:flock not supported")
@pytest.mark.parametrize(
    "flock",
    [fcntl.flock, no_locks(errno.ENOSYS), no_locks(errno.ENOLCK)],
    ids=["works", "no call", "no locks"],
)
def test_processes_exclude_one_another_and_the_lock_of_a_killed_one_is_free(
    flock: Callable[[int, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", flock)
    (tmp_path / "number").write_text("0")
    killed = FORK.Process(target=enter_and_wait, args=(tmp_path,))
    killed.start()
    while not (tmp_path / "inside").exists():
        time.sleep(0.01)
    with pytest.raises(BadSetting, match="busy"), locked(tmp_path, otherwise="busy"):
        pass
    with pytest.raises(BlockingIOError), locked(tmp_path, wait=False):
        pass
    others = [FORK.Process(target=count, args=(tmp_path, 8)) for _ in range(2)]
    for other in others:
        other.start()
    assert (tmp_path / "number").read_text() == "0"
    killed.kill()
    killed.join()
    for other in others:
        other.join(30)
    assert (tmp_path / "number").read_text() == "16"


@pytest.mark.parametrize("change", ["a byte", "cut", "other JSON", "no hash", "unreadable"])
@pytest.mark.parametrize("kind", ["facts", "bytes"])
def test_a_file_that_was_altered_goes_into_quarantine_and_is_named(
    kind: str, change: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, value = tmp_path / "kept", {"b": [1, None], "a": {"x": 0.5}}
    if kind == "facts":
        files.put_proved(path, value)
    else:
        files.put_hashed(path, as_json(value).encode())
    read = files.read_proved if kind == "facts" else files.read_hashed
    assert read(path) == (value if kind == "facts" else as_json(value).encode())
    content = path.read_bytes()
    path.unlink()
    assert read(path) is None
    assert not caplog.messages
    changed = {"a byte": content.replace(b"5", b"4"), "cut": content[:-9]}
    changed |= {"other JSON": b"[]", "no hash": as_json(value).encode()}
    path.mkdir() if change == "unreadable" else path.write_bytes(changed[change])
    assert read(path) is None
    (line,) = caplog.messages
    assert line.startswith(f"{path} is not as it was written; renamed to kept.damaged, and ")
    assert [p.name for p in tmp_path.iterdir()] == ["kept.damaged"]


def test_what_goes_into_quarantine_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    heard: list[str] = []
    for content in "12":
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy" / "file").write_text(content)
        with files.warnings_to(heard.append):
            quarantine(tmp_path / "copy")
    assert (tmp_path / "copy.damaged" / "file").read_text() == "2"
    assert len(heard) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["a.txt", "deep/a.txt"])
def test_put_leaves_the_old_file_or_the_new_one(name: str, kind: str, tmp_path: Path) -> None:
    """At each of its steps, over an old file and in a new folder; text, bytes, and a function that
    writes in pieces.
    """
    old, new = b"old" * 9000, b"new" * 9000
    for content in (
        new,
        new.decode(),
        lambda out: [out.write(new[i : i + 9000]) for i in range(0, len(new), 9000)],
    ):
        met, at = True, 0
        while met:
            at += 1
            place = tmp_path / str(at) / name
            before = put(tmp_path / str(at) / "a.txt", old)
            with failing(Faults(tmp_path / str(at), at, kind)) as faults:
                told = None
                try:
                    put(place, content)
                except (WriteError, KeyboardInterrupt) as error:
                    told = error
            if told is None:
                assert place.read_bytes() == new
            else:
                assert isinstance(
                    told, KeyboardInterrupt
                ) or f"cannot write {place}: {TOLD[kind]}; " in str(told)
            met = faults.met
            assert before.read_bytes() in (old, new)
            sweep(tmp_path / str(at))
            assert list(tmp_path.rglob("*.tmp")) == []
            put(place, content)
            assert place.read_bytes() == new
            shutil.rmtree(tmp_path / str(at))
        assert at > 5
