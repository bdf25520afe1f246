"""A network in a lower precision, told apart in keys and notes, and how a model computes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ecgbench.evaluate.network import Placed, build
from ecgbench.results.study import read


def test_a_network_in_bf16_gives_float32_features_near_its_own() -> None:
    rough = build("stmem", "random", precision="bf16")
    assert isinstance(rough.encoder, Placed)
    x, measured = 0.3 * torch.randn(1, 12, 600), torch.ones(1, 12, dtype=torch.bool)
    with torch.inference_mode():
        exact, near = rough.module(x, measured).pooled, rough.encoder(x, measured).pooled
    assert near.dtype == torch.float32
    assert 0 < float((near - exact).abs().max()) <= 0.01 * float(exact.abs().max())


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
