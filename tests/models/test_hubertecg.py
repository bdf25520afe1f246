"""HuBERT-ECG against arrays of the authors' code (tests/data/parity/hubertecg), and laws of the
network.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ecgbench.check import parity
from ecgbench.check import rule as parity_rule
from ecgbench.layers.features import Features
from ecgbench.models import hubertecg

PACK = Path(__file__).parents[1] / "data" / "parity" / "hubertecg"
KEYS = json.loads((PACK / "keys.json").read_text())
GOLDEN = dict(np.load(PACK / "golden_seed0.npz"))
ALL = torch.ones(4, 12, dtype=torch.bool)


@pytest.fixture(scope="module")
def network() -> hubertecg.HubertEcg:
    net = hubertecg.build()
    assert parity_rule.fill(net, KEYS, "public-0") == ""
    return net.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def signal() -> Tensor:
    return torch.from_numpy(parity_rule.windows("hubert-ecg", "public-0", 12, 500))


def run(network: hubertecg.HubertEcg, x: Tensor) -> Features:
    with torch.inference_mode():
        return network(x, ALL[: len(x)])


def near(ours: Tensor, golden: np.ndarray) -> None:
    assert ours.shape == golden.shape
    assert np.abs(ours.numpy() - golden).max() <= 1e-5 * max(1, np.abs(golden).max())


def rule(key: str, *shape: int) -> Tensor:
    return torch.from_numpy(parity_rule.weight(key, shape, "public-0"))


def test_features_are_the_authors() -> None:
    report = parity.check("hubertecg", PACK / "golden_seed0.npz", PACK / "keys.json", "public-0")
    assert report.ok
    assert [row.array for row in report.rows if row.status == "ok"] == [
        f"feat{kind}"
        for kind in ("", "_zerofill_II", "_absentminus1_II", "_zerofill_I_II", "_absentminus1_I_II")
    ]


def test_tokens_after_each_stage_are_the_authors(
    network: hubertecg.HubertEcg, signal: Tensor
) -> None:
    seen: dict[str, Tensor] = {}
    encoder = network.encoder
    stages = {
        "conv_feat": network.feature_extractor,
        "proj": network.feature_projection,
        "pos_conv": encoder.pos_conv_embed,
        "hidden0": encoder.layer_norm,
        "hidden1": encoder.layers[0],
        "hidden8": encoder.layers[7],
        "hidden12": encoder.layers[11],
    }
    hooks = [
        m.register_forward_hook(lambda m, i, out, name=name: seen.update({name: out.clone()}))
        for name, m in stages.items()
    ]
    features = run(network, signal)
    for hook in hooks:
        hook.remove()
    for name in ("conv_feat", "proj", "pos_conv", "hidden0", "hidden1", "hidden12"):
        near(seen[name][:, ::3, :16], GOLDEN[name])
    near(seen["hidden8"].mean(1), GOLDEN["hidden8_mean"])
    assert torch.equal(features.sequence, seen["hidden12"])
    projected = F.linear(
        features.sequence[:1, ::12],
        rule("final_proj.0.weight", 256, 768),
        rule("final_proj.0.bias", 256),
    )
    codes = rule("label_embedding.0.weight", 500, 256)[:64]
    near(
        F.normalize(projected, dim=-1) @ F.normalize(codes, dim=-1).T / 0.1,
        GOLDEN["pretrain_logits_s0"],
    )


def test_entries_and_size_are_those_of_the_backbone(network: hubertecg.HubertEcg) -> None:
    state = network.state_dict()
    inside = [
        e
        for e in KEYS["checkpoint"]
        if e["key"] == "masked_spec_embed" or e["key"] not in KEYS["not_needed_for_features"]
    ]
    assert {k: list(v.shape) for k, v in state.items()} == {e["key"]: e["shape"] for e in inside}
    assert (
        sum(p.numel() for p in network.parameters())
        == hubertecg.CARD.parameters
        == KEYS["n_params_backbone"]
        == 92_798_848
    )


def test_both_spellings_of_the_released_names_become_ours(network: hubertecg.HubertEcg) -> None:
    wanted, modern = set(network.state_dict()), [e["key"] for e in KEYS["checkpoint"]]
    older = [
        k.replace("parametrizations.weight.original0", "weight_g").replace(
            "parametrizations.weight.original1", "weight_v"
        )
        for k in modern
    ]
    assert len(set(older) - set(modern)) == 2
    for layout in hubertecg.CARD.weights:
        for names in (modern, older):
            kept = {name for name in names if not name.startswith(layout.drop)}
            for theirs, ours in layout.aliases:
                kept = {name.replace(theirs, ours) for name in kept}
            assert kept == wanted


def test_operations_are_the_published_number(network: hubertecg.HubertEcg) -> None:
    # the published figure leaves fused attention out
    with FlopCounterMode(display=False) as counter:
        run(network, torch.zeros(1, 12, 500))
    assert counter.get_total_flops() / 1e9 == pytest.approx(18.829152, abs=1e-6)


def test_one_window_alone_is_as_in_a_batch(network: hubertecg.HubertEcg, signal: Tensor) -> None:
    batch = signal[[0, 1, 1, 0]]  # 372 rows: products are taken in another order than for 93
    together, alone = run(network, batch), run(network, signal[1:])
    near(together.pooled[1:2], alone.pooled.numpy())
    near(together.sequence[1:2], alone.sequence.numpy())


def test_gradients_reach_every_parameter_but_the_mask_vector(
    network: hubertecg.HubertEcg, signal: Tensor
) -> None:
    network.requires_grad_(True)
    network(signal[:1], ALL[:1]).pooled.square().sum().backward()
    reached = {
        name for name, p in network.named_parameters() if p.grad is not None and bool(p.grad.any())
    }
    network.zero_grad(set_to_none=True)
    network.requires_grad_(False)
    assert reached == {name for name, _ in network.named_parameters()} - {"masked_spec_embed"}


def test_training_drops_units_and_whole_layers(
    network: hubertecg.HubertEcg, signal: Tensor
) -> None:
    calls: list[int] = []
    hooks = [
        layer.register_forward_hook(lambda m, i, out, n=n: calls.append(n))
        for n, layer in enumerate(network.encoder.layers)
    ]
    torch.manual_seed(0)
    with torch.no_grad():
        passes = [network.train()(signal[:1], ALL[:1]).pooled for _ in range(4)]
    network.eval()
    for hook in hooks:
        hook.remove()
    assert 4 * 12 * 0.6 < len(calls) < 4 * 12
    assert all(bool(p.isfinite().all()) for p in passes)
    assert not torch.equal(passes[0], passes[1])


def test_half_precision_runs_and_stays_near(network: hubertecg.HubertEcg, signal: Tensor) -> None:
    exact = run(network, signal[:1]).pooled
    with torch.autocast("cpu", torch.bfloat16):
        rough = run(network, signal[:1]).pooled.float()
    assert 1e-5 < (rough - exact).abs().max() < 0.1 * exact.abs().max()


def test_every_parameter_is_in_one_group(network: hubertecg.HubertEcg) -> None:
    def groups(name: str) -> list[str]:
        return [g for g, prefixes in hubertecg.CARD.groups.items() if name.startswith(prefixes)]

    assert all(len(groups(name)) == 1 for name, _ in network.named_parameters())
    assert (
        groups("encoder.layers.1.layer_norm.bias")
        == groups("encoder.layers.5.layer_norm.bias")
        == ["early"]
    )
    assert (
        groups("encoder.layers.6.layer_norm.bias")
        == groups("encoder.layers.10.layer_norm.bias")
        == ["late"]
    )


@pytest.mark.parametrize("shape", [(1, 11, 500), (12, 500), (1, 12, 6)])
def test_other_shapes_are_refused(network: hubertecg.HubertEcg, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="HuBERT-ECG reads"):
        network(torch.zeros(shape), ALL[:1])


def test_rows_that_were_not_measured_are_refused(network: hubertecg.HubertEcg) -> None:
    measured = ALL[:1].clone()
    measured[0, 3] = False
    with pytest.raises(ValueError, match="has no mask"):
        network(torch.zeros(1, 12, 500), measured)
