import fcntl
import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from ecgbench import owners
from ecgbench.core.files import as_json, as_npy, locked, put, sweep
from ecgbench.errors import WriteError

pytestmark = pytest.mark.durable

HERE = owners.host()
GONE = 2**22 + 1  # above the largest number that Linux gives a process
FAULTS = runpy.run_path(str(Path(__file__).parents[1] / "faults.py"))
Faults, failing, KINDS, TOLD = (FAULTS[name] for name in ("Faults", "failing", "KINDS", "TOLD"))


def test_a_file_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "deep" / "a.txt", "µV\n")
    assert path.read_bytes() == "µV\n".encode()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match=r"cannot write .*a\.txt: No space left on device; "):
        put(path, "other")
    assert path.read_bytes() == "µV\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


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


def test_a_temporary_file_is_new_or_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody foretold its name, and made it a link to another's file."""
    monkeypatch.setattr(owners.secrets, "token_hex", lambda count: "0" * 2 * count)
    theirs = put(tmp_path / "theirs", "theirs")
    owners.temporary(tmp_path / "a.txt").symlink_to(theirs)
    with pytest.raises(WriteError, match=r"cannot write .*a\.txt: File exists"):
        put(tmp_path / "a.txt", "ours")
    assert theirs.read_text() == "theirs"
    assert not (tmp_path / "a.txt").exists()
    (tmp_path / ".lock").symlink_to(tmp_path / "made")
    with pytest.raises(WriteError, match="cannot write"), locked(tmp_path):
        pass
    assert not (tmp_path / "made").exists()


def test_two_writers_of_one_number_each_write_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in two containers that share a disk without locks: their processes have equal numbers."""
    monkeypatch.setattr(os, "getpid", lambda: 7)
    monkeypatch.setattr(owners.fcntl, "flock", lambda handle, how: None)
    first, second = b"1" * 50_000, b"2" * 100

    def meanwhile(out: BinaryIO) -> None:
        out.write(first[:49_900])
        out.flush()
        put(tmp_path / "a", second)
        assert (tmp_path / "a").read_bytes() == second
        sweep(tmp_path)
        out.write(first[49_900:])

    assert put(tmp_path / "a", meanwhile).read_bytes() == first


@pytest.mark.parametrize(
    ("name", "hours", "goes"),
    [
        (f".a.json.{HERE}.{GONE}.{'0' * 16}.tmp", 0, True),
        (f".a.json.{HERE}.{os.getppid()}.{'0' * 16}.tmp", 23, False),
        (f".a.json.{HERE}.{os.getppid()}.{'0' * 16}.tmp", 25, True),  # the number was given again
        (f".a.json.elsewhere-0a1b2c3d.{GONE}.{'0' * 16}.tmp", 23, False),
        (f".a.json.elsewhere-0a1b2c3d.{GONE}.{'0' * 16}.tmp", 25, True),
        (f".a.json.{GONE}.tmp", 23, False),  # of an earlier version: nobody knows of which machine
        (f".a.json.{GONE}.tmp", 25, True),
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
    handle = os.open(left, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    sweep(tmp_path)
    assert left.exists(), "somebody holds it"
    os.close(handle)
    sweep(tmp_path)
    assert left.exists() != goes


def test_what_is_written_is_plain() -> None:
    assert as_json({"b": None, "a": [1]}) == '{\n "a": [\n  1\n ],\n "b": null\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"a": float("nan")})
    with pytest.raises(ValueError, match="allow_pickle=False"):
        as_npy(np.array([{}], dtype=object))


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


def test_without_locks_of_the_system_there_is_one_line(tmp_path: Path) -> None:
    """As on Windows, which has no fcntl."""
    code = "import sys; sys.modules['fcntl'] = None; sys.argv[0] = 'ecgbench'; "
    said = "ecgbench runs on Linux and macOS; on Windows use WSL"
    for words in (["run"], ["doctor"], ["data", "prepare", "demo"]):
        line = [sys.executable, "-c", code + "from ecgbench.__main__ import main; main()", *words]
        done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode, done.stderr.strip()) == (2, f"ecgbench: {said}")
    done = subprocess.run(
        [sys.executable, "-c", code + "import ecgbench.core.files"], capture_output=True, text=True
    )
    assert done.stderr.strip().splitlines()[-1] == f"ecgbench.errors.BadSetting: {said}"
