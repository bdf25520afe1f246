"""What HuBERT-ECG leaves out in training."""

import pytest
import torch

from ecgbench.models import hubertecg


@pytest.mark.long
@torch.no_grad()
def test_training_drops_units_and_whole_layers() -> None:
    network, calls, every = hubertecg.build(), [], torch.ones(1, 12, dtype=torch.bool)
    for layer in network.encoder.layers:
        layer.register_forward_hook(lambda *args: calls.append(args[0]))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x = torch.randn(1, 12, 500)
        passes = [network(x, every).pooled for _ in range(4)]
    assert 4 * 12 * 0.6 < len(calls) < 4 * 12
    assert all(bool(p.isfinite().all()) for p in passes)
    assert not torch.equal(passes[0], passes[1])
