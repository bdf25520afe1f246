"""The size of a batch is no matter of the result: one window at a time gives the logits of many
at once.
"""

import pytest
import torch

from ecgbench.core.seeds import seed_of
from ecgbench.evaluate import loop, network


@pytest.mark.parametrize(("name", "windows"), [("laef", 32), ("stmem", 8)])
def test_one_window_at_a_time_gives_the_logits_of_many_at_once(name: str, windows: int) -> None:
    net = network.build(name, "random")
    contract, generator = (
        net.card.contracts[0],
        torch.Generator().manual_seed(seed_of("batches") % 2**63),
    )
    shape = windows, len(contract.leads), contract.samples
    signal = torch.rand(shape, generator=generator) * 2 - 1
    measured = torch.ones(signal.shape[:2], dtype=torch.bool)
    head = loop.head(net.card.dim, 71, 0)
    with torch.inference_mode():
        together = head(net.module(signal, measured).pooled)
        alone = torch.cat(
            [
                head(net.module(signal[i : i + 1], measured[i : i + 1]).pooled)
                for i in range(0, windows, windows // 4)
            ]
        )
    assert (together[:: windows // 4] - alone).abs().max() <= 1e-3
    assert (together[1:] - together[:-1]).abs().max() > 1e-3
