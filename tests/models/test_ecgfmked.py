"""ECGFM-KED's encoder against arrays of the authors' code (tests/data/parity/ecgfmked), and laws of
the network.
"""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ecgbench.check import parity, rule
from ecgbench.layers.features import Features
from ecgbench.models import ecgfmked

PACK = Path(__file__).parents[1] / "data" / "parity" / "ecgfmked"
KEYS = json.loads((PACK / "keys.json").read_text())
GOLDEN = dict(np.load(PACK / "golden_seed0.npz"))
ALL = torch.ones(2, 12, dtype=torch.bool)


@pytest.fixture(scope="module")
def network() -> ecgfmked.Ked:
    net = ecgfmked.build()
    assert rule.fill(net, KEYS, "public-0") == ""
    return net.eval().requires_grad_(False)


def signal(time: int) -> Tensor:
    return torch.from_numpy(rule.windows("ecgfm-ked", "public-0", 12, time))


def run(network: ecgfmked.Ked, x: Tensor) -> Features:
    with torch.inference_mode():
        return network(x, ALL[: len(x)])


def near(ours: Tensor | np.ndarray, golden: np.ndarray) -> None:
    assert ours.shape == golden.shape
    assert np.abs(np.asarray(ours) - golden).max() <= 1e-5 * max(1, np.abs(golden).max())


def keep(
    seen: dict[str, Tensor], name: str, _module: nn.Module, _args: object, out: Tensor
) -> None:
    seen[name] = out


def test_features_are_the_authors() -> None:
    report = parity.check("ecgfmked", PACK / "golden_seed0.npz", PACK / "keys.json", "public-0")
    assert [(row.array, row.status) for row in report.rows] == [
        ("features_T1000", "ok"),
        ("features_T5000", "ok"),
    ]


def test_entries_are_those_of_the_checkpoint_with_one_spelling(network: ecgfmked.Ked) -> None:
    state = network.state_dict()
    assert {k: list(t.shape) for k, t in state.items()} == {
        e["key"]: e["shape"] for e in KEYS["entries"] if not e.get("same_tensor_as")
    }
    spelled = {e["same_tensor_as"]: e["key"] for e in KEYS["entries"] if e.get("same_tensor_as")}
    assert len(spelled) == 594
    (pair,) = ecgfmked.CARD.weights[0].aliases
    assert {theirs.replace(*pair) for theirs in spelled.values()} == set(spelled) <= set(state)
    assert sum(p.numel() for p in network.parameters()) == ecgfmked.CARD.parameters == 7_865_984


def test_the_authors_file_may_hold_both_spellings(network: ecgfmked.Ked, tmp_path: Path) -> None:
    state = network.state_dict()
    inner = {e["key"]: state[e.get("same_tensor_as", e["key"])] for e in KEYS["entries"]}
    path = tmp_path / "released.pt"
    torch.save({"model": {}, "ecg_model": inner, "epoch": 3}, path)
    loaded = ecgfmked.build(path).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())


def test_maps_after_each_module_are_the_authors(network: ecgfmked.Ked) -> None:
    for time in (1000, 5000):
        seen: dict[str, Tensor] = {}
        hooks = [
            m.register_forward_hook(partial(keep, seen, n)) for n, m in network.named_children()
        ]
        sequence = run(network, signal(time)).sequence
        for hook in hooks:
            hook.remove()
        for name, module in (("stem", "2"), ("stage0", "4")):
            near(seen[module].mean((0, 2)), GOLDEN[f"{name}_mean_T{time}"])
            near(seen[module].numpy().std((0, 2)), GOLDEN[f"{name}_std_T{time}"])
        near(
            np.array([m.square().mean().sqrt() for m in seen.values()]),
            GOLDEN[f"stage_rms_T{time}"],
        )
        assert [m.shape[2] for m in seen.values()] == GOLDEN[f"lengths_T{time}"].tolist()
        near(sequence[:, 0, :16], GOLDEN[f"seq_ch0_15_t0_T{time}"])


