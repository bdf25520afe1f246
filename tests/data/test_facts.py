"""What `ecgbench data facts` tells of a copy, counted here another way."""

from pathlib import Path

import numpy as np
import pytest

from ecgbench.data.copy import Copy
from ecgbench.data.facts import facts, lines
from ecgbench.data.prepare import prepare
from ecgbench.ecg.checks import limb
from ecgbench.ecg.leads import LIMB_FROM_I_II


@pytest.fixture(scope="module")
def demo(copies: Path) -> Copy:
    return prepare("demo", None, copies)


def test_counts_are_those_of_the_index(demo: Copy) -> None:
    told, index = facts(demo), demo.index
    assert told["splits"] == {"train": 120, "val": 20, "test": 40}
    assert told["patients"]["train"] == index[index["split"] == "train"]["patient"].nunique()
    positives = told["tasks"]["demo"]["positives"]
    for split in told["splits"]:
        for label, count in positives[split].items():
            has = (index["split"] == split) & (index[f"demo:{label}"] == 1)
            assert count == has.sum()
    assert (told["found"], told["fixed"], told["findings"]) == ({}, {}, [])
    text = "\n".join(lines(told))
    assert "train: 120 records" in text
    assert "found" not in text


def test_each_identity_counts() -> None:
    draw = np.random.default_rng(0)
    signal = (LIMB_FROM_I_II @ draw.normal(size=(2, 50))).astype(np.float32)
    assert limb.missed(signal).max() < 1e-6
    for row, counts in enumerate(((1, 1, 1, 0), (1, 1, 0, 1), (1, 0, 1, 1))):
        off = signal.copy()
        off[row, 7] += 0.25
        np.testing.assert_allclose(limb.missed(off), 0.25 * np.array(counts), atol=1e-5)
    for row, counts in ((3, (0, 2, 0, 0)), (4, (0, 0, 2, 0)), (5, (0, 0, 0, 2))):
        off = signal.copy()
        off[row, 7] += 0.25
        np.testing.assert_allclose(limb.missed(off), 0.25 * np.array(counts), atol=1e-5)
