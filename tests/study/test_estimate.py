"""What `--dry-run` tells: the tiny plug-in on the demo."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecgbench.data import disk

TINY = Path(__file__).parents[1] / "tiny.py"
USUAL = ("--models", str(TINY), "--tasks", "demo", "--weights", "random", "--leads", "1,2,12")
USUAL += ("--seeds", "2", "--device", "cpu", "--engine", "inline")
pytestmark = pytest.mark.usefixtures("one_thread")
Told = Callable[..., str]


@pytest.fixture
def told(here: Callable[..., Any], tmp_path: Path) -> Told:
    """told(*words): what `ecgbench run` prints."""

    def run(*words: str) -> str:
        done = here("run", *USUAL, "--out", "run", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    return run


@pytest.mark.parametrize("protocol", ["linear", "finetune"])
def test_a_dry_run_tells_cells_disk_and_time_and_writes_nothing(
    protocol: str, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--set", "training.epochs=2", "--dry-run", "--protocol", protocol, "--limit", "60")
    text = told(*words)
    assert f"5 cells of 1 fit ({protocol}), 0 of them finished" in text
    assert "60 records (train 40, val 7, test 13)" in text
    assert "\ntime: about " in text
    assert "too little disk" not in text
    monkeypatch.setattr(disk, "free_bytes", lambda folder: 1)
    assert "too little disk" in told(*words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_finished_cells_are_left_out(told: Told) -> None:
    told("--limit", "60")
    assert told("--dry-run", "--limit", "60").endswith("\nnothing is left to compute\n")
    text = told("--dry-run", "--limit", "60", "--leads", "1,2,12,I")
    assert "6 cells of 1 fit (probe), 5 of them finished" in text
    assert [line.split()[:4] for line in text.splitlines() if line.startswith("tiny ")] == [
        ["tiny", "demo", "1", "1"]
    ]
