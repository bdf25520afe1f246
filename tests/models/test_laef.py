import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ecgbench.errors import BadSetting
from ecgbench.evaluate.encode import Encoder
from ecgbench.layers.features import Features
from ecgbench.layers.lead_embedder import PlainLeadEmbedder
from ecgbench.models import laef
from ecgbench.policies.hide import NATIVE, Policy

MIXED = [[1, 0, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0], [0, 1, 0, 0, 1]]


@pytest.fixture(scope="module")
def net() -> laef.Laef:
    """Random weights, biases and norms too: at their initial 0 and 1 they could be left out
    unnoticed.
    """
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = laef.build().eval()
        for p in network.parameters():
            if p.dim() == 1:
                torch.nn.init.normal_(p, float(p.detach().mean().round()), 0.1)
    return network


def noise(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1)) * 2 - 1


def everyone(batch: int, leads: int) -> Tensor:
    return torch.ones(batch, leads, dtype=torch.bool)


def difference(a: Tensor, b: Tensor) -> float:
    """The largest one, as a part of the largest value where that is above 1: rounding in single
    precision grows with the values, and processors sum in different orders.
    """
    a, b = a.detach(), b.detach()
    return float((a - b).abs().max() / b.abs().max().clamp(min=1))


@pytest.mark.parametrize(("leads", "gflop"), [(1, 0.572289), (12, 6.867468)])
def test_reference_costs_what_the_paper_says(net: laef.Laef, leads: int, gflop: float) -> None:
    pytest.importorskip("torch_geometric")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        laef.reference(net)(noise(1, leads, 500), everyone(1, leads))
    assert round(counter.get_total_flops() / 1e9, 6) == gflop


@pytest.mark.parametrize(
    "measured",
    [
        everyone(2, 1),
        pytest.param(everyone(1, 12), marks=pytest.mark.long),
        torch.tensor(MIXED).bool(),
    ],
)
def test_dense_path_equals_edge_list_in_outputs_and_gradients(
    net: laef.Laef, measured: Tensor
) -> None:
    pytest.importorskip("torch_geometric")
    """Gradients in double precision: in single, GATv2Conv itself is off by 5e-4 where a LeakyReLU
    sits at its kink.
    """
    signal, direction = noise(*measured.shape, 500), noise(measured.shape[0], 768)

    def run(network: laef.Laef) -> tuple[Features, dict[str, Tensor]]:
        exact.zero_grad()
        found = network(signal.double(), measured)
        ((found.pooled * direction).sum() + found.sequence.square().mean()).backward()
        return found, {
            name: p.grad.clone() for name, p in exact.named_parameters() if p.grad is not None
        }

    exact = copy.deepcopy(net).double()
    ours, our_grads = run(exact)
    theirs, their_grads = run(laef.reference(exact))
    assert difference(ours.sequence, theirs.sequence) <= 1e-11
    assert difference(ours.pooled, theirs.pooled) <= 1e-11
    assert our_grads.keys() == their_grads.keys() == dict(net.named_parameters()).keys()
    for name, grad in their_grads.items():
        assert difference(our_grads[name], grad) <= 1e-11, name
    with torch.no_grad():
        assert (
            difference(
                net(signal, measured).sequence, laef.reference(net)(signal, measured).sequence
            )
            <= 1e-5
        )


def test_attention_is_that_of_a_loop_over_nodes(net: laef.Laef) -> None:
    """No torch_geometric: for each node its neighbours by name, LeakyReLU as written, one
    softmax.
    """
    layer = net.blocks[1].attention
    x = noise(1, 3, 4, 768)
    source, target = (m(x)[0].view(3, 4, 8, 96) for m in (layer.source, layer.target))
    found = layer(x)[0]
    for lead, time in ((0, 0), (2, 3)):
        neighbours = torch.stack(
            [source[lead, s] for s in range(4)]
            + [source[other, time] for other in range(3) if other != lead]
        )
        score = (
            torch.nn.functional.leaky_relu(neighbours + target[lead, time], 0.2) * layer.vector
        ).sum(-1)
        expected = (score.softmax(0).unsqueeze(-1) * neighbours).sum(0).flatten() + layer.bias
        assert difference(found[lead, time], expected) <= 1e-5


