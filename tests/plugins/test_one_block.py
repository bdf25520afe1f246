"""A variant of LAEF's encoder in one file: it keeps every promise, stands on the page beside LAEF,
and is pre-trained.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ecgbench import models
from ecgbench.check.models import check
from ecgbench.cli import main
from ecgbench.weights import read

VARIANT = Path(__file__).with_name("one_block.py")
pytestmark = pytest.mark.usefixtures("one_thread")


def shown(run: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The page that `ecgbench report` writes of a run."""
    monkeypatch.setattr(sys, "argv", ["ecgbench", "report", str(run)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    return (run / "report" / "index.html").read_text()


def test_it_keeps_every_promise_of_a_model() -> None:
    broken = [f"{row['name']}: {row['detail']}" for row in check(str(VARIANT)) if not row["ok"]]
    assert not broken


@pytest.mark.long
def test_it_is_pretrained_by_a_recipe_and_measured_with_its_weights(
    tmp_path: Path,
    copies: Path,
    typed: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "made"
    options = ["smoke", "--set", "steps=2,1", "--device", "cpu"]
    options += ["--prepared", str(copies), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["ecgbench", "pretrain", "--model", str(VARIANT), *options])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    weights = out / "encoder.safetensors"
    assert f"--models {VARIANT} --weights one_block={weights}" in capsys.readouterr().out
    assert json.loads((out / "recipe.json").read_text())["recipe"]["model"] == "one_block"
    kept = json.loads((out / "stage2" / "encoders" / "000001.json").read_text())
    assert [layer["block"] for layer in kept["layers"]] == [0, 1]
    assert (out / "report" / "index.html").is_file()

    network = models.get(str(VARIANT)).build(weights)
    assert all(torch.equal(t, network.state_dict()[name]) for name, t in read.read(weights).items())
    words = ("--models", str(VARIANT), "--weights", f"one_block={weights}", "--limit", "12")
    assert typed(tmp_path / "run", *words) == 0
    assert "encoder.safetensors" in shown(tmp_path / "run", monkeypatch)


def test_a_model_that_offers_no_nodes_is_refused_before_anything_is_computed(
    tmp_path: Path,
    copies: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["smoke", "--device", "cpu", "--prepared", str(copies), "--out", str(tmp_path / "o")]
    monkeypatch.setattr(sys, "argv", ["ecgbench", "pretrain", "--model", "stmem", *options])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert (
        "model stmem cannot be pre-trained: its network has no embed_leads, outputs"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "o").exists()
