"""Two processes try a disk: what a good one and a bad one is told of, and that nothing stays."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from ecgbench.check import examine, file_system
from ecgbench.cli.doctor import page


def told(runs: Path) -> tuple[list[str], list[str], str]:
    """Problems, remarks and the page of a report on a machine whose rest is well."""
    report = examine.examine([], None, None, 60.0, lambda text: None, runs)
    return report["problems"], report["remarks"], " ".join(" ".join(page(report)).split())


def test_a_good_disk(tmp_path: Path) -> None:
    found = file_system.tried(tmp_path / "runs" / "not there yet")
    assert (found["exclusive"], found["whole"], found["locks"]) == (True, True, True)
    assert found["reason"] == ""
    assert found["file_system"] not in ("", "unknown")
    assert list(tmp_path.iterdir()) == []
    problems, remarks, text = told(tmp_path)
    assert not any("file system" in line for line in [*problems, *remarks])
    assert f"runs lie on {found['file_system']}: of two processes" in text
    assert "one wins; locks work" in text


def test_a_disk_on_which_both_make_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def careless(path: Any, flags: int, *more: Any, **named: Any) -> int:
        return real(path, flags & ~os.O_EXCL, *more, **named)

    monkeypatch.setattr(os, "open", careless)
    problems, _, text = told(tmp_path)
    assert any("lets two processes make one file or folder" in line for line in problems)
    assert "BOTH WIN" in text


def test_a_disk_without_locks_and_one_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_system, "_locks_work", lambda folder: False)
    problems, remarks, text = told(tmp_path)
    assert not problems
    assert any("locks (flock) do not work" in line for line in remarks)
    assert "locks do not work, and runs do without" in text

    def full(*words: Any, **named: Any) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / ("x" * 300)):
        problems, _, text = told(place)
        assert any("cannot be written" in line for line in problems)
        assert "not tried with two processes" in text
    monkeypatch.setattr(file_system.tempfile, "mkdtemp", full)
    found = file_system.tried(tmp_path)
    assert (found["exclusive"], found["reason"]) == (None, "No space left on device")
