"""`ecgbench pretrain` as a person types it."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecgbench import models
from ecgbench.errors import BadSetting
from ecgbench.pretrain import estimate, recipe

pytestmark = pytest.mark.usefixtures("one_thread")
NARROW = Path(__file__).parents[1] / "narrow.py"
STEPS = ("--set", "steps=2,2", "--set", "batch=2", "--device", "cpu")
Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def pretrain(here: Callable[..., Any], tmp_path: Path) -> Typed:
    """pretrain(*words): exit code, output, errors."""

    def run(*words: object) -> tuple[int, str, str]:
        done = here("pretrain", *words, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.long
def test_smoke_ends_with_weights_and_a_report(
    tmp_path: Path, pretrain: Typed, copies: Path
) -> None:
    out = tmp_path / "laef"
    words = ("smoke", *STEPS, "--model", NARROW, "--prepared", copies, "--out", out)
    code, told, said = pretrain(*words)
    assert code == 0, said
    assert "89 recordings of demo to train on, 0 left out" in said
    assert "stage 2, step 2/2: loss" in said
    assert "records/s" in said
    assert str(out / "encoder.safetensors") in told.splitlines()
    models.get(models.resolve(str(NARROW))).build(out / "encoder.safetensors")
    assert (out / "report" / "index.html").is_file()
    assert {
        p["device"].rsplit(", ")[-1]
        for p in json.loads((out / "pretraining.json").read_text())["phases"]
    } == {"1 thread"}

    before = (out / "encoder.safetensors").read_bytes()
    assert pretrain(*words)[0] == 0
    assert (out / "encoder.safetensors").read_bytes() == before
    code, _, said = pretrain(*words, "--set", "refined=9")
    assert (code, "recipe.refined" in said, "choose another --out" in said) == (2, True, True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("smal",), "unknown recipe 'smal'; did you mean small"),
        (("smoke", "--set", "steps=5"), "--set steps=5: one number for each stage"),
        (("smoke", "--set", "codes=5,x"), "--set codes=5,x: whole numbers"),
        (("smoke", "--set", "init=middle"), "init middle: previous"),
        (("smoke", "--set", "task=ptbxl_supper"), "unknown task 'ptbxl_supper'; did you mean"),
        (("smoke", "--set", "descriptor=mfcc"), "unknown descriptor 'mfcc'; did you mean mfcc-ecg"),
        (("paper", "--data", "/nowhere"), "code15: there is no folder /nowhere"),
        (("smoke", "--device", "gpu"), "--device gpu: auto, cpu, cuda"),
        (("smoke", "--set", "precision=fp16"), "precision fp16: bf16 or float32"),
        (("smoke", "--set", "lr=inf"), "lr=inf"),
        (("smoke", "--set", "warmup=5"), "4 steps with a warm-up of 5: the rate would not"),
        (("smoke", "--set", "refined=30000"), "a codebook of 30000 codes"),
        (("smoke", "--set", "corpus=stream"), "corpus"),
    ],
)
def test_bad_words_give_one_line(
    tmp_path: Path,
    pretrain: Typed,
    words: tuple[str, ...],
    said: str,
) -> None:
    code, _, told = pretrain(*words, "--out", tmp_path / "out")
    assert code == 2, told
    assert said in told.splitlines()[-1]
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.long
def test_a_dry_run_tells_the_recipe_what_it_takes_and_all_that_is_missing(
    tmp_path: Path, pretrain: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(device: str) -> None:
        raise BadSetting(f"--device {device}: no GPU here")

    monkeypatch.setattr(estimate, "demand", none)
    words = ("paper", "--set", "masked=0.3", "--model", NARROW, "--device", "cuda")
    places = ("--data", tmp_path, "--out", tmp_path / "out")
    code, told, said = pretrain(*words, *places, "--dry-run")
    assert code == 0, said
    for part in ("80000", "75000", "ratio=0.3", "digest", "ptbxl 17,439 (absent)"):
        assert part in told
    assert "days" in re.search("time        about (.*) on cpu, ", told)[1]  # type: ignore[index]
    missing = told.partition(" things missing:\n")[2].splitlines()
    first = [text.split()[0].rstrip(":") for text in missing]
    needed = {*recipe.get("paper").datasets, "ribeiro_dev", "code15"}
    assert {*first[:13]} == needed
    assert first[13] == "--device"
    assert f"ecgbench data prepare ptbxl --data {tmp_path}" in missing[2]
    again = shlex.join(map(str, ("ecgbench", "pretrain", *words, *places)))
    assert missing[-1] == f"next: {again}"
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(estimate, "demand", lambda device: None)
    some = estimate.Rates(training=1, probe=1, network=1)
    monkeypatch.setattr(estimate, "rates", lambda *_: some)
    code, told, _ = pretrain("smoke", "--device", "cpu", "--dry-run")
    assert (code, "\nnothing is missing\n" in told) == (0, True)


def test_a_dry_run_counts_passes_here_and_in_the_paper_and_takes_another_task(
    tmp_path: Path, pretrain: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = estimate.Rates(training=1, probe=1, network=1)
    monkeypatch.setattr(estimate, "rates", lambda *_: some)
    _, told, _ = pretrain("paper", "--data", tmp_path, "--device", "cpu", "--dry-run")
    here = re.search(r"recordings +([\d,]+)", told)[1]  # type: ignore[index]
    passes = 80_000 * 448 / int(here.replace(",", ""))
    assert f": {passes:.1f} and 10.1 passes over {here} recordings; over the 9.2 million" in told
    words = ("small", "--set", "task=Chapman", "--data", tmp_path, "--device", "cpu", "--dry-run")
    code, told, said = pretrain(*words)
    assert code == 0, said
    assert "development task: chapman on one in 8" in told
    assert [text.split()[0] for text in told.splitlines()[-3:]] == ["ptbxl:", "chapman:", "next:"]


def losses(out: Path) -> list[str]:
    """The curves of both stages, without the clock."""
    rows = [(out / f"stage{n}" / "curve.csv").read_text().splitlines()[1:] for n in (1, 2)]
    return [row.split(",")[1] for stage in rows for row in stage]


@pytest.mark.long
def test_two_processes_of_torchrun_make_what_one_makes(tmp_path: Path, pretrain: Typed) -> None:
    """The first prepares and packs; one process finds both, and its losses are the same."""
    words = ["smoke", *STEPS, "--set", "batch=4", "--set", "micro_batch=2", "--model", str(NARROW)]
    words += ["--prepared", str(tmp_path / "prepared"), "--out"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    line = [sys.executable, *torchrun, "-m", "ecgbench", "pretrain", *words, str(tmp_path / "two")]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("prepare demo: ") == 1
    code, _, said = pretrain(*words, tmp_path / "one")
    assert code == 0, said
    assert "prepare demo" not in said
    assert "pack the corpora" not in said
    alone, both = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert [float(x) for x in alone] == pytest.approx([float(x) for x in both], abs=1e-5)
    recipes = [(tmp_path / name / "recipe.json").read_text() for name in ("one", "two")]
    assert recipes[0] == recipes[1]
