"""Which positions and which neighbours the tokens of ECG-JEPA have."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from ecgbench.models import ecgjepa
from tests.models.packs import filled, golden, signal


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


def test_a_token_sees_its_lead_and_its_time() -> None:
    mask = ecgjepa.allowed(8, 50, torch.device("cpu"))
    assert mask.shape == (400, 400)
    assert mask.sum(1).eq(57).all()
    x = torch.randn(1, 8, 50, 768, generator=torch.Generator().manual_seed(0), requires_grad=True)
    (reached,) = torch.autograd.grad(ecgjepa.Attention()(x)[0, 2, 7].sum(), x)
    assert torch.equal(reached[0].any(-1).flatten(), mask[2 * 50 + 7])


@pytest.mark.long
def test_twelve_heads_load_as_well_and_are_another_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ecgjepa, "HEADS", 12)  # no shape of the checkpoint tells
    x = signal("ecg-jepa", 2500, 8)
    moved = filled("ecgjepa")(x, torch.ones(2, 8).bool()).pooled.numpy() - golden("ecgjepa")["feat"]
    assert np.abs(moved).max() == pytest.approx(9.3e-2, abs=5e-4)


@pytest.mark.long
@pytest.mark.parametrize(("leads", "gflop"), [(1, 8.589), (3, 26.321), (8, 73.876685)])
@torch.inference_mode()
def test_operations_are_the_published_number_less_fused_attention(leads: int, gflop: float) -> None:
    # published: with the products of all pairs of tokens; here they are in fused attention, which
    # torch's counter leaves out on a CPU
    network, measured = ecgjepa.build().eval(), torch.arange(8)[None] < leads
    with FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, 8, 2500), measured)
    dense = 12 * 4 * (50 * leads) ** 2 * 768
    assert (counter.get_total_flops() + dense) / 1e9 == pytest.approx(gflop, abs=5e-4)
