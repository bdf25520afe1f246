"""Children that answer, and children that do not."""

import os
import time
from pathlib import Path

import pytest

from ecgbench.core import process

CHILD = (
    "from ecgbench.core.process import answer\nimport os, subprocess, sys, time\ndef "
    "work(words):\n    {code}\nanswer(work)\n"
)


def asked(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, seconds: float = 20) -> dict:
    (folder / "child.py").write_text(CHILD.format(code=code))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder)
    return process.ask("child", ["a", "b"], seconds)


def test_a_copy_says_how_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LOADING", 1)
    assert process.ends(lambda: 1 / 0) == ""
    assert process.ends(lambda: os._exit(3)) == "its process ended with exit code 3"
    assert process.ends(lambda: time.sleep(60)) == "it was not done within 1 s"


def test_what_work_returns_or_raises_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shouted = "print('{}'); sys.stderr.write('x' * 10**6); return {'words': words}"
    assert asked(tmp_path, monkeypatch, shouted) == {"words": ["a", "b"]}
    raised = asked(tmp_path, monkeypatch, "raise ValueError('a\\nb \\x1b' + 'x' * 1000)")
    assert raised["error"] == "ValueError"
    assert raised["reason"].startswith("a b U+001Bxxx")
    assert len(raised["reason"]) == process.LONGEST


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os.abort()", "its process was killed by SIGABRT"),
        (
            "os.kill(os.getpid(), 9)",
            r"its process was killed by SIGKILL \(memory may have run out\)",
        ),
        ("os._exit(3)", "its process ended with exit code 3"),
        ("time.sleep(60)", "no answer within 1 s, so it was killed"),
    ],
)
def test_a_child_without_an_answer_has_a_reason(
    code: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(process.DiedError, match=f"^{reason}$"):
        asked(tmp_path, monkeypatch, code, seconds=1 if "sleep" in code else 20)
