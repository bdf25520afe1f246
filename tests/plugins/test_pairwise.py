"""An engine that is one file: it enters by path, runs two jobs at once, and gives the tables that
inline gives.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ecgbench.benchmark import engines

HERE = Path(__file__).parent
ENGINE, TINY = HERE / "pairwise.py", HERE.parent / "tiny.py"
USUAL = (
    "--tasks",
    "demo",
    "--weights",
    "random",
    "--limit",
    "60",
    "--protocol",
    "linear",
    "--epochs",
    "2",
    "--seeds",
    "1",
    "--leads",
    "12,I,2",
)
WAITS = '''"""{name}: tiny, which begins when the other has begun too."""

import importlib.util, pathlib, time

spec = importlib.util.spec_from_file_location("tiny_itself", {tiny!r})
tiny = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny)
CARD = tiny.CARD
HERE = pathlib.Path(__file__)


def build(weights=None):
    if (HERE.parent / "meet").exists():
        HERE.with_suffix(".begun").touch()
        until = time.monotonic() + 60
        while not HERE.with_name({other!r}).exists():
            assert time.monotonic() < until, "the other never began"
            time.sleep(0.01)
    return tiny.Tiny()
'''


def ecgbench(*words: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ecgbench", *map(str, words)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=150
    )


def table(run: Path) -> bytes:
    done = ecgbench("report", run, "--only", "main_table")
    assert done.returncode == 0, done.stderr
    return (run / "report" / "main_table.csv").read_bytes()


@pytest.fixture
def pair(tmp_path: Path) -> str:
    """Two models that wait for one another while the file `meet` is there."""
    for name, other in (("left", "right"), ("right", "left")):
        text = WAITS.format(name=name, tiny=str(TINY), other=f"{other}.begun")
        (tmp_path / f"{name}.py").write_text(text)
    return f"{tmp_path / 'left.py'},{tmp_path / 'right.py'}"


def test_two_jobs_are_in_flight_and_the_table_is_that_of_inline(pair: str, tmp_path: Path) -> None:
    (tmp_path / "meet").touch()
    words = ("run", "--models", pair, *USUAL, "--prepared", tmp_path / "prepared")
    both = ecgbench(*words, "--engine", ENGINE, "--out", tmp_path / "both")
    assert both.returncode == 0, both.stderr
    assert "6 cells computed, 0 were there already, 0 skipped, 0 failed" in both.stdout
    assert "left on demo: " in both.stderr
    assert "right on demo: " in both.stderr
    (tmp_path / "meet").unlink()
    one = ecgbench(*words, "--engine", "inline", "--out", tmp_path / "one")
    assert one.returncode == 0, one.stderr
    assert table(tmp_path / "both") == table(tmp_path / "one")
    page = ecgbench("report", tmp_path / "both")
    assert page.returncode == 0, page.stderr
    assert (tmp_path / "both" / "report" / "index.html").exists()


KILLED_ONCE = """

class Killed(tiny.Tiny):
    def forward(self, signal, measured):
        once = HERE.with_suffix(".killed")
        if not signal[:, 6:].any() and not once.exists():  # none of V1 to V6: at lead I
            once.touch()
            os.kill(os.getpid(), 9)
        return super().forward(signal, measured)
"""


def test_a_job_that_was_killed_is_submitted_again_and_nothing_is_lost(
    pair: str, tmp_path: Path
) -> None:
    """Killed once, while all sets of leads are computed together: each is tried alone, the other
    model goes on.
    """
    left = tmp_path / "left.py"
    text = left.read_text().replace("import importlib.util,", "import importlib.util, os,")
    left.write_text(text.replace("return tiny.Tiny()", "return Killed()") + KILLED_ONCE)
    run = tmp_path / "run"
    words = ("run", "--models", pair, *USUAL, "--prepared", tmp_path / "prepared", "--out", run)
    done = ecgbench(*words, "--engine", ENGINE)
    assert "left: its process was killed by SIGKILL" in done.stderr
    assert (tmp_path / "left.killed").exists()
    assert done.returncode == 0, done.stderr
    assert "6 cells computed, 0 were there already, 0 skipped, 0 failed" in done.stdout


def test_the_room_lists_engines_and_names_what_lacks(
    tmp_path: Path, typed: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(engines.names()) >= {"inline", "isolated"}
    done = ecgbench("engines")
    assert {line.split()[0] for line in done.stdout.splitlines()[1:]} >= {"inline", "isolated"}
    empty = tmp_path / "empty.py"
    empty.write_text('"""Nothing."""\n')
    told = ecgbench("run", "--engine", empty).stderr
    assert "does not define CARD and start" in told
    assert "did you mean inline?" in ecgbench("run", "--engine", "in-lin").stderr
    assert typed(tmp_path / "run", "--engine", "isolated") == 2
    assert "--engine isolated: --in-process" in capsys.readouterr().err
