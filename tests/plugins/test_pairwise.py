"""An engine that is one file: it enters by path, runs two jobs at once, and gives the tables that
inline gives.
"""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ecgbench import models
from ecgbench.cli import main
from ecgbench.results.study import read
from ecgbench.study import engines

HERE = Path(__file__).parent
ENGINE, TINY = HERE / "pairwise.py", HERE.parent / "tiny.py"
USUAL = shlex.split(
    "--tasks demo --weights random --limit 60 --protocol linear --set training.epochs=2 --seeds 1 "
    "--leads 12,I,2"
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


Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ecgbench(
    one_thread: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    """ecgbench(*words): exit code, output, errors of a command in this process; its workers are
    processes.
    """
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as here, or the last bits differ

    def run(*words: object) -> tuple[int, str, str]:
        models.ROOM.forget()  # as in a new process
        engines.ROOM.forget()
        monkeypatch.setattr(sys, "argv", ["ecgbench", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        told = capsys.readouterr()
        return int(end.value.code or 0), told.out, told.err

    return run


def table(run: Path) -> bytes:
    return read(run).main.to_csv(index=False).encode()


@pytest.fixture
def pair(tmp_path: Path) -> str:
    """Two models that wait for one another while the file `meet` is there."""
    for name, other in (("left", "right"), ("right", "left")):
        text = WAITS.format(name=name, tiny=str(TINY), other=f"{other}.begun")
        (tmp_path / f"{name}.py").write_text(text)
    return f"{tmp_path / 'left.py'},{tmp_path / 'right.py'}"


@pytest.mark.long
def test_two_jobs_are_in_flight_and_the_table_is_that_of_inline(
    pair: str, ecgbench: Typed, tmp_path: Path
) -> None:
    (tmp_path / "meet").touch()
    words = ("run", "--models", pair, *USUAL, "--prepared", tmp_path / "prepared")
    code, told, said = ecgbench(*words, "--engine", ENGINE, "--out", tmp_path / "both")
    assert code == 0, said
    assert "6 cells computed, 0 were there already, 0 skipped, 0 failed" in told
    assert "left on demo: " in said
    assert "right on demo: " in said
    (tmp_path / "meet").unlink()
    code, _, said = ecgbench(*words, "--engine", "inline", "--out", tmp_path / "one")
    assert code == 0, said
    assert table(tmp_path / "both") == table(tmp_path / "one")
    code, _, said = ecgbench("report", tmp_path / "both")
    assert code == 0, said
    assert (tmp_path / "both" / "report" / "index.html").exists()
