"""What a run says before it computes: how long, and what difference its test records can show."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecgbench.study.start import show

TINY = Path(__file__).parents[1] / "tiny.py"


@pytest.fixture
def run(
    here: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    monkeypatch.setattr("ecgbench.study.start.show", show)
    usual = ("--tasks", "demo", "--weights", "random", "--limit", "60", "--seeds", "1")

    def typed(*words: object) -> Any:
        return here("run", *usual, "--out", "run", "--device", "cpu", *words, cwd=tmp_path)

    return typed


def test_every_start_says_how_long_and_what_can_be_shown(run: Callable[..., Any]) -> None:
    """As the dry run does; nothing where nothing is missing."""
    words = "--models", TINY, "--engine", "inline"
    first = run(*words, "--leads", "12").stderr
    said = r"demo: 4 of 5 such studies find a difference of [\d.]+ points"
    assert re.search(rf"^{said}.*\ntime: about .* on cpu \(one record", first, re.MULTILINE)
    again = run(*words, "--leads", "12").stderr
    assert "such studies" not in again
    assert "time: about" not in again
    more = run(*words, "--leads", "1,12")
    assert "time: about" in more.stderr
    dry = run(*words, "--leads", "1,2,12", "--dry-run").stdout
    (points,) = re.findall(said, first)
    assert points in dry


def test_cells_that_are_skipped_once_more_do_not_start_it(run: Callable[..., Any]) -> None:
    words = "--models", TINY, "--engine", "inline", "--leads", "12", "--policy", "native,zero"
    assert "such studies" in run(*words).stderr
    again = run(*words)
    assert "1 were there already, 1 skipped" in again.stdout
    assert "such studies" not in again.stderr


@pytest.mark.long
def test_a_model_that_ends_its_process_costs_the_line_and_not_the_run(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    source = TINY.read_text(encoding="utf-8").replace("def build(", "def built(")
    aborts = tmp_path / "aborts.py"
    aborts.write_text(f"{source}\n\ndef build(weights=None):\n    __import__('os').abort()\n")
    done = run("--models", f"{TINY},{aborts}", "--leads", "12", "--engine", "local")
    assert done.returncode == 1
    assert "without what could not be tried" in done.stderr
    assert "1 cells computed" in done.stdout
