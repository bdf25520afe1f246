"""Children that answer, and children that do not."""

from pathlib import Path

import pytest

from ecgbench import processes

CHILD = (
    "from ecgbench.processes import answer\nimport os, subprocess, sys, time\ndef "
    "work(words):\n    {code}\nanswer(work)\n"
)


def asked(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, seconds: float = 20) -> dict:
    (folder / "child.py").write_text(CHILD.format(code=code))
    monkeypatch.chdir(folder)  # `-m` looks here first
    return processes.ask("child", ["a", "b"], seconds)


def test_what_work_returns_or_raises_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shouted = "print('{}'); sys.stderr.write('x' * 10**6); return {'words': words}"
    assert asked(tmp_path, monkeypatch, shouted) == {"words": ["a", "b"]}
    raised = asked(tmp_path, monkeypatch, "raise ValueError('a\\nb \\x1b' + 'x' * 1000)")
    assert raised["error"] == "ValueError"
    assert raised["reason"].startswith("a b U+001Bxxx")
    assert len(raised["reason"]) == processes.LONGEST


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
    with pytest.raises(processes.DiedError, match=f"^{reason}$"):
        asked(tmp_path, monkeypatch, code, seconds=1 if "sleep" in code else 20)


def test_what_a_child_started_dies_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = "import time; time.sleep(1.5); open('late', 'w')"
    asked(tmp_path, monkeypatch, f"subprocess.Popen([sys.executable, '-c', {late!r}]); return {{}}")
    import time

    time.sleep(2)
    assert not (tmp_path / "late").exists()
