"""ECGFounder's network of one lead: its own weights, its own input, the same code."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ecgbench.check import rule
from ecgbench.errors import BadWeights
from ecgbench.models import ecgfounder, ecgfounder1lead

PACK = Path(__file__).parents[1] / "data" / "parity" / "ecgfounder"
KEYS = json.loads((PACK / "keys_1lead.json").read_text())
GOLDEN = dict(np.load(PACK / "golden_1lead_seed0.npz"))


@pytest.fixture(scope="module")
def network() -> ecgfounder.Net1D:
    net = ecgfounder1lead.build()
    assert rule.fill(net, KEYS, "public-0", ecgfounder1lead.CARD.weights) == ""
    return net.eval()


def test_feature_and_stem_are_the_authors(network: ecgfounder.Net1D) -> None:
    # lead I of the input of the network of twelve leads
    signal = torch.from_numpy(rule.windows("ecgfounder", "public-0", 12, 5000)[:, :1])
    stem: list[torch.Tensor] = []
    hook = network.stage_list[0].register_forward_pre_hook(lambda _, args: stem.append(args[0]))
    with torch.inference_mode():
        features = network(signal, torch.ones(2, 1, dtype=torch.bool))
    hook.remove()
    for ours, golden in (
        (features.pooled, GOLDEN["features_T5000"]),
        (stem[0].mean((0, 2)), GOLDEN["stem_mean_T5000"]),
        (stem[0].std((0, 2), correction=0), GOLDEN["stem_std_T5000"]),
    ):
        assert np.abs(ours.numpy() - golden).max() <= 1e-5 * max(1, np.abs(golden).max())


def test_the_card_is_of_one_lead(network: ecgfounder.Net1D) -> None:
    card = ecgfounder1lead.CARD
    assert sum(p.numel() for p in network.parameters()) == card.parameters == 30_654_000
    assert {contract.leads for contract in card.contracts} == {("I",)}
    assert card.weights[0].url.endswith("1_lead_ECGFounder.pth")


def test_weights_of_twelve_leads_do_not_fit(tmp_path: Path) -> None:
    torch.save({"state_dict": ecgfounder.build().state_dict()}, tmp_path / "twelve.pth")
    with pytest.raises(BadWeights, match=r"1 of the wrong shape or type: first_conv\.conv\.weight"):
        ecgfounder1lead.build(tmp_path / "twelve.pth")


def test_authors_file_with_its_label_layer_is_read(
    network: ecgfounder.Net1D, tmp_path: Path
) -> None:
    state = {
        **network.state_dict(),
        "dense.weight": torch.zeros(150, 1024),
        "dense.bias": torch.zeros(150),
    }
    torch.save({"state_dict": state, "optimizer": {"state": {}}}, tmp_path / "one.pth")
    loaded = ecgfounder1lead.build(tmp_path / "one.pth").state_dict()
    assert all(torch.equal(v, loaded[k]) for k, v in network.state_dict().items())
