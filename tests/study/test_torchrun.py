"""The command under torchrun: the first process computes the study, all of them fine-tune."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
TINY = Path(__file__).parents[1] / "tiny.py"
USUAL = "--tasks demo --weights random --limit 60 --protocol finetune --seeds 1 --leads 12,I"
USUAL += " --set training.epochs=2 --set run.report=no --device cpu"
LAUNCH = "torch.distributed.run --standalone --nproc-per-node 2 -m ecgbench run"


def test_two_processes_train_one_fit(tmp_path: Path) -> None:
    places = ["--prepared", str(tmp_path / "prepared"), "--out", str(tmp_path / "run")]
    words = [sys.executable, "-m", *LAUNCH.split(), "--models", str(TINY), *USUAL.split(), *places]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 cells computed, 0 were there already, 0 skipped, 0 failed") == 1
    (fit,) = (tmp_path / "run" / "fits").rglob("fit.json")
    assert json.loads(fit.read_text())["devices"] == 2


def test_another_engine_is_refused(tmp_path: Path) -> None:
    env = {**os.environ, "WORLD_SIZE": "2", "RANK": "0"}
    words = [sys.executable, "-m", "ecgbench", "run", "--engine", "local"]
    words += ["--out", str(tmp_path / "run")]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "--engine local: torchrun runs models in its own processes" in done.stderr
    assert not (tmp_path / "run").exists()
