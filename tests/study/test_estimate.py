"""What `--dry-run` tells, and what is asked before a long fine-tuning; the tiny plug-in on the
demo.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from ecgbench.study.job import Measure
from ecgbench.study.job_record import Outcome

from ecgbench import adapters, models, suites
from ecgbench.cli import main
from ecgbench.core.cells import Plan
from ecgbench.data import disk
from ecgbench.ecg.leads import LEADS
from ecgbench.stats.detectable import expected
from ecgbench.study import carry_out
from ecgbench.study import plan as planning
from ecgbench.study.estimate import study
from ecgbench.study.run import Run
from tests.results.test_damages import hashed

TINY = Path(__file__).parents[1] / "tiny.py"
USUAL = (
    "--models",
    str(TINY),
    "--tasks",
    "demo",
    "--weights",
    "random",
    "--leads",
    "1,2,12",
    "--seeds",
    "2",
    "--device",
    "cpu",
)


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
        monkeypatch.setattr(
            sys, "argv", ["ecgbench", "run", "--in-process", *USUAL, *places, *words]
        )
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0)

    return run


def asked_for_an(hours: float) -> Callable[[Measure], dict[str, Any]]:
    def measure(job: Measure) -> dict[str, Any]:
        return {
            "source": "downloaded",
            "records": {"train": 1},
            "tested": {},
            "skipped": 0,
            "views": {},
            "seconds": {"training": 3600 * hours},
            "disk": {"run": 1, "prepared": 1},
        }

    return measure


@pytest.mark.parametrize("protocol", ["probe", "linear", "finetune"])
def test_a_dry_run_tells_cells_disk_and_time_and_writes_nothing(
    protocol: str, typed: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = () if protocol == "probe" else ("--epochs", "2")
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


@pytest.mark.parametrize("protocol", ["probe", "linear", "finetune"])
def test_the_estimate_is_of_the_order_of_the_run(
    protocol: str, typed: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[study.Estimate] = []
    table = study.table

    def kept(estimated: study.Estimate, out: Path) -> Iterator[str]:
        found.append(estimated)
        return table(estimated, out)

    monkeypatch.setattr(study, "table", kept)
    words = ("--protocol", protocol, *(() if protocol == "probe" else ("--epochs", "20")))
    assert typed(*words, "--dry-run") == 0
    started = time.monotonic()
    assert typed(*words) == 0
    spent = time.monotonic() - started
    assert spent / 4 < found[0].seconds < 4 * spent


def test_long_fine_tuning_without_a_gpu_waits_for_a_yes(
    typed: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    started = []

    def note(self: Run, *how: bool, **more: bool) -> Outcome:
        started.append(1)
        return self.outcome

    monkeypatch.setattr(Run, "__call__", note)
    monkeypatch.setattr(carry_out, "measure", asked_for_an(2))
    words = ("--protocol", "finetune", "--epochs", "100")
    assert typed(*words) == 2
    told = capsys.readouterr().err
    assert "takes about 2 h (tiny 2 h)" in told
    assert all(word in told for word in ("--yes", "--limit", "--epochs", "GPU"))
    assert not started
    assert not (tmp_path / "run").exists()
    assert typed(*words, "--yes") == 0
    assert "takes about 2 h" in capsys.readouterr().err
    monkeypatch.setattr(carry_out, "measure", asked_for_an(0.5))
    assert typed(*words) == 0
    assert "takes about 30 min" in capsys.readouterr().err
    assert typed("--protocol", "finetune", "--epochs", "1", "--limit", "60") == 0
    assert "fine-tuning" not in capsys.readouterr().err
    assert len(started) == 3


def test_the_paper_is_its_eight_models_on_those_of_its_tasks_that_are_here() -> None:
    """Not every model installed: neither the ninth of the package nor a plug-in."""
    models.ROOM.forget()
    models.resolve(str(Path(__file__).parents[1] / "tiny.py"))
    here, missing = planning.covered(suites.get("paper").PLAN)
    asked = planning.check(here)
    models.ROOM.forget()
    made: Plan = planning.plan(asked, lambda loaded: dict.fromkeys(loaded, "zero"))
    there = planning.all_tasks()
    real = [name for name in suites.get("paper").TASKS if name in there]
    assert {(c.fit.model, c.task) for c in made.cells} == {
        (m, t) for m in suites.get("paper").MODELS for t in real
    }
    assert len(suites.get("paper").MODELS) == 8
    assert len(missing) + len(real) == len(suites.get("paper").TASKS) == 18
    assert made.training.protocol == "finetune"
    assert made.training.epochs == 100
    settings = {str(c.setting) for c in made.cells}
    assert settings == {*(f"{k}@seed{s}" for k in (1, 2) for s in range(5)), "12", *LEADS}


def test_earlier_fits_in_the_folder_say_how_long_the_next_take(
    typed: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--protocol", "finetune", "--epochs", "2", "--limit", "60")
    assert typed(*words) == 0
    (note,) = (tmp_path / "run").glob("fits/*/*/*/fit.json")
    note.write_text(json.dumps({**json.loads(note.read_text()), "seconds": 7200.0}))
    hashed(note.parent)
    capsys.readouterr()
    assert typed("--dry-run", *words, "--fit-seeds", "0,1") == 0
    told = capsys.readouterr().out
    assert "10 cells of 2 fits (finetune), 5 of them finished" in told
    assert [line.split()[3:6] for line in told.splitlines() if line.startswith("tiny ")] == [
        ["1", "2", "h"]
    ]


def test_views_of_each_contract_and_dataset_count_once(tmp_path: Path) -> None:
    def part(model: str, dataset: str, copy: int, views: dict[str, int]) -> study.Part:
        answer = {"disk": {"run": 1, "prepared": copy}, "views": views}
        return study.Part(model=model, dataset=dataset, plan=plan, done=0, answer=answer)

    plan = Plan(name="x", cells=())
    parts = (
        part("a", "ptbxl", 100, {"f": 10}),
        part("b", "ptbxl", 100, {"f": 10}),
        part("c", "ptbxl", 100, {"g": 20}),
        part("c", "georgia", 0, {"g": 5}),
    )
    whole = study.Estimate(plan=plan, parts=parts, device="cpu")
    assert (whole.views, whole.beside) == (35, 135)
    assert study.scarce(whole, tmp_path, 135) == ""
    assert "--views stream" in study.scarce(whole, tmp_path, 134)
    assert "ecgbench data prune" in study.scarce(whole, tmp_path, 134)


def test_a_dry_run_counts_what_is_not_kept_and_says_when_the_disk_is_too_small(
    typed: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--limit", "60", "--dry-run")
    assert typed(*words) == 0
    told = capsys.readouterr().out
    assert "of it for filtered and resampled views; --views stream: none" in told
    assert "too little disk" not in told
    monkeypatch.setattr(disk, "free_bytes", lambda folder: 1)
    assert typed(*words) == 0
    assert "too little disk" in capsys.readouterr().out
    assert typed(*words, "--views", "stream") == 0
    assert "of it for" not in capsys.readouterr().out
    assert typed("--limit", "60") == 0
    capsys.readouterr()
    assert typed(*words, "--leads", "I") == 0
    assert "of it for" not in capsys.readouterr().out, "all is kept now"
