import os
from pathlib import Path

import numpy as np
import pytest

from ecgbench.files import as_json, as_npy, put, sweep


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "deep" / "a.txt", "µV\n")
    assert path.read_bytes() == "µV\n".encode()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        put(path, "other")
    assert path.read_bytes() == "µV\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_sweep_removes_what_put_left_and_nothing_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", lambda a, b: None)
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok=False: None)  # as if killed before the rename
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
