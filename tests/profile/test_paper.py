"""The paper's counting: exact integers of the specifications, from the weights our networks really
have.
"""

from types import ModuleType

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ecgbench import models
from ecgbench.profile import paper
from ecgbench.profile.flop import FlopCounter
from ecgbench.profile.stored import CLASSES

EXACT = {
    "ecgfounder": (601_757_696, "0.602"),
    "ecgjepa": (73_876_684_800, "73.877"),
    "stmem": (20_926_218_240, "20.926"),
    "merl": (862_947_840, "0.863"),
    "ecgfmked": (5_422_496_768, "5.423"),
    "hubertecg": (18_829_152_256, "18.829"),
    "ecgcpc": (1_741_209_600, "1.741"),
}
"""Model -> FLOP of the authors' backbone by torch's counter, and the paper's GFLOP with a small
head.
"""


def counted(module: ModuleType, name: str, leads: int) -> paper.Count:
    card = module.CARD
    with torch.device("meta"):  # shapes alone are counted
        network = module.build()
    found = paper.count(name, network, card.dim, card.contracts[0].received, leads)
    assert found is not None
    return found


@pytest.mark.parametrize("name", EXACT)
def test_baselines_to_the_last_operation(name: str) -> None:
    module = models.get(name)
    found = counted(module, name, 12)
    backbone, printed = EXACT[name]
    assert found.forward - 2 * CLASSES * module.CARD.dim == backbone
    assert f"{found.forward / 1e9:.3f}" == printed


@pytest.mark.parametrize(("leads", "backbone"), [(1, 572_289_024), (12, 6_867_468_288)])
def test_laef(leads: int, backbone: int) -> None:
    assert counted(models.get("laef"), "laef", leads).forward - 2 * CLASSES * 768 == backbone


def test_backward_is_what_autograd_runs_and_what_torchs_counter_makes_of_groups() -> None:
    """ECGFounder is convolutions and linear maps only, nearly all of them grouped."""
    module = models.get("ecgfounder")
    network, head = module.build().eval(), nn.Linear(module.CARD.dim, CLASSES)
    signal, measured = torch.randn(1, 12, 1250), torch.ones(1, 12, dtype=torch.bool)
    found = counted(module, "ecgfounder", 12)
    for counter, expected in (
        (FlopCounter(), found.backward),
        (FlopCounterMode(display=False), found.backward_dense),
    ):
        logits = head(network(signal, measured).pooled)
        weights = [*network.parameters(), *head.parameters()]
        with counter:
            torch.autograd.grad(logits, weights, torch.ones_like(logits), allow_unused=True)
        ours = isinstance(counter, FlopCounter)
        assert (counter.products if ours else counter.get_total_flops()) == expected


def test_an_array_that_is_not_declared_is_an_error() -> None:
    network = models.get("laef").build()
    network.extra = nn.Linear(3, 3)
    with pytest.raises(ValueError, match=r"extra\.weight"):
        paper.count("laef", network, 768, 500, 1)
