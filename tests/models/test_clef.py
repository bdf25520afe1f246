"""CLEF against arrays of the authors' code (tests/data/parity/clef), all three sizes, and how it
reads several leads.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ecgbench import models
from ecgbench.check import rule
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.preprocess import normalise
from ecgbench.models import clef_medium, ecgfounder1lead

PACK = Path(__file__).parents[1] / "data" / "parity" / "clef"
KEYS = json.loads((PACK / "keys.json").read_text())
GOLDEN = dict(np.load(PACK / "golden_seed0.npz"))
SIZES = {"S": "clef_small", "M": "clef_medium"}


def filled(size: str, keys: dict) -> clef_medium.Clef:
    """The network of a size with the pack's pseudo-weights."""
    module = models.get(SIZES.get(size, "clef_large"))
    network: clef_medium.Clef = module.build()
    listed = {"checkpoint": keys[f"checkpoint_{size}"]}
    assert rule.fill(network, listed, "public-0", module.CARD.weights) == ""
    count = sum(p.numel() for p in network.parameters())
    assert count == module.CARD.parameters == keys[f"n_params_{size}"]
    return network.eval().requires_grad_(False)


@pytest.fixture(scope="module", params=SIZES)
def sized(request: pytest.FixtureRequest) -> tuple[str, clef_medium.Clef]:
    return request.param, filled(request.param, KEYS)


def signal(time: int) -> torch.Tensor:
    return torch.from_numpy(rule.windows("clef", "public-0", 12, time))


def near(ours: torch.Tensor | np.ndarray, golden: np.ndarray, limit: float = 1e-5) -> None:
    assert ours.shape == golden.shape
    assert np.abs(np.asarray(ours) - golden).max() <= limit * max(1, np.abs(golden).max())


@pytest.mark.parametrize("time", [5000, 1250])
def test_features_of_one_lead_are_the_authors(
    sized: tuple[str, clef_medium.Clef], time: int
) -> None:
    size, network = sized
    x, measured = signal(time), torch.zeros(2, 12, dtype=torch.bool)
    measured[:, 0] = True
    x[~measured] = torch.nan
    found = network(x, measured)
    near(found.pooled, GOLDEN[f"features_{size}_T{time}"])
    near(found.sequence[:, 0, :16], GOLDEN[f"seq_ch0_15_t0_{size}_T{time}"])


def test_several_leads_give_the_mean_of_each(sized: tuple[str, clef_medium.Clef]) -> None:
    size, network = sized
    alone = GOLDEN[f"features_{size}_leads12_s0_T5000"]
    x = signal(5000)[:1]
    for chosen in ([0, 1], [2, 7, 11], list(range(12))):
        measured = torch.zeros(1, 12, dtype=torch.bool)
        measured[0, chosen] = True
        near(network(x, measured).pooled[0], alone[chosen].mean(0))
    with pytest.raises(ValueError, match="no measured lead"):
        network(x, torch.zeros(1, 12, dtype=torch.bool))


@pytest.mark.long
def test_features_of_the_largest_are_the_authors() -> None:
    network = filled("L", json.loads((PACK / "keys_large.json").read_text()))
    x, measured = signal(5000), torch.zeros(2, 12, dtype=torch.bool)
    measured[:, 0] = True
    with np.load(PACK / "golden_large_seed0.npz") as golden:
        near(network(x, measured).pooled, golden["features_L_T5000"])


def test_filter_and_scaling_are_the_authors() -> None:
    contract = clef_medium.CARD.contract("paper")
    assert contract.filter is not None
    assert contract.leads == LEADS
    t = np.arange(5000) / 500
    x = signal(5000)[0, :1].numpy().astype(np.float64) + 0.8 * np.sin(2 * np.pi * 0.2 * t) + 0.5
    passed = contract.filter(x, 500)
    near(passed[0, ::10], GOLDEN["pre_bandpass"], 1e-6)
    near(normalise(passed, contract.normalisation)[0, ::10], GOLDEN["pre_bandpass_z"], 1e-6)
    assert clef_medium.CARD.contract("authors-ptbxl").filter is None


def test_keys_are_those_of_ecgfounder_for_one_lead() -> None:
    one, other = clef_medium.build().state_dict(), ecgfounder1lead.build().state_dict()
    assert {k: v.shape for k, v in one.items()} == {k: v.shape for k, v in other.items()}


def test_the_authors_checkpoint_is_read(tmp_path: Path) -> None:
    own = models.get("clef_small").build().state_dict()
    held = {f"backbone.{k}": v for k, v in own.items()}
    more = {"predictor.0.weight": torch.zeros(2, 2), "queue": torch.zeros(3)}
    torch.save({"state_dict": held | more, "epoch": 3}, tmp_path / "clef_small.ckpt")
    read = models.get("clef_small").build(tmp_path / "clef_small.ckpt").state_dict()
    assert all(torch.equal(v, read[k]) for k, v in own.items())
