"""CLEF against arrays of the authors' code (tests/data/parity/clef), all three sizes, and how it
reads several leads.
"""

import numpy as np
import pytest
import torch

from ecgbench.check import parity
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.preprocess import normalise
from ecgbench.models import clef_medium
from tests.models.packs import PARITY, filled, golden, keys, near, signal

GOLDEN = golden("clef")
SIZES = {"S": "clef_small", "M": "clef_medium", "L": "clef_large"}
FIRST = (torch.arange(12) < 1).repeat(2, 1)


def network(size: str, file: str = "keys.json") -> clef_medium.Clef:
    """With the pack's pseudo-weights."""
    made: clef_medium.Clef = filled(
        SIZES[size], {"checkpoint": keys("clef", file)[f"checkpoint_{size}"]}
    )
    return made


@pytest.mark.long
@pytest.mark.parametrize("size", ["S", "M"])
def test_features_of_one_lead_are_the_authors_and_several_give_the_mean(size: str) -> None:
    net = network(size)
    for time in (5000, 1250):
        x = signal("clef", time)
        x[~FIRST] = torch.nan
        found = net(x, FIRST)
        near(found.pooled, GOLDEN[f"features_{size}_T{time}"])
        near(found.sequence[:, 0, :16], GOLDEN[f"seq_ch0_15_t0_{size}_T{time}"])
    alone, x = GOLDEN[f"features_{size}_leads12_s0_T5000"], signal("clef", 5000)[:1]
    for chosen in ([0, 1], [2, 7, 11], list(range(12))):
        measured = torch.zeros(1, 12, dtype=torch.bool)
        measured[0, chosen] = True
        near(net(x, measured).pooled[0], alone[chosen].mean(0))


def test_the_check_of_parity_takes_the_arrays_of_its_own_size() -> None:
    files = PARITY / "clef" / "golden_seed0.npz", PARITY / "clef" / "keys.json"
    rows = parity.check("clef_small", *files, "public-0")
    assert len(rows) == 4
    assert parity.passed(rows)
    assert not parity.passed(parity.check("clef_small", *files, "public-1"))


@pytest.mark.long
def test_features_of_the_largest_are_the_authors() -> None:
    found = network("L", "keys_large.json")(signal("clef", 5000), FIRST)
    near(found.pooled, golden("clef", "golden_large_seed0.npz")["features_L_T5000"])


def test_filter_and_scaling_are_the_authors() -> None:
    contract = clef_medium.CARD.contract("paper")
    assert contract.filter is not None
    assert contract.leads == LEADS
    t = np.arange(5000) / 500
    x = signal("clef", 5000)[0, :1].numpy().astype(np.float64)
    x = x + 0.8 * np.sin(2 * np.pi * 0.2 * t) + 0.5
    passed = contract.filter(x, 500)
    near(passed[0, ::10], GOLDEN["pre_bandpass"], 1e-6)
    near(normalise(passed, contract.normalisation)[0, ::10], GOLDEN["pre_bandpass_z"], 1e-6)
    assert clef_medium.CARD.contract("authors-ptbxl").filter is None
