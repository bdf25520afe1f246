"""A network in a lower precision: used where the features stay near, and told apart in keys and
notes where they do.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from ecgbench import models
from ecgbench.evaluate.network import NEAR, Network, Placed, build, choose_path
from ecgbench.models import Features
from ecgbench.results.study import read


def test_a_network_in_bf16_gives_float32_features_near_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ecgbench.evaluate.network.TRIALS", 1)  # bf16 is slow on a CPU
    card = models.get("stmem").CARD
    rough = build("stmem", "random").in_precision("bf16", card.contract("paper"))
    assert rough.precision == "bf16"
    assert isinstance(rough.encoder, Placed)
    x, measured = 0.3 * torch.randn(1, 12, 600), torch.ones(1, 12, dtype=torch.bool)
    with torch.inference_mode():
        exact, near = rough.module(x, measured).pooled, rough.encoder(x, measured).pooled
    assert near.dtype == torch.float32
    assert 0 < float((near - exact).abs().max()) <= NEAR * float(exact.abs().max())


class Cancelling(nn.Module):
    """The small difference of large products: bf16 loses it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(600, 8)

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        found = self.linear(signal + 1000) - self.linear(torch.full_like(signal, 1000))
        return Features(found, found.mean(1))


def test_a_network_that_bf16_would_spoil_keeps_to_float32() -> None:
    tiny = Network(
        "odd", models.get("stmem").CARD, Cancelling().eval().requires_grad_(False), "random", ""
    )
    fed = tiny.card.contract("paper")
    assert tiny.in_precision("bf16", fed) is tiny
    assert tiny.in_precision("bf16", replace(fed, seconds=60)) is tiny


def test_precision_is_part_of_the_key_and_told(typed: Callable[..., int], tmp_path: Path) -> None:
    studies = {}
    for precision in ("float32", "bf16"):
        assert typed(tmp_path / precision, "--set", f"training.precision={precision}") == 0
        studies[precision] = read(tmp_path / precision)
        assert any("computed in bf16" in note for note in studies[precision].notes) == (
            precision == "bf16"
        )
    assert len({next((tmp_path / p / "cells").rglob("DONE")).parent.name for p in studies}) == 2
    exact, near = (float(studies[p].main["value"].iloc[0]) for p in ("float32", "bf16"))
    assert near == pytest.approx(exact, abs=0.05)


def test_a_model_chooses_how_it_computes(tmp_path: Path) -> None:
    """One without a choice is eager."""
    tiny = Path(__file__).parents[1] / "tiny.py"
    path = tmp_path / "choosing.py"
    path.write_text(
        tiny.read_text() + "\n\ndef choose_path(network, windows):\n    return f'for {windows}'\n"
    )
    name = models.resolve(str(path))
    network = models.get(name).build()
    assert choose_path(name, network, 7) == "for 7"
    assert choose_path("stmem", network, 7) == "eager"
