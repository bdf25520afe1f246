import numpy as np
import pytest
import torch
from torch import Tensor

from ecgbench.models import laef
from ecgbench.pretrain.collapse import Spread, edge_cosine, measure


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def entropy(*batches: Tensor) -> float:
    spread = Spread()
    for nodes in batches:
        spread.add(nodes)
    return spread.entropy()


def plain_entropy(nodes: np.ndarray) -> float:
    values = np.linalg.eigvalsh(
        np.cov(nodes.reshape(-1, nodes.shape[-1]).astype(np.float64), rowvar=False, bias=True)
    )
    p = values[values > 1e-12] / values[values > 1e-12].sum()
    return float(-(p * np.log(p)).sum() / np.log(nodes.shape[-1]))


def plain_cosine(nodes: np.ndarray) -> tuple[float, float]:
    """Over the pairs of one graph (lead, node, dim), one by one."""
    intra, inter = [], []
    places = list(np.ndindex(nodes.shape[:2]))
    for i, j in places:
        for k, m in places:
            one, other = nodes[i, j].astype(np.float64), nodes[k, m].astype(np.float64)
            cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
            if i == k and j != m:
                intra.append(cosine)
            elif i != k and j == m:
                inter.append(cosine)
    return float(np.mean(intra)), float(np.mean(inter))


def test_entropy_is_that_of_numpy_however_the_nodes_arrive() -> None:
    nodes = noise(90, 6) @ noise(6, 6) + 100
    expected = plain_entropy(nodes.numpy())
    assert entropy(nodes) == pytest.approx(expected, abs=1e-9)
    assert entropy(nodes[:1], nodes[1:50].view(7, 7, 6), nodes[50:]) == pytest.approx(
        expected, abs=1e-9
    )


def test_entropy_at_its_limits() -> None:
    """Equal nodes 0, one direction 0, k directions alike log k / log d, all alike 1; neither place
    nor scale counts.
    """
    same = noise(1, 16).expand(300, 16)
    assert entropy(same, same) == 0
    assert entropy(noise(300, 1) * noise(1, 16)) == pytest.approx(0, abs=1e-6)
    exact = torch.cat([torch.eye(16), -torch.eye(16)])
    assert entropy(exact) == pytest.approx(1, abs=1e-12)
    assert entropy(7 + 3 * exact) == pytest.approx(1, abs=1e-12)
    assert entropy(exact * (torch.arange(16) < 4)) == pytest.approx(0.5, abs=1e-12)
    assert entropy(noise(20_000, 16)) == pytest.approx(1, abs=1e-3)


def test_cosine_is_that_of_a_loop_over_pairs() -> None:
    nodes = noise(3, 4, 5, 8) + 0.3
    intra, inter = edge_cosine(nodes)
    expected = [plain_cosine(graph) for graph in nodes.numpy()]
    assert intra.tolist() == pytest.approx([e[0] for e in expected], abs=1e-6)
    assert inter.tolist() == pytest.approx([e[1] for e in expected], abs=1e-6)


def test_cosine_at_its_limits() -> None:
    """Equal nodes 1 in both; leads that are alike at each time step: 1 across; one lead has no edge
    across.
    """
    assert [float(c) for c in edge_cosine(noise(8).expand(1, 12, 20, 8))] == pytest.approx([1, 1])
    alike = noise(1, 1, 20, 4096).expand(1, 12, 20, 4096)
    intra, inter = edge_cosine(alike)
    assert float(intra) == pytest.approx(0, abs=0.01)
    assert float(inter) == pytest.approx(1)
    assert edge_cosine(noise(1, 1, 20, 8))[1].isnan().all()


def test_measured_layers_are_those_of_the_network() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = laef.build().train()
    signal = noise(3, 4, 500).clamp(-1, 1)
    found = measure(net, [signal[:2], signal[2:]])
    assert net.training
    assert [layer.block for layer in found] == [0, 1, 2]
    net.eval()
    with torch.no_grad():
        nodes = net.embed_leads(signal)
        for layer in found:
            graphs = nodes.numpy()
            assert layer.entropy == pytest.approx(plain_entropy(graphs), abs=1e-4)
            assert (layer.intra, layer.inter) == pytest.approx(
                np.mean([plain_cosine(g) for g in graphs], 0), abs=1e-4
            )
            nodes = nodes if layer.block == 2 else net.blocks[layer.block](nodes)
