"""ECGFounder against arrays of the authors' code (tests/data/parity/ecgfounder), and what is easily
built wrong.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from ecgbench.check import parity, rule
from ecgbench.layers.features import Features
from ecgbench.models import ecgfounder

PACK = Path(__file__).parents[1] / "data" / "parity" / "ecgfounder"
KEYS = json.loads((PACK / "keys.json").read_text())
GOLDEN = dict(np.load(PACK / "golden_seed0.npz"))


@pytest.fixture(scope="module")
def network() -> ecgfounder.Net1D:
    net = ecgfounder.build()
    assert rule.fill(net, KEYS, "public-0", ecgfounder.CARD.weights) == ""
    return net.eval()


@pytest.fixture(scope="module")
def signal() -> torch.Tensor:
    return torch.from_numpy(rule.windows("ecgfounder", "public-0", 12, 1250))


def run(network: ecgfounder.Net1D, signal: torch.Tensor) -> Features:
    with torch.inference_mode():
        return network(signal, torch.ones(signal.shape[:2], dtype=torch.bool))


def near(ours: torch.Tensor, golden: np.ndarray) -> None:
    assert ours.shape == golden.shape
    assert np.abs(ours.numpy() - golden).max() <= 1e-5 * max(1, np.abs(golden).max())


def test_parity_of_the_network_of_twelve_leads() -> None:
    report = parity.check("ecgfounder", PACK / "golden_seed0.npz", PACK / "keys.json", "public-0")
    assert parity.passed(report), report
    assert [row.array for row in report] == ["features_T1250", "features_T5000"]


def test_parity_of_the_network_of_one_lead() -> None:
    report = parity.check(
        "ecgfounder1lead", PACK / "golden_1lead_seed0.npz", PACK / "keys_1lead.json", "public-0"
    )
    assert parity.passed(report), report


def test_entries_and_size_are_those_of_the_checkpoint(network: ecgfounder.Net1D) -> None:
    theirs = {e["key"]: e["shape"] for e in KEYS["entries"] if not e["key"].startswith("dense.")}
    assert {k: list(v.shape) for k, v in network.state_dict().items()} == theirs
    assert len(theirs) == 509 - 2
    count = sum(p.numel() for p in network.parameters())
    assert count == ecgfounder.CARD.parameters == 30_665_264
    assert (
        sum(
            p.numel()
            for n, p in network.named_parameters()
            if ".bn" in n or n.startswith("first_bn")
        )
        == 66_368
    )


@pytest.mark.parametrize("time", [1250, 5000])
def test_every_stage_is_the_authors(network: ecgfounder.Net1D, time: int) -> None:
    seen: list[torch.Tensor] = []
    hooks = [
        stage.register_forward_hook(lambda *args: seen.append(args[2]))
        for stage in network.stage_list
    ]
    hooks += [network.stage_list[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))]
    features = run(network, torch.from_numpy(rule.windows("ecgfounder", "public-0", 12, time)))
    for hook in hooks:
        hook.remove()
    stem, *stages = seen
    assert [x.shape[2] for x in seen] == GOLDEN[f"lengths_T{time}"].tolist()
    for name, x in (("stem", stem), ("stage0", stages[0])):
        near(x.mean((0, 2)), GOLDEN[f"{name}_mean_T{time}"])
        near(x.std((0, 2), correction=0), GOLDEN[f"{name}_std_T{time}"])
    near(torch.stack([x.square().mean().sqrt() for x in stages]), GOLDEN[f"stage_rms_T{time}"])
    near(features.sequence[:, 0, :16], GOLDEN[f"seq_ch0_15_t0_T{time}"])
    near(features.sequence.mean(1), GOLDEN[f"features_T{time}"])


def test_operations_are_the_published_number(network: ecgfounder.Net1D) -> None:
    with FlopCounterMode(display=False) as counter:
        run(network, torch.zeros(1, 12, 1250))
    assert counter.get_total_flops() == 601_757_696


def test_exchanged_leads_show(network: ecgfounder.Net1D, signal: torch.Tensor) -> None:
    exchanged = signal[:, [0, 1, 2, 3, 5, 4, 6, 7, 8, 9, 10, 11]]
    difference = (run(network, exchanged).pooled - run(network, signal).pooled).abs().max()
    assert float(difference) == pytest.approx(0.19, abs=0.005)


@pytest.mark.parametrize("time", [12, 13])
def test_an_odd_zero_is_added_on_the_right(time: int) -> None:
    conv = ecgfounder.SameConv(1, 1, 16, stride=2)
    with torch.no_grad():
        conv.conv.weight.copy_(torch.arange(16.0)[None, None])
        conv.conv.bias.zero_()  # type: ignore[union-attr]
        first = torch.zeros(1, 1, time)
        first[..., 0] = 1
        # 7 zeros before the first sample, whether 14 are added or 15: it meets the taps 7, 5, 3, 1
        assert conv(first)[0, 0].tolist() == [7, 5, 3, 1, *[0] * (-(-time // 2) - 4)]


def test_the_pool_compares_an_odd_last_sample_with_zero() -> None:
    assert ecgfounder.halved(torch.tensor([[-3.0, -2.0, -4.0, -5.0, -1.0]])).tolist() == [
        [-2, -4, 0]
    ]
    assert ecgfounder.halved(torch.tensor([[-3.0, -2.0, -4.0, -5.0]])).tolist() == [[-2, -4]]
    assert ecgfounder.halved(torch.tensor([[7.0]])).tolist() == [[7]]


def test_training_reaches_all_but_the_batch_norms(
    network: ecgfounder.Net1D, signal: torch.Tensor
) -> None:
    network.train()
    network(signal, torch.ones(2, 12, dtype=torch.bool)).pooled.square().sum().backward()
    network.eval()
    reached = {
        name for name, p in network.named_parameters() if p.grad is not None and bool(p.grad.any())
    }
    finite = all(bool(p.grad.isfinite().all()) for p in network.parameters() if p.grad is not None)
    network.zero_grad(set_to_none=True)
    assert finite
    assert {name for name, _ in network.named_parameters()} - reached == {
        name
        for name, _ in network.named_parameters()
        if ".bn" in name or name.startswith("first_bn")
    }


def test_training_mode_changes_nothing(network: ecgfounder.Net1D, signal: torch.Tensor) -> None:
    # neither batch norm nor dropout is on
    before = {k: v.clone() for k, v in network.state_dict().items()}
    evaluated = run(network, signal).pooled
    trained = run(network.train(), signal).pooled
    network.eval()
    assert torch.equal(evaluated, trained)
    assert all(torch.equal(v, before[k]) for k, v in network.state_dict().items())


def test_half_precision_is_near(network: ecgfounder.Net1D, signal: torch.Tensor) -> None:
    # of 12 inputs torch's own padding gives noise here, on CPUs with AMX
    with torch.autocast("cpu", torch.bfloat16):
        rough = run(network, signal).pooled
    assert float((rough.float() - run(network, signal).pooled).abs().max()) < 0.03


def test_every_parameter_is_in_one_group(network: ecgfounder.Net1D) -> None:
    def groups(name: str) -> list[str]:
        return [g for g, prefixes in ecgfounder.CARD.groups.items() if name.startswith(prefixes)]

    assert all(len(groups(name)) == 1 for name, _ in network.named_parameters())
    assert groups("first_bn.weight") == groups("stage_list.2.block_list.1.se_fc2.bias") == ["early"]
    assert groups("stage_list.3.block_list.0.conv1.conv.weight") == ["late"]


@pytest.mark.parametrize("shape", [(1, 11, 1250), (1, 1, 1250), (1, 12, 0), (12, 1250)])
def test_other_shapes_are_refused(network: ecgfounder.Net1D, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"ECGFounder reads signal \(batch, 12, time\)"):
        network(torch.zeros(shape), torch.ones(1, 12, dtype=torch.bool))


def test_a_mask_is_refused(network: ecgfounder.Net1D) -> None:
    measured = torch.ones(2, 12, dtype=torch.bool)
    measured[1, 3] = False
    with pytest.raises(ValueError, match="has no mask"):
        network(torch.zeros(2, 12, 1250), measured)