@torch.no_grad()
@pytest.mark.parametrize("samples", [40, 64, 250, 500, 501, 505, 523])
def test_embedder_equals_convolutions_at_any_length(net: laef.Laef, samples: int) -> None:
    signal = noise(3, samples)
    ours, theirs = net.embed_leads(signal), PlainLeadEmbedder(net.embedder)(signal)  # type: ignore[arg-type]
    assert ours.shape == theirs.shape
    assert difference(ours, theirs) <= 1e-5


@torch.no_grad()
def test_nodes_see_forty_samples_every_twenty_four(net: laef.Laef) -> None:
    signal = noise(500)
    tokens = net.embed_leads(signal)
    assert tokens.shape == (20, 768)
    for node in (0, 7, 19):
        own = net.config.node_samples(node)
        first, last = own.start, own.stop
        other = -signal
        other[first:last] = signal[first:last]
        assert torch.equal(net.embed_leads(other)[node], tokens[node])
        for edge in (first, last - 1):
            moved = signal.clone()
            moved[edge] += 0.5
            assert difference(net.embed_leads(moved)[node], tokens[node]) > 1e-4


@torch.no_grad()
def test_leads_are_embedded_alone(net: laef.Laef) -> None:
    """More leads than one pass of the embedder holds; a lead alone and among others."""
    signal = noise(2, 12, 500)
    tokens = net.embed_leads(signal)
    assert difference(tokens[1, 4], net.embed_leads(signal[1, 4])) <= 1e-5
    other = signal.clone()
    other[1, 5], other[1, 3] = 3.0, float("nan")
    assert torch.equal(net.embed_leads(other)[1, 4], tokens[1, 4])


@torch.no_grad()
def test_what_stands_in_unmeasured_tokens_changes_no_bit(net: laef.Laef) -> None:
    measured = torch.tensor(MIXED).bool()
    tokens = net.embed_leads(noise(4, 5, 500))
    once, again = (
        net.encode(tokens, measured),
        net.encode(tokens.masked_fill(~measured[..., None, None], float("nan")), measured),
    )
    assert torch.equal(once.sequence, again.sequence)
    assert torch.equal(once.pooled, again.pooled)


@torch.no_grad()
def test_encoding_embedded_leads_equals_forward(net: laef.Laef) -> None:
    measured = torch.tensor(MIXED).bool()
    signal = noise(4, 5, 500)
    whole, parts = net(signal, measured), net.encode(net.embed_leads(signal), measured)
    assert difference(whole.sequence, parts.sequence) <= 1e-5
    assert difference(whole.pooled, parts.pooled) <= 1e-5


@torch.no_grad()
def test_order_of_leads_does_not_matter_but_their_number_does(net: laef.Laef) -> None:
    signal = noise(2, 12, 500)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(3))
    found = net(signal, everyone(2, 12))
    assert difference(found.pooled, net(signal[:, order], everyone(2, 12)).pooled) <= 1e-5
    assert difference(found.pooled, net(signal[:, :6], everyone(2, 6)).pooled) > 1e-3


def test_constant_lead_gives_numbers_and_gradients(net: laef.Laef) -> None:
    net.zero_grad()
    found = net(torch.full((1, 2, 500), -1.0), everyone(1, 2))
    found.pooled.square().sum().backward()
    assert found.sequence.isfinite().all()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in net.parameters())


