import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ecgbench.errors import BadSetting, WriteError
from ecgbench.files import as_json, as_npy, locked, put, sweep

pytestmark = pytest.mark.durable

FAULTS = runpy.run_path(str(Path(__file__).with_name("faults.py")))
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
    put(tmp_path / "cells" / "scores.parquet", b"half")
    monkeypatch.undo()
    left = [p.name for p in (tmp_path / "cells").iterdir() if p.name.startswith(".")]
    assert left == [f".scores.parquet.{os.getpid()}.tmp"]
    mine = tmp_path / ".notes.tmp"
    mine.write_text("a user's own")
    sweep(tmp_path)
    assert not (tmp_path / "cells" / left[0]).exists()
    assert mine.exists()


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
        assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [".lock", "other"]
    with (
        pytest.raises(BlockingIOError, match="of the body"),
        locked(tmp_path, otherwise="someone is here"),
    ):
        raise BlockingIOError("of the body")
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot write"), locked(tmp_path / "file"):
        pass


def test_without_locks_of_the_system_there_is_one_line(tmp_path: Path) -> None:
    """As on Windows, which has no fcntl."""
    code = "import sys; sys.modules['fcntl'] = None; sys.argv[0] = 'ecgbench'; "
    said = "ecgbench runs on Linux and macOS; on Windows use WSL"
    for words in (["run"], ["doctor"], ["data", "prepare", "demo"]):
        line = [sys.executable, "-c", code + "from ecgbench.cli import main; main()", *words]
        done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode, done.stderr.strip()) == (2, f"ecgbench: {said}")
    done = subprocess.run(
        [sys.executable, "-c", code + "import ecgbench.files"], capture_output=True, text=True
    )
    assert done.stderr.strip().splitlines()[-1] == f"ecgbench.errors.BadSetting: {said}"
