"""Fine-tuning on genuine recordings as a person types it: it learns, it is what it claims to be,
and a kill costs nothing.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from safetensors.numpy import load_file

pytestmark = [pytest.mark.real, pytest.mark.long]

RUN = (
    "run --protocol finetune --epochs 2 --limit 24 --models laef --tasks ptbxl_super --leads "
    "12,I --weights random --batch 8"
)


def start(data: Path, place: Path, out: str) -> subprocess.Popen[str]:
    words = [
        sys.executable,
        "-m",
        "ecgbench",
        *RUN.split(),
        "--data",
        str(data),
        "--prepared",
        str(data / "prepared"),
        "--out",
        out,
    ]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        words,
        cwd=place,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_fine_tuning_learns_and_survives_a_kill(real_ptbxl: Path, tmp_path: Path) -> None:
    whole = start(real_ptbxl, tmp_path, "whole")
    told, complaints = whole.communicate()
    assert whole.returncode == 0, complaints
    assert "2 cells computed" in told
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
    assert not list((tmp_path / "whole").rglob("checkpoint.safetensors"))
    assert not list((tmp_path / "whole" / "features").rglob("windows/*/*.safetensors"))

    killed = start(real_ptbxl, tmp_path, "killed")
    deadline = time.monotonic() + 300
    # after the first epoch, some way into the second
    while not list((tmp_path / "killed").rglob("checkpoint.safetensors")):
        assert killed.poll() is None and time.monotonic() < deadline, killed.communicate()[1]  # noqa: PT018
        time.sleep(0.05)
    time.sleep(0.3)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not list((tmp_path / "killed").rglob("DONE"))
    resumed = start(real_ptbxl, tmp_path, "killed")
    _, complaints = resumed.communicate()
    assert resumed.returncode == 0, complaints
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