def test_dropout_in_training_only(net: laef.Laef, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coefficients are dropped from the joint softmax, 0.1 of them, the others scaled up; nodes
    after the GELU too.
    """
    signal = noise(2, 3, 500)
    with torch.no_grad(), torch.random.fork_rng():
        assert torch.equal(net(signal, everyone(2, 3)).pooled, net(signal, everyone(2, 3)).pooled)
        net.train()
        try:
            assert not torch.equal(
                net(signal, everyone(2, 3)).pooled, net(signal, everyone(2, 3)).pooled
            )
            attention = net.blocks[0].attention._attention(
                noise(8, 3, 20, 768), noise(8, 3, 20, 768)
            )
        finally:
            net.eval()
    assert attention.shape == (8, 3, 8, 20, 23)
    itself = torch.eye(3).bool()[None, :, None, None, :].expand(8, 3, 8, 20, 3)
    assert not attention[..., 20:][itself].any()
    others = torch.cat([attention[..., :20].flatten(), attention[..., 20:][~itself]])
    assert float((others == 0).float().mean()) == pytest.approx(0.1, abs=0.005)
    assert float(attention.sum(-1).mean()) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("signal", "measured", "told"),
    [
        (
            noise(2, 3, 500),
            torch.tensor([[1, 0, 0], [0, 0, 0]]).bool(),
            "1 of 2 windows have no measured lead",
        ),
        (noise(2, 3, 500), everyone(2, 12), r"measured \(2, 12\)"),
        (noise(2, 3, 39), everyone(2, 3), "39 samples"),
    ],
)
def test_what_it_cannot_read_is_refused(
    net: laef.Laef, signal: Tensor, measured: Tensor, told: str
) -> None:
    with pytest.raises(BadSetting, match=told):
        net(signal, measured)


@torch.no_grad()
def test_maps_of_the_first_block_belong_to_each_lead_alone(net: laef.Laef) -> None:
    measured = torch.tensor(MIXED).bool()
    tokens = net.embed_leads(noise(4, 5, 500))
    widened = net.per_lead(tokens)
    assert widened.shape == (4, 5, 20, 3 * 768)
    whole, parts = (
        net.encode(tokens, measured),
        net.encode(widened.masked_fill(~measured[..., None, None], float("nan")), measured),
    )
    assert difference(whole.sequence, parts.sequence) <= 1e-5
    assert difference(net.per_lead(tokens[1:2, 3:4])[0, 0], widened[1, 3]) <= 1e-5


def test_a_lead_setting_gives_the_same_bits_whatever_else_is_asked(net: laef.Laef) -> None:
    """Singles are computed twelve at once, asked for or not; windows in another order, and one
    without the other.
    """
    encoder = Encoder(net, laef.CARD.contract("paper"), Policy(NATIVE, None))
    signal, both = noise(12, 1000).numpy(), np.arange(2)
    everything = encoder(
        signal, dict.fromkeys((*(1 << lead for lead in range(12)), 3, 5, 4095), both)
    )
    for mask in (1 << 11, 0b101, 4095, 1):
        assert np.array_equal(encoder(signal, {mask: both})[mask], everything[mask])
    assert np.array_equal(encoder(signal, {2: both[1:]})[2], everything[2][1:])
    low, high = signal[1].min(), signal[1].max()
    scaled = torch.from_numpy(2 * (signal[1] - low) / (high - low) - 1).view(2, 1, 500)
    assert difference(torch.from_numpy(everything[2]), net(scaled, everyone(2, 1)).pooled) <= 1e-5


def test_the_default_configuration_is_the_papers_network() -> None:
    config = laef.LaefConfig()
    assert (config.spacing, config.field, config.node_samples(19)) == (24, 40, range(456, 496))
    assert (laef.Laef().depth, laef.Laef().width, len(laef.Laef().encodings)) == (
        2,
        laef.CARD.dim,
        0,
    )


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"heads": 7}, "heads=7"),
        ({"strides": (3, 2)}, "stride"),
        ({"kernels": (10, 3, 3, 5)}, "twice as long"),
        ({"encodings": ("time",)}, "time"),
    ],
)
def test_a_configuration_that_is_no_network_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(BadSetting, match=told):
        laef.LaefConfig(**wrong)


@torch.no_grad()
@pytest.mark.parametrize("encodings", [("lead",), ("position",), ("lead", "position")])
def test_encodings_tell_leads_and_times_apart_on_every_way_through(
    encodings: tuple[Any, ...],
) -> None:
    """Shifting all leads by one row moves the pooled feature where leads are encoded; nodes of a
    constant differ where places are.
    """
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = laef.Laef(laef.LaefConfig(width=32, blocks=2, encodings=encodings)).eval()
    signal, measured = noise(4, 5, 500), torch.tensor(MIXED).bool()
    whole, tokens = network(signal, measured), network.embed_leads(signal)
    for given in (tokens, network.per_lead(tokens)):
        assert difference(network.encode(given, measured).sequence, whole.sequence) <= 1e-5
    (nodes,) = network.outputs(tokens[measured], measured, (2,))
    assert difference(nodes[:2].flatten(0, 1), whole.sequence[0, :40]) <= 1e-5
    moved = network(signal.roll(1, 1), measured.roll(1, 1)).pooled
    assert (difference(moved, whole.pooled) > 1e-4) == ("lead" in encodings)
    still = network(torch.zeros(1, 1, 500), everyone(1, 1)).sequence[0]
    assert (difference(still[3], still[9]) > 1e-4) == ("position" in encodings)
