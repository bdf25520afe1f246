"""What `--dry-run` tells: the tiny plug-in on the demo."""

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch

from ecgbench import adapters, models
from ecgbench.cli import main
from ecgbench.data import disk
from ecgbench.stats.detectable import expected
from ecgbench.study import estimate

TINY = Path(__file__).parents[1] / "tiny.py"
USUAL = ("--models", str(TINY), "--tasks", "demo", "--weights", "random", "--leads", "1,2,12")
USUAL += ("--seeds", "2", "--device", "cpu", "--engine", "inline")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`ecgbench run` with the usual words, in this process; returns the exit code."""

    def run(*words: str) -> int:
        models.ROOM.forget()
        adapters.ROOM.forget()
        places = ["--prepared", str(tmp_path / "prepared"), "--out", str(tmp_path / "run")]
        monkeypatch.setattr(sys, "argv", ["ecgbench", "run", *USUAL, *places, *words])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0)

    return run


@pytest.mark.parametrize("protocol", ["linear", "finetune"])
def test_a_dry_run_tells_cells_disk_and_time_and_writes_nothing(
    protocol: str, typed: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--set", "training.epochs=2"
    assert typed("--dry-run", "--protocol", protocol, *words, "--limit", "60") == 0
    told = capsys.readouterr().out
    assert f"5 cells of 1 fit ({protocol}), 0 of them finished" in told
    assert "demo: not prepared yet; 60 records (train 40, val 7, test 13)" in told
    assert "\ndisk: " in told
    assert "\ntime: about " in told
    assert list(tmp_path.iterdir()) == []


def test_finished_cells_are_left_out(
    typed: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--limit", "60")
    assert typed(*words) == 0
    assert typed("--dry-run", *words, "--leads", "1,2,12,I") == 0
    told = capsys.readouterr().out
    assert "6 cells of 1 fit (probe), 5 of them finished" in told
    # the labels are known now: from how large a difference on a study like this finds one
    (smallest,) = re.findall(
        r"\n  demo: two models can be told apart from ([\d.]+) points on", told
    )
    table = pd.read_parquet(next(tmp_path.rglob("scores.parquet")))
    labels = table[(table["metric"] == "auroc") & (table["label"] != "macro")]
    told_by_hand = expected(labels["positives"], labels["n"] - labels["positives"], 0.85, 0.5)
    assert float(smallest) == pytest.approx(100 * told_by_hand, abs=0.05)
    assert [line.split()[:4] for line in told.splitlines() if line.startswith("tiny ")] == [
        ["tiny", "demo", "1", "1"]
    ]


@pytest.mark.long
def test_the_estimate_is_of_the_order_of_the_run(
    typed: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[float] = []
    monkeypatch.setattr(estimate, "duration", lambda seconds: found.append(seconds) or "")
    words = ("--protocol", "finetune", "--set", "training.epochs=20")
    assert typed(*words, "--dry-run") == 0
    started = time.monotonic()
    assert typed(*words) == 0
    spent = time.monotonic() - started
    assert spent / 5 < found[-1] < 4 * spent


def test_a_disk_that_is_too_small_is_named(
    typed: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("--limit", "60", "--dry-run") == 0
    assert "too little disk" not in capsys.readouterr().out
    monkeypatch.setattr(disk, "free_bytes", lambda folder: 1)
    assert typed("--limit", "60", "--dry-run") == 0
    assert "too little disk" in capsys.readouterr().out


def test_a_model_that_fails_costs_its_own_line(
    typed: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plug_in = TINY.read_text().replace(
        "return Features(", "raise ValueError('no')\n        return ("
    )
    (tmp_path / "fails.py").write_text(plug_in)
    models_here = f"{TINY},{tmp_path / 'fails.py'}"
    assert typed("--dry-run", "--limit", "60", "--models", models_here) == 0
    printed = capsys.readouterr().out
    assert "it fails: ValueError: no" in printed
    assert " without what failed: one record" in printed
