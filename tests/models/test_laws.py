"""What holds for every network. A network that differs from the others says so in its row of
`FACTS`; what is true for one network alone stands in its own file.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ecgbench import models
from ecgbench.check import parity
from ecgbench.ecg.leads import LEADS, LIMB
from ecgbench.weights.load import digest
from tests.models.packs import PARITY, SEED, golden, near, signal

OURS = [name for name in models.names() if models.ROOM.built_in(name)]
EIGHT = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")
MIMIC = ("I", "II", "III", "aVR", "aVF", "aVL", *LEADS[6:])
LARGE = 10_000_000
"""Parameters of a network that takes a second to build."""
HUGE = 50_000_000
"""Of one whose laws are among the slower tests; tests/test_numbers.py holds its features too."""
MIXED = ([0, -1], [0, 1, -1], [1])
"""Rows that were measured, of three windows."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is not the same for all networks."""

    time: int
    """Samples of a window."""
    pack: str = ""
    """Folder of the authors' arrays, and behind `_` what the names of its files hold; "": no pack
    whose arrays have the usual names.
    """
    input: str = "noise"
    """What the pack calls its input."""
    other: tuple[str, ...] = ()
    """Arrays of the pack that our network does not give, by intent."""
    sequence: tuple[str, Callable[[Tensor], Tensor]] | None = None
    """An array of the pack, and what of the sequence it is."""
    averaged: bool = True
    """Whether the pooled feature is the mean of the sequence."""
    leads: tuple[tuple[str, ...], ...] = ()
    """Of its contracts, one after the other; (): the twelve in clinical order."""
    groups: tuple[str, str] = ("", "")
    """A parameter of the group early, and one of late: where one ends and the other begins."""
    still: Callable[[str], bool] = lambda name: False
    """Parameters that no feature depends on."""
    flop: int = 0
    """Operations of a window by torch's counter, where they were published."""
    refused: tuple[int, ...] = ()
    """Lengths of windows that it does not read."""


def first_token(sequence: Tensor) -> Tensor:
    return sequence[:, 0, :16]


def idle_norm(name: str) -> bool:
    """Batch norms that are in the authors' file and are never called."""
    return ".bn" in name or name.startswith("first_bn")


