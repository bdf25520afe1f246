"""What is easily built wrong in ECGFounder."""

import pytest
import torch

from ecgbench.models import ecgfounder
from tests.models.packs import filled, signal


@pytest.mark.parametrize("time", [12, 13])
def test_an_odd_zero_is_added_on_the_right(time: int) -> None:
    conv = ecgfounder.SameConv(1, 1, 16, stride=2)
    with torch.no_grad():
        conv.conv.weight.copy_(torch.arange(16.0)[None, None])
        conv.conv.bias.zero_()  # type: ignore[union-attr]
        first = torch.zeros(1, 1, time)
        first[..., 0] = 1
        # 7 zeros before the first sample, whether 14 are added or 15: it meets the taps 7, 5, 3, 1
        assert conv(first)[0, 0].tolist() == [7, 5, 3, 1, *[0] * (-(-time // 2) - 4)]


def test_the_pool_compares_an_odd_last_sample_with_zero() -> None:
    assert ecgfounder.halved(torch.tensor([[-3.0, -2.0, -4.0, -5.0, -1.0]])).tolist() == [
        [-2, -4, 0]
    ]
    assert ecgfounder.halved(torch.tensor([[-3.0, -2.0, -4.0, -5.0]])).tolist() == [[-2, -4]]
    assert ecgfounder.halved(torch.tensor([[7.0]])).tolist() == [[7]]


def test_training_mode_changes_nothing() -> None:
    """Neither batch norm nor dropout is on."""
    network, x, measured = (
        filled("ecgfounder"),
        signal("ecgfounder", 1250),
        torch.ones(2, 12).bool(),
    )
    before = {k: v.clone() for k, v in network.state_dict().items()}
    evaluated = network(x, measured).pooled
    assert torch.equal(evaluated, network.train()(x, measured).pooled)
    assert all(torch.equal(v, before[k]) for k, v in network.state_dict().items())
