"""What holds for every network alike: refusals, and caches that follow the weights."""

import pytest
import torch

from ecgbench import models

OURS = [name for name in models.names() if models.ROOM.built_in(name)]


@pytest.mark.parametrize("name", ["merl", "ecgcpc", "ecgfmked"])
def test_a_frozen_network_notices_that_its_batch_norms_moved(name: str) -> None:
    """torch moves running statistics on a CPU without counting a change of the tensors."""
    module = models.get(name)
    network = module.build().eval().requires_grad_(False)
    x, measured = torch.randn(2, 12, 200), torch.ones(2, 12, dtype=torch.bool)
    for inference in (False, True):
        with torch.inference_mode(inference), torch.no_grad():
            before = network.eval()(x, measured).pooled.clone()
            network.train()(3 * x + 1, measured)
            after = network.eval()(x, measured).pooled.clone()
        again = module.build().eval().requires_grad_(False)
        again.load_state_dict(network.state_dict())
        with torch.no_grad():
            expected = again(x, measured).pooled
        assert not torch.allclose(before, after, rtol=1e-2)
        torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in OURS if name != "laef"])
def test_what_is_no_signal_is_refused_in_one_line(name: str) -> None:
    module = models.get(name)
    fed = module.CARD.contract("paper")
    with torch.device("meta"):  # no weight is needed
        network = module.build().eval()
    x, measured = (
        torch.zeros(2, len(fed.leads), fed.received),
        torch.ones(2, len(fed.leads), dtype=torch.bool),
    )
    for signal, mask in (
        (x[:0], measured[:0]),
        (x.long(), measured),
        (x, measured.float()),
        (x[..., :0], measured),
        (x[0], measured[0]),
    ):
        with pytest.raises(ValueError, match="reads") as caught:
            network(signal, mask)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["ecgcpc", "hubertecg"])
def test_in_double_precision(name: str) -> None:
    """Their Fourier transforms are float32 under autocast, and not in a network of float64."""
    module = models.get(name)
    network = module.build().eval().requires_grad_(False)
    x, measured = 0.3 * torch.randn(1, 12, 200), torch.ones(1, 12, dtype=torch.bool)
    with torch.no_grad():
        single, double = network(x, measured).pooled, network.double()(x.double(), measured).pooled
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-5)
