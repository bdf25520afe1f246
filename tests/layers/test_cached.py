import pytest
import torch
from torch import Tensor, nn

from ecgbench.layers.cached import CachedTensors


@torch.no_grad()
@pytest.mark.parametrize(
    "change", ["optimiser", "load_state_dict", "in place", "pointed elsewhere", "another type"]
)
def test_what_is_derived_from_parameters_follows_them(change: str) -> None:
    """A stale copy of the weights would give features of a network that is no more."""
    layer, cached = nn.Linear(3, 2), CachedTensors()

    def found() -> Tensor:
        return cached([layer.weight], lambda: [layer.weight.T.contiguous()])[0]

    layer.requires_grad_(False)
    assert found() is found()
    kept = found()
    if change == "optimiser":
        layer.requires_grad_(True)
        layer.weight.grad = torch.ones_like(layer.weight)
        torch.optim.AdamW(layer.parameters()).step()
        layer.requires_grad_(False)
    elif change == "load_state_dict":
        layer.load_state_dict(nn.Linear(3, 2).state_dict())
    elif change == "in place":
        with torch.inference_mode():
            layer.weight.mul_(2)
    elif change == "pointed elsewhere":
        layer.weight.data = layer.weight.data + 1
    else:
        layer.double()
    assert found() is not kept
    assert torch.equal(found(), layer.weight.T)


def test_parameters_in_training_are_read_anew() -> None:
    layer, cached = nn.Linear(3, 2), CachedTensors()
    first, second = (cached([layer.weight], lambda: [layer.weight * 2])[0] for _ in range(2))
    assert first is not second
    assert first.requires_grad
