"""Runs on few genuine recordings. The README's, end to end, with MERL in place of ST-MEM, which is
slow: bookkeeping, not AUROC values. Fine-tuning: it learns, it is what it claims to be, and a kill
costs nothing.

One file, so that no worker waits while the other unpacks and prepares the recordings.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from safetensors.numpy import load_file

from ecgbench.ecg.draw import draw

pytestmark = [
    pytest.mark.rendered,
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.usefixtures("one_thread"),
]
FINETUNE = "run --protocol finetune --limit 24 --tasks ptbxl_super --leads 12,I --weights random"
FINETUNE += " --set training.batch=8"
NARROW = Path(__file__).with_name("narrow.py")
LONG = ("--models", str(NARROW), "--set", "training.epochs=5")
"""Some seconds are left after the first epoch."""
Typed = Callable[..., None]


@pytest.fixture(scope="module")
def report(
    real_ptbxl: Path,
    here: Callable[..., "subprocess.CompletedProcess[str]"],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("real")
    run = (
        "-m ecgbench run --models laef,merl --tasks ptbxl_super --leads 1,12 --seeds 1 "
        "--weights random --protocol linear --limit 24 --out runs/ptbxl"
    )
    done = subprocess.run(
        [sys.executable, *run.split(), "--data", str(real_ptbxl)],
        cwd=place,
        capture_output=True,
        text=True,
        env={**os.environ, "ECGBENCH_PREPARED": str(real_ptbxl / "prepared")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    done = here("report", "runs/ptbxl", "--to", "out/ptbxl", cwd=place)
    assert done.returncode == 0, done.stderr
    return place / "runs/ptbxl", place / "out/ptbxl"


def test_table_has_every_cell_asked_for(report):
    table = pd.read_csv(report[1] / "main_table.csv")
    assert list(zip(table["model"], table["leads"], table["policy"])) == [
        ("laef", 1, "native"),
        ("laef", 12, "native"),
        ("merl", 1, "zero"),
        ("merl", 12, "zero"),
    ]
    assert (table["status"] == "ok").all()
    assert (table["n_records"] == 3).all()
    found = pd.read_parquet(next((report[0] / "cells").rglob("predictions.parquet")))
    positives = found.filter(like="target:").sum()
    both = positives.between(1, len(found) - 1)
    assert 0 < both.sum() < 5
    assert (table["n_labels"] == 5).all()
    assert (table["n_undefined"] == 5 - both.sum()).all()
    assert (table["weights"] == "random").all()
    assert not table["best"].any()  # frozen encoders with random weights


def test_both_models_saw_the_same_leads_of_the_same_records(report):
    seen = {}
    for model in ("laef", "merl"):
        (folder,) = (report[0] / "cells/ptbxl_super" / model / "1@seed0").iterdir()
        predictions = pd.read_parquet(folder / "predictions.parquet")
        seen[model] = predictions[
            ["record", "patient", "leads", *(c for c in predictions if c.startswith("target:"))]
        ]
    pd.testing.assert_frame_equal(seen["laef"], seen["merl"])
    assert [str(draw(1, 0, r)) for r in seen["laef"]["record"]] == list(seen["laef"]["leads"])


def test_page_says_what_was_left_out(report):
    page = (report[1] / "index.html").read_text()
    for word in ("--limit 24", "2,000", "andom", "10.13026"):
        assert word in page or word.replace(",", "") in page


def words(data: Path, out: str, *more: str) -> list[str]:
    places = ("--data", str(data), "--prepared", f"{data}/prepared", "--out", out)
    return [*FINETUNE.split(), *places, *more]


@pytest.fixture
def typed(
    here: Callable[..., "subprocess.CompletedProcess[str]"], real_ptbxl: Path, tmp_path: Path
) -> Typed:
    """typed(out, *words): a run in this process, whose two cells are computed."""

    def run(out: str, *more: str) -> None:
        done = here(*words(real_ptbxl, out, *more), "--engine", "inline", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "2 cells computed" in done.stdout

    return run


def test_fine_tuning_learns(typed: Typed, tmp_path: Path) -> None:
    typed("whole", "--models", "laef", "--set", "training.epochs=2")
    (fit,) = (tmp_path / "whole" / "fits").rglob("DONE")
    log, note = (
        pd.read_csv(fit.parent / "log.csv"),
        json.loads((fit.parent / "fit.json").read_text()),
    )
    assert log["loss"].iloc[-1] < log["loss"].iloc[0]
    assert {g: a["lr"] for g, a in note["groups"].items()} == {
        "early": 1e-5,
        "late": 1e-4,
        "head": 1e-3,
    }
    assert sum(a["parameters"] for a in note["groups"].values()) == 7_104_000 + 5 * 769
    assert all(a["before"] != a["after"] for a in note["groups"].values())
    assert note["encoder_sha256"] != note["from_sha256"]
    assert not list((tmp_path / "whole").rglob("checkpoint.pt"))
    assert not list((tmp_path / "whole" / "features").rglob("windows/*/*.safetensors"))


def test_a_kill_costs_nothing(typed: Typed, real_ptbxl: Path, tmp_path: Path) -> None:
    typed("whole", *LONG)
    (fit,) = (tmp_path / "whole" / "fits").rglob("DONE")
    killed = subprocess.Popen(
        [sys.executable, "-m", "ecgbench", *words(real_ptbxl, "killed", *LONG)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    # after the first epoch, some way into the second
    while not list((tmp_path / "killed").rglob("checkpoint.pt")):
        assert killed.poll() is None and time.monotonic() < deadline, killed.communicate()[1]  # noqa: PT018
        time.sleep(0.05)
    time.sleep(0.3)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not list((tmp_path / "killed").rglob("DONE"))
    typed("killed", *LONG)
    again = next((tmp_path / "killed" / "fits").rglob("DONE")).parent
    assert (again / "log.csv").read_text() == (fit.parent / "log.csv").read_text()
    for name in ("encoder.safetensors", "head.safetensors"):
        ours, theirs = load_file(again / name), load_file(fit.parent / name)
        assert ours.keys() == theirs.keys()
        assert all((ours[k] == theirs[k]).all() for k in ours)
    tables = [
        sorted(p.read_bytes() for p in (tmp_path / run / "cells").rglob("predictions.parquet"))
        for run in ("whole", "killed")
    ]
    assert tables[0] == tables[1]
