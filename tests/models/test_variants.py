"""The encoders of LAEF's ablations: their graphs, their formulas beside independent ones, and their
budget.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ecgbench import models
from ecgbench.check.models import check
from ecgbench.errors import BadSetting
from ecgbench.layers.gatv2 import EdgeListGATv2
from ecgbench.layers.grid import TOPOLOGIES, Topology, on_graph
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.models import laef
from ecgbench.pretrain.objective import new_network

VARIANTS = [name for name in models.ROOM.variants() if name.startswith("laef")]
LEADS, TIMES, WIDTH, HEADS = 3, 4, 16, 2
BUDGET = 1_582_080
"""Parameters of three GATv2 blocks of width 512 with their norms; within 5 % is the same budget."""
EMBEDDER = 2_108_416

pytestmark = pytest.mark.usefixtures("one_thread")


def small(name: str, **changes: Any) -> laef.LaefConfig:
    """The configuration of a variant, narrow and without dropout."""
    config: laef.LaefConfig = models.get(name).CONFIG
    return replace(config, **{"width": WIDTH, "heads": HEADS, "dropout": 0.0} | changes)


def layer_of(name: str) -> nn.Module:
    """What mixes nodes in a block, every parameter drawn: at 0 and 1 one could be left out."""
    config = small(name)
    torch.manual_seed(5)
    layer = config.attention(config).double()
    for p in layer.parameters():
        nn.init.normal_(p, 0.0, 0.4)
    return layer


def nodes(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def drops(batch: int) -> Tensor:
    """Some edges within leads, none from a node to itself."""
    drawn = torch.rand(batch, LEADS, TIMES, TIMES, generator=torch.Generator().manual_seed(7)) < 0.4
    drawn[..., range(TIMES), range(TIMES)] = False
    return drawn


def hears(topology: Topology, dropped: Tensor | None = None) -> Tensor:
    """(node, node) bool of one recording: rows hear columns; by a loop over all pairs."""
    count = LEADS * TIMES
    heard = torch.zeros(count, count, dtype=torch.bool)
    for i in range(count):
        for j in range(count):
            (lead, time), (other, then) = divmod(i, TIMES), divmod(j, TIMES)
            near = lead == other or time == then
            heard[i, j] = {"full": True, "none": i == j, "spatiotemporal": near}[topology]
            if dropped is not None and lead == other and dropped[lead, time, then]:
                heard[i, j] = False
    return heard


def gat(layer: Any, x: Tensor, heard: Tensor) -> Tensor:
    conv = EdgeListGATv2(layer).conv
    return conv(x, heard.nonzero().flip(1).T)


def gin(layer: Any, x: Tensor, heard: Tensor) -> Tensor:
    from torch_geometric.nn import GINConv

    conv = GINConv(nn.Identity(), train_eps=True)  # which resets what it is given
    conv.nn, conv.eps = nn.Sequential(layer.first, nn.GELU(), layer.second), layer.eps
    return conv(x, (heard & ~torch.eye(len(x), dtype=torch.bool)).nonzero().flip(1).T)


def graph_transformer(layer: Any, x: Tensor, heard: Tensor) -> Tensor:
    from torch_geometric.nn import TransformerConv

    conv = TransformerConv(WIDTH, WIDTH // HEADS, HEADS, root_weight=False)
    conv.lin_query, conv.lin_key, conv.lin_value = layer.query, layer.key, layer.value
    return conv(x, heard.nonzero().flip(1).T)


def mlp(layer: Any, x: Tensor, heard: Tensor) -> Tensor:
    hidden = x @ layer.first.weight.T + layer.first.bias
    hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
    return hidden @ layer.second.weight.T + layer.second.bias


def rotation(angle: Tensor) -> Tensor:
    row = torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])
    return torch.stack(row)


def restriction(layer: Any, x: Tensor, at: int, other: int) -> Tensor:
    """Map of the end `at` of the edge to `other`, (2, 2)."""
    return rotation(math.pi * torch.tanh(layer.own(x[at]) + layer.other(x[other]))[0])


def mixed(layer: Any, x: Tensor) -> Tensor:
    """(node, 2, channel): W1 X W2 of each node."""
    return layer.stalks @ x.unflatten(1, (2, -1)) @ layer.channels.weight.T


def diffusion(layer: Any, x: Tensor, heard: Tensor) -> Tensor:
    """By the coboundary: per hearing node its edges, delta^T delta, augmented degrees."""
    x, count = layer.lift(x), len(x)
    heard = heard & ~torch.eye(count, dtype=torch.bool)
    degree = heard.sum(1).double()
    h = mixed(layer, x)
    scaled = h / (degree + 1).sqrt()[:, None, None]
    out = torch.zeros_like(h)
    for i in range(count):
        for j in heard[i].nonzero().flatten().tolist():
            mine, other = restriction(layer, x, i, j), restriction(layer, x, j, i)
            out[i] += mine.T @ (mine @ scaled[i] - other @ scaled[j])
    out = out / (degree + 1).sqrt()[:, None, None]
    return layer.lower(x - nn.functional.elu(out.flatten(1)))


def attention(layer: Any, x: Tensor, heard: Tensor) -> Tensor:
    x = layer.lift(x)
    h, out = mixed(layer, x), []
    for i in range(len(x)):
        near = heard[i].nonzero().flatten().tolist()
        scores = torch.cat([layer.hearer(x[i]) + layer.heard(x[j]) for j in near])
        share = nn.functional.leaky_relu(scores, 0.2).softmax(0)
        out.append(
            sum(
                a * restriction(layer, x, i, j).T @ restriction(layer, x, j, i) @ h[j]
                for a, j in zip(share, near)
            )
        )
    return layer.lower(nn.functional.elu(torch.stack(out).flatten(1)))


BY_EDGES: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "laef_gat": gat,
    "laef_gin": gin,
    "laef_graph_transformer": graph_transformer,
    "laef_mlp": mlp,
    "laef_sheaf_diffusion": diffusion,
    "laef_sheaf_attention": attention,
}


def test_every_variant_is_tried_here_and_none_is_listed_among_the_models() -> None:
    assert sorted(VARIANTS) == sorted(BY_EDGES)
    assert not {*VARIANTS} & {*models.names()}


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("name", BY_EDGES)
def test_the_grid_computes_what_an_explicit_edge_list_gives(name: str, topology: Topology) -> None:
    """Values and gradients, with and without edges that are left out."""
    pytest.importorskip("torch_geometric")
    layer = layer_of(name)
    for dropped in (None, drops(2)):
        x = nodes(2, LEADS, TIMES, WIDTH).requires_grad_()
        found = on_graph(topology, layer, x, dropped=dropped)
        expected = torch.stack(
            [
                BY_EDGES[name](
                    layer, one.flatten(0, 1), hears(topology, None if dropped is None else gone)
                )
                for one, gone in zip(x, dropped if dropped is not None else x)
            ]
        ).view_as(x)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
        wish = nodes(*x.shape, seed=9)
        (ours,) = torch.autograd.grad(found, x, wish, retain_graph=True)
        (theirs,) = torch.autograd.grad(expected, x, wish)
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


def network(name: str, **changes: Any) -> laef.Laef:
    torch.manual_seed(1)
    made: laef.Laef = models.get(name).build(config=small(name, **changes))
    return made.double().eval()


def reach(net: NodeEncoder, leads: int, dropped: Tensor | None = None) -> Tensor:
    """(node, node) bool: whose output moves (rows) when one token does (columns), through the
    whole network.
    """
    tokens = nodes(leads, TIMES, WIDTH).requires_grad_()
    every = torch.ones(1, leads, dtype=torch.bool)
    (out,) = net.outputs(tokens, every, (net.depth,), dropped)
    moved = [
        torch.autograd.grad(node.sin().sum(), tokens, retain_graph=True)[0].abs().sum(-1).flatten()
        for node in out.flatten(0, 1)
    ]
    return torch.stack(moved) > 0


@pytest.mark.parametrize("name", VARIANTS)
def test_a_node_without_topology_depends_on_its_own_token_alone(name: str) -> None:
    assert torch.equal(reach(network(name, topology="none"), LEADS), torch.eye(12).bool())


@pytest.mark.parametrize("name", [n for n in VARIANTS if n != "laef_mlp"])
def test_one_block_reaches_the_neighbours_of_its_topology_and_not_what_is_dropped(
    name: str,
) -> None:
    for topology in TOPOLOGIES:
        net = network(name, topology=topology, blocks=1)
        assert torch.equal(reach(net, LEADS), hears(topology))
        if topology != "none":
            gone = drops(1)
            assert torch.equal(reach(net, LEADS, gone[0]), hears(topology, gone[0]))


@pytest.mark.parametrize("name", VARIANTS)
def test_with_one_lead_full_is_the_spatiotemporal_graph(name: str) -> None:
    signal, one = nodes(2, 1, 200), torch.ones(2, 1, dtype=torch.bool)
    near, full = (
        network(name, topology=topology)(signal, one).sequence
        for topology in ("spatiotemporal", "full")
    )
    torch.testing.assert_close(near, full, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("name", VARIANTS)
def test_leads_have_no_order_and_those_not_measured_are_not_there(
    name: str, topology: Topology
) -> None:
    net, signal = network(name, topology=topology), nodes(2, 5, 200)
    every = torch.ones(2, 5, dtype=torch.bool)
    order = torch.tensor([3, 0, 4, 1, 2])
    there = net(signal, every).sequence.unflatten(1, (5, -1))
    moved = net(signal[:, order], every).sequence.unflatten(1, (5, -1))
    torch.testing.assert_close(moved, there[:, order], rtol=1e-9, atol=1e-9)
    some = torch.tensor([[1, 0, 1, 1, 0], [1, 0, 1, 1, 0]]).bool()
    holes = signal.clone()
    holes[~some] = float("nan")
    alone = net(signal[:, [0, 2, 3]], torch.ones(2, 3, dtype=torch.bool)).pooled
    torch.testing.assert_close(net(holes, some).pooled, alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", VARIANTS)
def test_it_stands_in_the_papers_budget_on_the_shared_embedder(name: str) -> None:
    with torch.device("meta"):
        net = models.get(name).build()
    count = {k: sum(p.numel() for p in part.parameters()) for k, part in net.named_children()}
    assert count["embedder"] == EMBEDDER
    assert net.width == 512
    assert abs(count["blocks"] / BUDGET - 1) < 0.05
    assert EMBEDDER + count["blocks"] == models.ROOM.card(name).parameters


@pytest.mark.parametrize(
    ("width", "millions"),
    [(256, (0.795, 0.928, 1.060)), (512, (3.163, 3.690, 4.218)), (768, (7.104, 8.288, 9.473))],
)
def test_depth_and_width_have_the_parameters_that_the_paper_prints(
    width: int, millions: tuple[float, ...]
) -> None:
    for blocks, printed in zip((2, 3, 4), millions):
        with torch.device("meta"):
            net = laef.build(config=laef.LaefConfig(width=width, blocks=blocks))
        assert sum(p.numel() for p in net.parameters()) / 1e6 == pytest.approx(printed, abs=5.1e-4)


def test_the_embedder_starts_alike_in_every_variant() -> None:
    """So that cells of one study and seed differ in the encoder only."""
    starts = []
    for name in VARIANTS:
        torch.manual_seed(4)
        starts.append(models.get(name).build().embedder.state_dict())
    for other in starts[1:]:
        assert all(torch.equal(t, other[k]) for k, t in starts[0].items())


@pytest.mark.long
@pytest.mark.parametrize("name", VARIANTS)
def test_it_keeps_every_promise_of_a_model(name: str) -> None:
    broken = [f"{row['name']}: {row['detail']}" for row in check(name) if not row["ok"]]
    assert not broken


def test_a_recipe_may_change_the_shape_of_a_model_that_has_one() -> None:
    net = new_network("laef_gin", [("blocks", 1), ("topology", "full"), ("width", 32)])
    assert (net.depth, net.width, net.blocks[0].topology) == (1, 32, "full")  # type: ignore[attr-defined, operator, index]
    for model, shape in (("stmem", [("width", 64)]), ("laef_gin", [("breadth", 64)])):
        with pytest.raises(BadSetting, match=f"model {model} has no {shape[0][0]} to choose"):
            new_network(model, shape)
    with pytest.raises(BadSetting, match="topology round: choose from"):
        new_network("laef", [("topology", "round")])