def test_pooled_is_the_mean_of_the_sequence_and_swapped_leads_move_the_tokens(
    network: ecgfmked.Ked,
) -> None:
    x = signal(1000)
    features = run(network, x)
    torch.testing.assert_close(features.pooled, features.sequence.mean(1))
    swapped = run(network, x[:, [0, 1, 2, 3, 5, 4, *range(6, 12)]])
    assert float((swapped.sequence - features.sequence)[:, 0, :16].abs().max()) == pytest.approx(
        0.064, abs=6e-4
    )
    assert float((swapped.pooled - features.pooled).abs().max()) == pytest.approx(0.026, abs=5e-4)


def test_shortcut_averages_what_is_there(network: ecgfmked.Ked) -> None:
    pool_only = network.get_submodule("6.0.idpath")
    assert pool_only(torch.tensor([1.0, 2.0, 4.0]).view(1, 1, 3)).flatten().tolist() == [
        1.5,
        4.0,
    ]
    assert len(list(network.get_submodule("4.1.idpath").children())) == 0


@pytest.mark.parametrize(("time", "flop"), [(1000, 1_090_464_768), (5000, 5_422_496_768)])
def test_operations_are_the_published_number(network: ecgfmked.Ked, time: int, flop: int) -> None:
    with FlopCounterMode(display=False) as counter:
        run(network, torch.zeros(1, 12, time))
    assert counter.get_total_flops() == flop


def test_untrained_conv_paths_end_in_zero() -> None:
    network = ecgfmked.build()
    last = [
        m.convs.get_parameter("2.1.weight")
        for m in network.modules()
        if isinstance(m, ecgfmked.Bottleneck)
    ]
    assert len(last) == 33
    assert not any(bool(w.any()) for w in last)
    convs = [m.weight.detach() for m in network.modules() if isinstance(m, nn.Conv1d)]
    assert all(float(w.square().mean()) * w[0].numel() == pytest.approx(2, rel=0.15) for w in convs)


def test_training_reaches_every_parameter_and_moves_the_statistics() -> None:
    network = ecgfmked.build()
    assert rule.fill(network, KEYS, "public-0") == ""
    x = signal(500)
    network(x, ALL).pooled.square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in network.parameters())
    before = run(network.eval(), x).pooled
    with torch.no_grad():
        network.get_parameter("7.2.convs.1.1.weight").mul_(2)
    assert not torch.equal(run(network, x).pooled, before)
    assert int(network.get_buffer("7.2.convs.1.1.num_batches_tracked")) == 1


def test_half_precision_stays_near(network: ecgfmked.Ked) -> None:
    x = signal(1000)
    with torch.autocast("cpu", torch.bfloat16):
        half = run(network, x).pooled
    torch.testing.assert_close(half.float(), run(network, x).pooled, atol=0.3, rtol=0)


def test_every_parameter_is_in_one_group(network: ecgfmked.Ked) -> None:
    groups = ecgfmked.CARD.groups
    assert all(
        sum(n.startswith(prefixes) for prefixes in groups.values()) == 1
        for n, _ in network.named_parameters()
    )
    assert "2.0.weight".startswith(groups["early"])
    assert "4.0.convs.0.0.weight".startswith(groups["late"])


def test_upstream_reads_the_order_of_mimic() -> None:
    assert ecgfmked.CARD.contract("upstream").leads[3:6] == ("aVR", "aVF", "aVL")


@pytest.mark.parametrize("shape", [(1, 11, 1000), (1, 12, 0), (12, 1000)])
def test_other_shapes_are_refused(network: ecgfmked.Ked, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="ECGFM-KED reads"):
        network(torch.zeros(shape), torch.ones(1, 12, dtype=torch.bool))


def test_an_absent_lead_is_refused(network: ecgfmked.Ked) -> None:
    measured = ALL.clone()
    measured[1, 3] = False
    with pytest.raises(ValueError, match="has no mask"):
        network(signal(500), measured)
