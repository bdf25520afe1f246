"""TolerantECG against arrays of the authors' code (tests/data/parity/tolerantecg)."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ecgbench.check import parity, rule
from ecgbench.models import tolerantecg

PACK = Path(__file__).parents[1] / "data" / "parity" / "tolerantecg"
KEYS = json.loads((PACK / "keys.json").read_text())
GOLDEN = dict(np.load(PACK / "golden_seed0.npz"))


@pytest.fixture(scope="module")
def network() -> tolerantecg.TolerantEcg:
    net = tolerantecg.build()
    assert rule.fill(net, KEYS, "public-0", tolerantecg.CARD.weights) == ""
    return net.eval().requires_grad_(False)


def test_parity() -> None:
    report = parity.check("tolerantecg", PACK / "golden_seed0.npz", PACK / "keys.json", "public-0")
    assert [row for row in report if row.status != "ok"] == []
    assert len(report) == 8


def test_entries_and_size_are_those_of_the_checkpoint(network: tolerantecg.TolerantEcg) -> None:
    theirs = {e["key"]: e["shape"] for e in KEYS["encoder_checkpoint"]}
    assert {k: list(v.shape) for k, v in network.state_dict().items()} == theirs
    count = sum(p.numel() for p in network.parameters())
    assert count == tolerantecg.CARD.parameters == KEYS["n_params_encoder"]


@pytest.mark.parametrize("time", [5000, 1250])
def test_every_stage_is_the_authors(network: tolerantecg.TolerantEcg, time: int) -> None:
    seen: list[torch.Tensor] = []
    parts = [network.downsample_layers[0], *network.stages]
    hooks = [part.register_forward_hook(lambda *args: seen.append(args[2])) for part in parts]
    x = torch.from_numpy(rule.windows("tolerantecg", "public-0", 12, time))
    features = network(x, torch.ones(2, 12, dtype=torch.bool))
    for hook in hooks:
        hook.remove()
    assert [x.shape[2] for x in seen[1:]] == GOLDEN[f"lengths_T{time}"].tolist()
    steps = [25 if time == 5000 else 10, *(max(1, x.shape[2] // 25) for x in seen[1:])]
    names = ["stem", *(f"stage{i}" for i in range(4))]
    for name, step, x in zip(names, steps, seen):
        golden = GOLDEN[f"{name}_T{time}"]
        assert np.abs(x[:, :16, ::step].numpy() - golden).max() <= 2e-5
    assert np.abs(features.sequence.mean(1).numpy() - GOLDEN[f"pooled_T{time}"]).max() <= 1e-5


def test_it_has_met_the_noise_of_the_noise_database() -> None:
    assert "NSTDB" in tolerantecg.CARD.corpora
    assert "commercial" in tolerantecg.CARD.weights[0].terms
