"""ECG-FM against arrays of the authors' code (tests/data/parity/ecgfm), and its preparation."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ecgbench.check import parity, rule
from ecgbench.ecg.preprocess import normalise, view
from ecgbench.models import ecgfm

PACK = Path(__file__).parents[1] / "data" / "parity" / "ecgfm"
KEYS = json.loads((PACK / "keys.json").read_text())
GOLDEN = dict(np.load(PACK / "golden_seed0.npz"))


@pytest.fixture(scope="module")
def network() -> ecgfm.EcgFm:
    net = ecgfm.build()
    assert rule.fill(net, KEYS, "public-0", ecgfm.CARD.weights) == ""
    return net.eval().requires_grad_(False)


def test_parity() -> None:
    report = parity.check("ecgfm", PACK / "golden_seed0.npz", PACK / "keys.json", "public-0")
    assert parity.passed(report), report
    assert [row.array for row in report if row.status != "ok"] == ["feat_pad2000"]


def test_entries_and_size_are_those_of_the_encoder(network: ecgfm.EcgFm) -> None:
    left_out = KEYS["not_needed_for_features"]
    theirs = {e["key"]: e["shape"] for e in KEYS["checkpoint"] if e["key"] not in left_out}
    assert {k: list(v.shape) for k, v in network.state_dict().items()} == theirs
    count = sum(p.numel() for p in network.parameters())
    assert count == ecgfm.CARD.parameters == KEYS["n_params_encoder"]


def test_tokens_after_each_stage_are_the_authors(network: ecgfm.EcgFm) -> None:
    seen: dict[str, torch.Tensor] = {}
    stages = {
        "conv_feat": network.feature_extractor,
        "ln": network.layer_norm,
        "proj": network.post_extract_proj,
        "pos_conv": network.conv_pos,
        "hidden0": network.encoder.layer_norm,
        "hidden1": network.encoder.layers[0],
        "hidden12": network.encoder.layers[11],
    }
    hooks = [
        m.register_forward_hook(lambda m, i, out, name=name: seen.update({name: out.clone()}))
        for name, m in stages.items()
    ]
    x = torch.from_numpy(rule.windows("ecg-fm", "public-0", 12, 2500))
    network(x, torch.ones(2, 12, dtype=torch.bool))
    for hook in hooks:
        hook.remove()
    for name, tokens in seen.items():
        assert np.abs(tokens[:, ::5, :16].numpy() - GOLDEN[name]).max() <= 1e-5, name


def test_resampling_and_scaling_are_the_authors() -> None:
    x = rule.windows("ecg-fm-pre", "public-0", 12, 4000)[0].astype(np.float64)
    x[8], x[9] = 0.5, 0.7
    contract = ecgfm.CARD.contract("paper")
    made = normalise(view(x, 400, contract.preparation), contract.normalisation)
    assert np.abs(made[:, :2500:25] - GOLDEN["pre_400to500_z"]).max() <= 1e-5


@pytest.mark.parametrize("old", [False, True])
def test_both_spellings_of_the_files_are_read(
    network: ecgfm.EcgFm, tmp_path: Path, old: bool
) -> None:
    place = ".parametrizations.weight.original"
    state = {
        k.replace(f"{place}0", ".weight_g").replace(f"{place}1", ".weight_v") if old else k: v
        for k, v in network.state_dict().items()
    }
    more = {"mask_emb": torch.zeros(768), "quantizer.vars": torch.zeros(1, 640, 128)}
    torch.save({"model": state | more, "args": None}, tmp_path / "ecg.pt")
    read = ecgfm.build(tmp_path / "ecg.pt").state_dict()
    assert all(torch.equal(v, read[k]) for k, v in network.state_dict().items())
    tuned = {f"encoder.{k}": v for k, v in state.items()} | {"proj.bias": torch.zeros(17)}
    torch.save({"model": tuned}, tmp_path / "tuned.pt")
    read = ecgfm.build(tmp_path / "tuned.pt").state_dict()
    assert all(torch.equal(v, read[k]) for k, v in network.state_dict().items())
