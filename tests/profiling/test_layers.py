"""The paper's counting: exact integers of the specifications, from the weights our networks really
have.
"""

from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ecgbench import models
from ecgbench.profiling import layers
from ecgbench.profiling.flop import FlopCounter
from ecgbench.results.profile import CLASSES

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


def counted(module: ModuleType, name: str, leads: int) -> layers.Count:
    card = module.CARD
    with torch.device("meta"):  # shapes alone are counted
        network = module.build()
    found = layers.count(name, network, card.dim, card.contracts[0].received, leads)
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


def test_every_own_model_is_declared() -> None:
    own = [name for name in models.names() if models.ROOM.built_in(name)]
    for name in own:
        assert counted(models.get(name), name, 12).forward > 0


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
        with counter:
            torch.autograd.grad(
                logits,
                [*network.parameters(), *head.parameters()],
                torch.ones_like(logits),
                allow_unused=True,
            )
        products = (
            counter.products if isinstance(counter, FlopCounter) else counter.get_total_flops()
        )
        assert products == expected


def test_an_array_that_is_not_declared_is_an_error() -> None:
    network = models.get("laef").build()
    network.extra = nn.Linear(3, 3)
    with pytest.raises(ValueError, match=r"extra\.weight"):
        layers.count("laef", network, 768, 500, 1)


def test_modules_of_a_plug_in() -> None:
    network = nn.Sequential(
        nn.Conv1d(4, 8, 3, groups=2), nn.ConvTranspose1d(8, 2, 4, 2), nn.Flatten(), nn.Linear(32, 5)
    )
    expected = 2 * (7 * 8 * 2 * 3 + 7 * 8 * 2 * 4 + 32 * 5)
    assert layers.count_modules(network, lambda: network(torch.randn(1, 4, 9))) == (expected, "")


class Beside(nn.Module):
    """A called Linear, and something beside it."""

    def __init__(self, **beside: nn.Module | nn.Parameter) -> None:
        super().__init__()
        self.called = nn.Linear(8, 8)
        for name, value in beside.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.called(self.called(x))


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (nn.ReLU(), "no Linear or Conv"),
        (nn.LSTM(8, 8), "no Linear or Conv"),
        (Beside(cell=nn.GRU(8, 8)), "cell.weight_ih_l0 (24, 8)"),
        (Beside(kernel=nn.Parameter(torch.randn(8, 8, 3))), "kernel (8, 8, 3)"),
        (Beside(attention=nn.MultiheadAttention(8, 2)), "attention.in_proj_weight"),
        # F.linear(x, other.weight) would look the same
        (Beside(other=nn.Linear(8, 3)), "other is never called"),
    ],
    ids=["nothing", "lstm", "gru", "functional", "attention", "uncalled"],
)
def test_the_papers_rule_does_not_apply_and_why(network: nn.Module, said: str) -> None:
    found, reason = layers.count_modules(network, lambda: network(torch.randn(3, 8)))
    assert found is None
    assert said in reason


def test_arrays_that_the_papers_rule_leaves_out() -> None:
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))
    network = Beside(
        table=nn.Embedding(4, 8),
        norm=nn.LayerNorm((2, 8)),
        shift=nn.Parameter(torch.zeros(8)),
        called=normed,
    )
    assert layers.count_modules(network, lambda: network(torch.randn(3, 8))) == (
        2 * 2 * 3 * 8 * 8,
        "",
    )
