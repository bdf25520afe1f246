"""ST-MEM's positions, its sequence and what a lead costs."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ecgbench.models import stmem
from tests.models.packs import filled, golden, near, signal


def test_positions_are_the_published_table() -> None:
    row = stmem.position_table()[0, 2, [0, 1, 383, 384, 767]]
    assert row.tolist() == pytest.approx([0.841471, 0.828431, 1.0243e-4, 0.540302, 1.0], abs=1e-6)
    assert not stmem.position_table()[0, [0, -1]].any()


@pytest.fixture(scope="module")
def network() -> stmem.StMem:
    made: stmem.StMem = filled("stmem")
    return made


def test_the_sequence_is_without_separators_and_without_the_last_norm(network: stmem.StMem) -> None:
    sequence = network(signal("st-mem", 600), torch.ones(2, 12).bool()).sequence
    tokens = golden("stmem")["block11_T600"].reshape(2, 12, 10, 16)
    near(sequence[..., :16], tokens[:, :, 1:-1].reshape(2, 96, 16))


@pytest.mark.parametrize(("leads", "gflop"), [(12, 20.926218), (1, 1.703), (2, 3.414)])
@torch.inference_mode()
def test_operations_are_the_published_number(
    network: stmem.StMem, leads: int, gflop: float
) -> None:
    # the counter sees the attention's products only where they are spelled as products
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        network(torch.zeros(1, 12, 600), torch.arange(12)[None] < leads)
    assert counter.get_total_flops() / 1e9 == pytest.approx(gflop, abs=5e-4)
