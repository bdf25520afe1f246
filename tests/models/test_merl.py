"""MERL against arrays of the authors' code (tests/data/parity/merl), and what is easily built
wrong.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from ecgbench.check import parity, rule
from ecgbench.layers.features import Features
from ecgbench.models import merl

PACK = Path(__file__).parents[1] / "data" / "parity" / "merl"
KEYS = json.loads((PACK / "keys.json").read_text())
GOLDEN = dict(np.load(PACK / "golden_seed0.npz"))


@pytest.fixture(scope="module")
def network() -> merl.ResNet18:
    net = merl.build()
    assert rule.fill(net, KEYS, "public-0", merl.CARD.weights) == ""
    return net.eval()


@pytest.fixture
def frozen(network: merl.ResNet18) -> Iterator[merl.ResNet18]:
    yield network.requires_grad_(False)
    network.requires_grad_(True)


@pytest.fixture(scope="module")
def signal() -> torch.Tensor:
    return torch.from_numpy(rule.windows("merl", "public-0", 12, 1250))


def run(network: torch.nn.Module, signal: torch.Tensor) -> Features:
    with torch.inference_mode():
        features: Features = network(signal, torch.ones(signal.shape[:2], dtype=torch.bool))
    return features


def near(ours: torch.Tensor, golden: np.ndarray) -> None:
    assert ours.shape == golden.shape
    assert np.abs(ours.numpy() - golden).max() <= 1e-5 * max(1, np.abs(golden).max())


def test_parity() -> None:
    report = parity.check("merl", PACK / "golden_seed0.npz", PACK / "keys.json", "public-0")
    assert parity.passed(report), report


def test_entries_and_size_are_those_of_the_checkpoint(network: merl.ResNet18) -> None:
    theirs = {e["key"]: e["shape"] for e in KEYS["entries"] if not e["key"].startswith("linear.")}
    assert {k: list(v.shape) for k, v in network.state_dict().items()} == theirs
    assert sum(p.numel() for p in network.parameters()) == merl.CARD.parameters == 3_848_832


@pytest.mark.parametrize("time", [1250, 5000])
def test_every_layer_is_the_authors(network: merl.ResNet18, time: int) -> None:
    seen: list[torch.Tensor] = []
    layers = [network.get_submodule(f"layer{i}") for i in range(1, 5)]
    hooks = [layer.register_forward_hook(lambda *args: seen.append(args[2])) for layer in layers]
    hooks += [layers[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))]
    features = run(network, torch.from_numpy(rule.windows("merl", "public-0", 12, time)))
    for hook in hooks:
        hook.remove()
    assert [x.shape[2] for x in seen] == GOLDEN[f"lengths_T{time}"].tolist()
    for name, x in zip(("stem", "layer1"), seen):
        near(x.mean((0, 2)), GOLDEN[f"{name}_mean_T{time}"])
        near(x.std((0, 2), correction=0), GOLDEN[f"{name}_std_T{time}"])
    near(torch.stack([x.square().mean().sqrt() for x in seen[1:]]), GOLDEN[f"stage_rms_T{time}"])
    near(features.sequence[:, 0, :16], GOLDEN[f"seq_ch0_15_t0_T{time}"])
    near(features.sequence.mean(1), GOLDEN[f"features_T{time}"])


def test_the_frozen_network_is_the_authors_too(frozen: merl.ResNet18, signal: torch.Tensor) -> None:
    # norms folded into the convolutions, and folded again when a statistic changes
    near(run(frozen, signal).pooled, GOLDEN["features_T1250"])
    with torch.no_grad():
        frozen.bn1.running_mean.add_(1)  # type: ignore[union-attr]
        moved = run(frozen, signal).pooled.numpy()
        frozen.bn1.running_mean.sub_(1)  # type: ignore[union-attr]
    assert np.abs(moved - GOLDEN["features_T1250"]).max() > 0.01


def test_the_frozen_network_in_training_mode_normalises_by_the_batch(
    frozen: merl.ResNet18, signal: torch.Tensor
) -> None:
    before = {k: v.clone() for k, v in frozen.state_dict().items()}
    trained = run(frozen.train(), signal).pooled.numpy()
    moved = not torch.equal(frozen.bn1.running_mean, before["bn1.running_mean"])  # type: ignore[arg-type]
    frozen.eval().load_state_dict(before)
    assert moved
    assert np.abs(trained - GOLDEN["features_T1250"]).max() > 0.01


def test_operations_are_the_published_number(network: merl.ResNet18) -> None:
    with FlopCounterMode(display=False) as counter:
        run(network, torch.zeros(1, 12, 1250))
    assert counter.get_total_flops() == 862_947_840


def test_the_order_of_the_leads_shows(network: merl.ResNet18, signal: torch.Tensor) -> None:
    exchanged = signal[:, [0, 1, 2, 3, 5, 4, 6, 7, 8, 9, 10, 11]]
    difference = (run(network, exchanged).pooled - run(network, signal).pooled).abs().max()
    assert float(difference) == pytest.approx(0.035, abs=0.001)
    assert merl.CARD.contract("upstream").leads[4:6] == ("aVF", "aVL")
    assert merl.CARD.contract("paper").leads[4:6] == ("aVL", "aVF")


@pytest.mark.parametrize("mode", [True, False])
def test_gradients_reach_every_parameter(
    network: merl.ResNet18, signal: torch.Tensor, mode: bool
) -> None:
    before = {k: v.clone() for k, v in network.state_dict().items()}
    network.train(mode)(
        signal, torch.ones(2, 12, dtype=torch.bool)
    ).pooled.square().sum().backward()
    moved = not torch.equal(network.bn1.running_mean, before["bn1.running_mean"])  # type: ignore[arg-type]
    reached = [
        p.grad is not None and bool(p.grad.isfinite().all()) and bool(p.grad.any())
        for p in network.parameters()
    ]
    network.zero_grad(set_to_none=True)
    network.eval().load_state_dict(before)
    assert all(reached)
    assert moved == mode


def test_every_parameter_is_in_one_group(network: merl.ResNet18) -> None:
    def groups(name: str) -> list[str]:
        return [g for g, prefixes in merl.CARD.groups.items() if name.startswith(prefixes)]

    assert all(len(groups(name)) == 1 for name, _ in network.named_parameters())
    assert groups("layer2.0.shortcut.1.weight") == ["early"]
    assert groups("layer3.0.conv1.weight") == ["late"]


@pytest.mark.parametrize("shape", [(1, 11, 1250), (1, 12, 0), (12, 1250)])
def test_other_shapes_are_refused(network: merl.ResNet18, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="MERL reads signal"):
        network(torch.zeros(shape), torch.ones(1, 12, dtype=torch.bool))


def test_a_mask_is_refused(network: merl.ResNet18) -> None:
    measured = torch.ones(1, 12, dtype=torch.bool)
    measured[0, 3] = False
    with pytest.raises(ValueError, match="has no mask"):
        network(torch.zeros(1, 12, 1250), measured)