FACTS = {
    "clef_medium": Facts(time=1250, input="clef", still=idle_norm),
    "clef_small": Facts(time=1250, input="clef", still=idle_norm),
    "ecgcpc": Facts(
        time=600,
        pack="ecgcpc",
        input="ecg-cpc",
        sequence=("tokens_T600", lambda s: s[:, [0, s.shape[1] // 2, -1], :16]),
        flop=1_741_209_600,
        refused=(2401,),
    ),
    "ecgfm": Facts(
        time=1250,
        pack="ecgfm",
        input="ecg-fm",
        other=("feat_pad2000",),
        refused=(15,),
    ),
    "ecgfmked": Facts(
        time=1000,
        pack="ecgfmked",
        input="ecgfm-ked",
        sequence=("seq_ch0_15_t0_T1000", first_token),
        leads=(LEADS, MIMIC),
        groups=("2.0.weight", "4.0.convs.0.0.weight"),
        flop=1_090_464_768,
    ),
    "ecgfounder": Facts(
        time=1250,
        pack="ecgfounder",
        input="ecgfounder",
        sequence=("seq_ch0_15_t0_T1250", first_token),
        groups=("stage_list.2.block_list.1.se_fc2.bias", "stage_list.3.block_list.0.se_fc2.bias"),
        still=idle_norm,
        flop=601_757_696,
    ),
    "ecgfounder1lead": Facts(
        time=1250,
        pack="ecgfounder_1lead",
        input="ecgfounder",
        leads=(("I",),) * 2,
        still=idle_norm,
    ),
    "ecgjepa": Facts(
        time=2500,
        pack="ecgjepa",
        input="ecg-jepa",
        leads=(EIGHT,) * 2,
        groups=("encoder_blocks.blocks.2.norm1.bias", "encoder_blocks.blocks.3.norm1.bias"),
        still=lambda name: name == "pos_embed",
        refused=(2450,),
    ),
    "hubertecg": Facts(
        time=500,
        pack="hubertecg",
        input="hubert-ecg",
        other=("feat_attention_mask",),
        sequence=("hidden12", lambda s: s[:, ::3, :16]),
        groups=("encoder.layers.5.layer_norm.bias", "encoder.layers.6.layer_norm.bias"),
        still=lambda name: name == "masked_spec_embed",
        flop=18_829_152_256,
        refused=(6,),
    ),
    "laef": Facts(time=500, groups=("embedder.norms.3.bias", "blocks.0.norm.bias")),
    "limb6_rhythm": Facts(time=1000, leads=(LIMB,) * 2),
    "merl": Facts(
        time=1250,
        pack="merl",
        input="merl",
        sequence=("seq_ch0_15_t0_T1250", first_token),
        leads=(LEADS, MIMIC),
        groups=("layer2.0.shortcut.1.weight", "layer3.0.conv1.weight"),
        flop=862_947_840,
    ),
    "simple_features": Facts(time=2500),
    "stmem": Facts(
        time=600,
        pack="stmem",
        input="st-mem",
        other=("feat_T600_upstream_onelead_II",),
        averaged=False,
        groups=("block2.ff.norm.bias", "block3.ff.norm.bias"),
        still=lambda name: name.startswith("lead_embeddings.") and name[-2:] not in (".0", ".1"),
        refused=(599, 2325),
    ),
    "tolerantecg": Facts(
        time=1250,
        pack="tolerantecg",
        input="tolerantecg",
        sequence=("pooled_T1250", lambda s: s.mean(1)),
        averaged=False,
        refused=(31,),
    ),
}


@dataclass(frozen=True)
class Made:
    """A network with the pseudo-weights of its pack, else with random ones."""

    name: str
    facts: Facts
    module: Any
    net: Any
    rows: list[parity.Row]
    """Of the comparison with the pack."""

    @property
    def native(self) -> bool:
        return bool(self.module.CARD.native)

    def windows(self, count: int = 2) -> tuple[Tensor, Tensor]:
        """signal (count, lead, time) and measured (count, lead): all."""
        leads = len(self.module.CARD.contracts[0].leads)
        # a network of one lead reads the first of the twelve
        x = signal(self.facts.input, self.facts.time, 12 if leads == 1 else leads)[:, :leads]
        return x.repeat(2, 1, 1)[:count], torch.ones(count, leads, dtype=torch.bool)


def weighed(names: Iterable[str], most: int = HUGE) -> list[Any]:
    """The same, those of networks with more parameters marked as long."""
    sizes = {name: models.ROOM.card(name).parameters or 0 for name in names}
    return [
        pytest.param(name, marks=[pytest.mark.long] * (size > most)) for name, size in sizes.items()
    ]


@pytest.fixture(scope="module", params=weighed(OURS))
def made(request: pytest.FixtureRequest) -> Made:
    name, facts = request.param, FACTS[request.param]
    module, kept, rows = models.get(name), [], []
    plain = module.build
    if not facts.pack:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            kept.append(plain().eval().requires_grad_(False))
    else:
        folder, _, part = facts.pack.partition("_")
        part = part and f"_{part}"
        files = PARITY / folder / f"golden{part}_seed0.npz", PARITY / folder / f"keys{part}.json"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "build", lambda: kept.append(plain()) or kept[-1])
            rows = parity.check(name, *files, SEED)
    return Made(name, facts, module, kept[0], rows)


def test_every_network_has_its_row() -> None:
    assert FACTS.keys() == {*OURS}


def test_features_are_those_of_the_authors(made: Made) -> None:
    wrong = [row.array for row in made.rows if row.status != "ok"]
    assert wrong == list(made.facts.other), made.rows
    assert parity.passed(made.rows) == bool(made.facts.pack)
    if made.facts.sequence:
        array, part = made.facts.sequence
        with torch.inference_mode():
            near(part(made.net(*made.windows()).sequence), golden(made.facts.pack)[array])


def test_the_card_is_true_of_parameters_groups_and_leads(made: Made) -> None:
    card, named = made.module.CARD, dict(made.net.named_parameters())
    assert sum(p.numel() for p in named.values()) == card.parameters
    leads = made.facts.leads or (LEADS,) * len(card.contracts)
    assert tuple(fed.leads for fed in card.contracts) == leads
    groups = {
        name: [group for group, begin in card.groups.items() if name.startswith(begin)]
        for name in named
    }
    assert all(len(found) == 1 for found in groups.values())
    if made.facts.groups[0]:
        assert [groups[name] for name in made.facts.groups] == [["early"], ["late"]]


def test_windows_of_a_batch_know_nothing_of_one_another_nor_of_hidden_leads(made: Made) -> None:
    """Windows of different leads, with NaN or noise in the others, are as each alone."""
    x, measured = made.windows(3)
    if made.native:
        for row, rows in zip(measured.fill_(False), MIXED):
            row[rows] = True
    with torch.inference_mode():
        one = made.net(torch.where(measured[..., None], x, torch.nan), measured)
        if made.native:
            other = torch.where(measured[..., None], x, 9 * torch.randn_like(x))
            for found, again in zip(one, made.net(other, measured), strict=True):
                assert torch.equal(found, again)
        assert one.pooled.shape == (3, made.module.CARD.dim)
        for i in range(3 if made.native else 1):
            alone = made.net(x[i : i + 1], measured[i : i + 1])
            tokens = alone.sequence.shape[1]
            near(one.pooled[i], alone.pooled[0])
            if made.facts.averaged:
                near(alone.pooled, alone.sequence.mean(1))
            near(one.sequence[i, :tokens], alone.sequence[0], 3e-5)
            assert not one.sequence[i, tokens:].any()


def test_gradients_reach_every_parameter(made: Made) -> None:
    """Finite ones, whatever stands in leads that were not measured."""
    if not made.module.CARD.parameters:
        return
    x, measured = made.windows(1)
    if made.native:
        measured[:, 2:] = False
    fixed = made.module.CARD.fixed
    for name, p in made.net.named_parameters():
        p.requires_grad_(name not in fixed)
    made.net(
        torch.where(measured[..., None], x, torch.nan), measured
    ).pooled.square().sum().backward()
    found = {name: p.grad for name, p in made.net.named_parameters() if p.grad is not None}
    made.net.zero_grad(set_to_none=True)
    made.net.requires_grad_(False)
    assert all(bool(grad.isfinite().all()) for grad in found.values())
    still = {name for name, _ in made.net.named_parameters() if made.facts.still(name)}
    reached = {name for name, grad in found.items() if grad.any()}
    assert dict(made.net.named_parameters()).keys() - reached == still


def test_half_precision_stays_near(made: Made) -> None:
    if not made.module.CARD.parameters:
        return
    x, measured = made.windows(1)
    measured[:, 2:] &= not made.native
    with torch.inference_mode():
        exact = made.net(x, measured).pooled
        with torch.autocast("cpu", torch.bfloat16):
            rough = made.net(x, measured).pooled.float()
    assert 1e-5 < (rough - exact).abs().max() < 0.03 * exact.abs().max()


@pytest.mark.parametrize(
    "made", weighed(n for n, facts in FACTS.items() if facts.flop), indirect=True
)
def test_operations_are_the_published_number(made: Made) -> None:
    x, measured = made.windows(1)
    with torch.inference_mode():
        made.net(x, measured)  # what follows from the weights alone is made once
        with FlopCounterMode(display=False) as counter:
            made.net(x, measured)
    assert counter.get_total_flops() == made.facts.flop


@pytest.mark.parametrize("name", [name for name in OURS if name != "laef"])
def test_what_is_no_signal_is_refused_in_one_line(name: str) -> None:
    module, facts = models.get(name), FACTS[name]
    fed = module.CARD.contract("paper")
    with torch.device("meta"):  # no weight is needed
        network = module.build().eval()
    x = torch.zeros(2, len(fed.leads), fed.received)
    measured = torch.ones(2, len(fed.leads), dtype=torch.bool)
    absent = measured.clone()
    absent[1, slice(None) if module.CARD.native else -1] = False
    for given, mask, told in (
        (x[:0], measured[:0], "reads"),
        (x.long(), measured, "reads"),
        (x, measured.float(), "reads"),
        (x[..., :0], measured, "reads"),
        (x[0], measured[0], "reads"),
        (x[:, 1:], measured[:, 1:], "reads"),
        (torch.cat([x, x], 1), measured.repeat(1, 2), "reads"),
        *((torch.zeros(2, len(fed.leads), time), measured, "reads") for time in facts.refused),
        (x, absent, "no measured lead" if module.CARD.native else "has no mask"),
    ):
        with pytest.raises(ValueError, match=told) as caught:
            network(given, mask)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", weighed(OURS, LARGE))
def test_a_seed_gives_one_network(name: str) -> None:
    def drawn(seed: int) -> str:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return digest(models.get(name).build())

    assert drawn(3) == drawn(3)
    assert (drawn(3) == drawn(4)) == (models.ROOM.card(name).parameters == 0)


@pytest.mark.parametrize("name", ["laef", "ecgcpc"])
def test_what_a_frozen_network_keeps_follows_its_weights(name: str) -> None:
    module = models.get(name)
    network, other = (module.build().eval().requires_grad_(False) for _ in range(2))
    x, measured = torch.randn(2, 12, 200), torch.ones(2, 12, dtype=torch.bool)
    with torch.inference_mode():
        before, expected = (net(x, measured).pooled for net in (network, other))
        network.load_state_dict(other.state_dict())
        near(network(x, measured).pooled, expected)
        assert not torch.allclose(before, expected, rtol=1e-2)


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
