"""Children that answer, and children that do not."""

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import ecgbench
from ecgbench import processes

CHILD = (
    "from ecgbench.processes import answer\nimport os, subprocess, sys, time\ndef "
    "work(words):\n    {code}\nanswer(work)\n"
)


def asked(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, seconds: float = 20) -> dict:
    (folder / "child.py").write_text(CHILD.format(code=code))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder)
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


def test_a_child_imports_from_where_its_parent_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, said = tmp_path / "here", "return {'of': [__import__('ecgbench').__file__, os.getcwd()]}"
    here.mkdir()
    for name in ("ecgbench", "json", "runpy"):  # another checkout, and somebody's own file
        (here / f"{name}.py").write_text("raise SystemExit(7)")
    (tmp_path / "child.py").write_text(CHILD.format(code=said))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(here)
    assert processes.ask("child", [], 20) == {"of": [ecgbench.__file__, str(here)]}


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


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a subreaper")


@LINUX
@pytest.mark.parametrize("end", ["return {}", "os.abort()", "os._exit(3)", "time.sleep(60)"])
def test_what_left_the_session_of_a_child_ends_with_it(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in a session of its own, and one whose parent is dead."""
    code = "; ".join(
        [
            "far = subprocess.Popen(['sleep', '60'], start_new_session=True)",
            "orphan = 'setsid sleep 60 >/dev/null 2>&1 & echo $!'",
            "lost = subprocess.run(['sh', '-c', orphan], capture_output=True).stdout.decode()",
            "open('pids', 'w').write(f'{far.pid} {lost}')",
            end,
        ]
    )
    with suppress(processes.DiedError):
        asked(tmp_path, monkeypatch, code, seconds=6 if "sleep(" in end else 30)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert not any(map(running, pids))


@LINUX
def test_what_a_child_started_ends_when_whoever_asked_is_killed(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(
        CHILD.format(
            code="far = subprocess.Popen(['sleep', '60'], start_new_session=True); "
            "open('.pid', 'w').write(str(far.pid)); os.rename('.pid', 'pid'); time.sleep(60)"
        )
    )
    asks = "from ecgbench.processes import ask; ask('child', [], 60)"
    asker = subprocess.Popen([sys.executable, "-c", asks], cwd=tmp_path)
    until = time.monotonic() + 60
    while not (tmp_path / "pid").exists() and time.monotonic() < until:
        time.sleep(0.02)
    asker.kill()
    asker.wait()
    far = int((tmp_path / "pid").read_text())
    while running(far) and time.monotonic() < until:
        time.sleep(0.02)
    assert not running(far)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_a_child_started_dies_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = "import time; time.sleep(1.5); open('late', 'w')"
    asked(tmp_path, monkeypatch, f"subprocess.Popen([sys.executable, '-c', {late!r}]); return {{}}")
    time.sleep(2)
    assert not (tmp_path / "late").exists()
