"""A variant of LAEF's encoder in one file: it keeps every promise, and is pre-trained."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ecgbench import models
from ecgbench.check.models import check
from ecgbench.weights import read

VARIANT = Path(__file__).with_name("one_block.py")
pytestmark = pytest.mark.usefixtures("one_thread")
Here = Callable[..., Any]


@pytest.mark.long
def test_it_keeps_every_promise_of_a_model() -> None:
    broken = [f"{row['name']}: {row['detail']}" for row in check(str(VARIANT)) if not row["ok"]]
    assert not broken


@pytest.mark.long
def test_it_is_pretrained_by_a_recipe_and_measured_with_its_weights(
    here: Here, typed: Callable[..., int], tmp_path: Path, copies: Path
) -> None:
    out = tmp_path / "made"
    words = ("smoke", "--model", VARIANT, "--set", "steps=2,1", "--device", "cpu")
    done = here("pretrain", *words, "--prepared", copies, "--out", out, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    weights = out / "encoder.safetensors"
    assert f"--models {VARIANT} --weights one_block={weights}" in done.stdout
    assert json.loads((out / "recipe.json").read_text())["recipe"]["model"] == "one_block"
    kept = json.loads((out / "stage2" / "encoders" / "000001.json").read_text())
    assert [layer["block"] for layer in kept["layers"]] == [0, 1]
    assert (out / "report" / "index.html").is_file()

    network = models.get(models.resolve(str(VARIANT))).build(weights)
    assert all(torch.equal(t, network.state_dict()[name]) for name, t in read.read(weights).items())
    run = tmp_path / "run"
    named = ("--models", str(VARIANT), "--weights", f"one_block={weights}", "--limit", "12")
    assert typed(run, *named) == 0
    assert here("report", run, cwd=tmp_path).returncode == 0
    assert "encoder.safetensors" in (run / "report" / "index.html").read_text()


def test_a_model_that_offers_no_nodes_is_refused_before_anything_is_computed(
    here: Here, tmp_path: Path, copies: Path
) -> None:
    words = ("smoke", "--model", "stmem", "--device", "cpu", "--prepared", copies, "--out", "o")
    done = here("pretrain", *words, cwd=tmp_path)
    assert done.returncode == 2
    told = "model stmem cannot be pre-trained: its network has no embed_leads, outputs"
    assert told in done.stderr
    assert not (tmp_path / "o").exists()
