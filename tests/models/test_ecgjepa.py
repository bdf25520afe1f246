"""ECG-JEPA against arrays of the authors' code (tests/data/parity/ecgjepa), and laws of the
network.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ecgbench.check import parity, rule
from ecgbench.layers.features import Features
from ecgbench.layers.torchvision_operators import import_timm
from ecgbench.models import ecgjepa

PACK = Path(__file__).parents[1] / "data" / "parity" / "ecgjepa"
KEYS = json.loads((PACK / "keys.json").read_text())
GOLDEN = dict(np.load(PACK / "golden_seed0.npz"))
ALL = torch.ones(2, 8, dtype=torch.bool)


@pytest.fixture(scope="module")
def network() -> ecgjepa.EcgJepa:
    net = ecgjepa.build()
    assert rule.fill(net, KEYS, "public-0") == ""
    return net.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def signal() -> Tensor:
    return torch.from_numpy(rule.windows("ecg-jepa", "public-0", 8, 2500))


def run(network: ecgjepa.EcgJepa, x: Tensor, measured: Tensor) -> Features:
    with torch.inference_mode():
        return network(x, measured)


def masks(*subsets: str) -> Tensor:
    return torch.tensor(
        [[lead in subset.split("+") for lead in ecgjepa.LEADS] for subset in subsets]
    )


def near(ours: Tensor, golden: np.ndarray) -> None:
    assert ours.shape == golden.shape
    assert np.abs(ours.numpy() - golden).max() <= 1e-5 * max(1, np.abs(golden).max())


def test_features_are_the_authors() -> None:
    report = parity.check("ecgjepa", PACK / "golden_seed0.npz", PACK / "keys.json", "public-0")
    assert [(row.array, row.status) for row in report] == [
        (a, "ok") for a in GOLDEN if a.startswith("feat")
    ]


def test_timm_reads_its_blocks_alike(network: ecgjepa.EcgJepa, signal: Tensor) -> None:
    """timm's Block with the same weights and a mask written here: an implementation by others."""
    import_timm()
    from timm.models.vision_transformer import Block

    rows = [1, 3]  # II, V2
    measured = torch.zeros(2, 8, dtype=torch.bool)
    measured[:, rows] = True
    lead, time = torch.arange(100) // 50, torch.arange(100) % 50
    mask = (lead[:, None] == lead) | (time[:, None] == time)
    places = network.pos_embed.view(8, 50, -1)[rows].flatten(0, 1)
    with torch.inference_mode():
        x = network.W_P(signal[:, rows].unflatten(2, (50, 50))).flatten(1, 2)
        block = Block(
            ecgjepa.WIDTH, ecgjepa.HEADS, qkv_bias=False, norm_layer=torch.nn.LayerNorm
        ).eval()
        for own in network.encoder_blocks.blocks:
            block.load_state_dict(own.state_dict())
            x = block(x + places, attn_mask=mask)
        sequence = network.norm(x)
    features = run(network, signal, measured)
    torch.testing.assert_close(features.sequence, sequence, rtol=0, atol=1e-6)
    torch.testing.assert_close(features.pooled, sequence.mean(1), rtol=0, atol=1e-6)


def test_entries_and_size_are_those_of_the_encoder_checkpoint(network: ecgjepa.EcgJepa) -> None:
    state = network.state_dict()
    assert {k: list(v.shape) for k, v in state.items()} == {
        e["key"]: e["shape"] for e in KEYS["encoder_checkpoint"]
    }
    assert (
        sum(p.numel() for p in network.parameters())
        == ecgjepa.CARD.parameters
        == KEYS["n_params_encoder"]
        == 85_374_720
    )
    assert KEYS["left"] == list(ecgjepa.CARD.fixed)


def test_only_the_positions_are_fixed_and_they_are_the_published_table() -> None:
    built = ecgjepa.build()
    assert [name for name, p in built.named_parameters() if not p.requires_grad] == list(
        ecgjepa.CARD.fixed
    )
    assert torch.equal(built.pos_embed, ecgjepa.position_table())
    row = ecgjepa.position_table()[53, [0, 1, 191, 192, 193, 384, 385, 576, 767]]
    expected = [
        0.141120,
        0.278380,
        3.14742e-4,
        -0.989992,
        -0.960471,
        0.841471,
        0.815251,
        0.540302,
        1.0,
    ]
    assert row.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.long
def test_twelve_heads_load_as_well_and_are_another_network(
    network: ecgjepa.EcgJepa, signal: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ecgjepa, "HEADS", 12)  # no shape of the checkpoint tells
    moved = run(network, signal, ALL).pooled.numpy() - GOLDEN["feat"]
    assert np.abs(moved).max() == pytest.approx(9.3e-2, abs=5e-4)


def test_tokens_after_each_stage_are_the_authors(network: ecgjepa.EcgJepa, signal: Tensor) -> None:
    seen: dict[str, Tensor] = {}
    blocks = network.encoder_blocks.blocks
    hooks = [
        blocks[0].register_forward_pre_hook(lambda m, args: seen.update(block0_in_s0=args[0])),
        blocks[0].register_forward_hook(lambda m, args, out: seen.update(block0_out_s0=out)),
        blocks[11].register_forward_hook(lambda m, args, out: seen.update(block11_out_s0=out)),
    ]
    run(network, signal[:1], ALL[:1])
    for hook in hooks:
        hook.remove()
    for stage, tokens in seen.items():
        near(tokens.flatten(1, 2)[:, ::5, :16], GOLDEN[stage])


