"""What is easily built wrong in ECGFM-KED's encoder."""

import pytest
import torch
from torch import nn

from ecgbench.models import ecgfmked


@pytest.fixture(scope="module")
def network() -> ecgfmked.Ked:
    return ecgfmked.build()


def test_shortcut_averages_what_is_there(network: ecgfmked.Ked) -> None:
    pool_only = network.get_submodule("6.0.idpath")
    assert pool_only(torch.tensor([[[1.0, 2.0, 4.0]]])).flatten().tolist() == [1.5, 4.0]
    assert len(list(network.get_submodule("4.1.idpath").children())) == 0


def test_untrained_conv_paths_end_in_zero(network: ecgfmked.Ked) -> None:
    blocks = [m for m in network.modules() if isinstance(m, ecgfmked.Bottleneck)]
    assert len(blocks) == 33
    assert not any(bool(m.convs.get_parameter("2.1.weight").any()) for m in blocks)
    convs = [m.weight.detach() for m in network.modules() if isinstance(m, nn.Conv1d)]
    assert all(float(w.square().mean()) * w[0].numel() == pytest.approx(2, rel=0.15) for w in convs)