def test_a_token_sees_its_lead_and_its_time() -> None:
    mask = ecgjepa.allowed(8, 50, torch.device("cpu"))
    assert mask.shape == (400, 400)
    assert mask.sum(1).eq(57).all()
    x = torch.randn(1, 8, 50, 768, generator=torch.Generator().manual_seed(0), requires_grad=True)
    (reached,) = torch.autograd.grad(ecgjepa.Attention()(x)[0, 2, 7].sum(), x)
    assert torch.equal(reached[0].any(-1).flatten(), mask[2 * 50 + 7])


@pytest.mark.parametrize("blank", [float("nan"), 0.0])
def test_leads_that_were_not_measured_are_never_read(
    network: ecgjepa.EcgJepa, signal: Tensor, blank: float
) -> None:
    measured = masks("II", "I+V6")
    noise = torch.where(measured[..., None], signal, torch.randn_like(signal))
    filled = torch.where(measured[..., None], signal, blank)
    for ours, theirs in zip(
        run(network, filled, measured), run(network, noise, measured), strict=True
    ):
        assert torch.equal(ours, theirs)


@pytest.mark.long
def test_a_batch_of_mixed_subsets_equals_each_window_alone(
    network: ecgjepa.EcgJepa, signal: Tensor
) -> None:
    subsets = ("I+II", "V2", "V1+V6")
    batch, measured = signal[[0, 1, 1]], masks(*subsets)
    together = run(network, batch, measured)
    assert together.sequence.shape == (3, 100, 768)
    for i, subset in enumerate(subsets):
        alone = run(network, batch[i : i + 1], measured[i : i + 1])
        tokens = 50 * len(subset.split("+"))
        assert alone.sequence.shape == (1, tokens, 768)
        near(together.pooled[i : i + 1], alone.pooled.numpy())
        near(together.sequence[i : i + 1, :tokens], alone.sequence.numpy())
        assert not together.sequence[i, tokens:].any()


@pytest.mark.long
@pytest.mark.parametrize(("leads", "gflop"), [(1, 8.589), (3, 26.321), (8, 73.876685)])
def test_operations_are_the_published_number_less_fused_attention(
    network: ecgjepa.EcgJepa, leads: int, gflop: float
) -> None:
    # published: with the products of all pairs of tokens; here they are in fused attention, which
    # torch's counter leaves out on a CPU
    measured = torch.arange(8)[None] < leads
    with FlopCounterMode(display=False) as counter:
        run(network, torch.zeros(1, 8, 2500), measured)
    dense = 12 * 4 * (50 * leads) ** 2 * 768
    assert (counter.get_total_flops() + dense) / 1e9 == pytest.approx(gflop, abs=5e-4)


@pytest.mark.long
def test_training_reaches_every_parameter_but_the_positions(
    network: ecgjepa.EcgJepa, signal: Tensor
) -> None:
    measured = masks("II", "I+II")
    blank = torch.where(measured[..., None], signal, torch.nan)
    for name, p in network.named_parameters():
        p.requires_grad_(not name.startswith(ecgjepa.CARD.fixed))
    network.train()(blank, measured).pooled.square().sum().backward()
    grads = {name: p.grad for name, p in network.named_parameters() if p.grad is not None}
    network.zero_grad(set_to_none=True)
    network.eval().requires_grad_(False)
    assert all(bool(g.isfinite().all()) and bool(g.any()) for g in grads.values())
    assert set(grads) == {name for name, _ in network.named_parameters()} - {"pos_embed"}


@pytest.mark.long
def test_half_precision_runs_and_stays_near(network: ecgjepa.EcgJepa, signal: Tensor) -> None:
    exact = run(network, signal[:1], ALL[:1]).pooled
    with torch.autocast("cpu", torch.bfloat16):
        rough = run(network, signal[:1], ALL[:1]).pooled.float()
    assert 1e-5 < (rough - exact).abs().max() < 0.1 * exact.abs().max()


def test_every_parameter_is_in_one_group(network: ecgjepa.EcgJepa) -> None:
    def groups(name: str) -> list[str]:
        return [g for g, prefixes in ecgjepa.CARD.groups.items() if name.startswith(prefixes)]

    assert all(len(groups(name)) == 1 for name, _ in network.named_parameters())
    assert groups("W_P.bias") == groups("encoder_blocks.blocks.1.norm1.bias") == ["early"]
    assert groups("encoder_blocks.blocks.10.norm1.bias") == groups("norm.weight") == ["late"]


@pytest.mark.parametrize("shape", [(1, 8, 2450), (1, 12, 2500), (8, 2500)])
def test_other_shapes_are_refused(network: ecgjepa.EcgJepa, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="ECG-JEPA reads"):
        network(torch.zeros(shape), ALL[:1])


def test_a_window_without_a_measured_lead_is_refused(network: ecgjepa.EcgJepa) -> None:
    measured = ALL.clone()
    measured[1] = False
    with pytest.raises(ValueError, match=r"window 1 .* no measured lead"):
        network(torch.zeros(2, 8, 2500), measured)
