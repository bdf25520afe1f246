"""What `ecgbench data facts` tells of a copy, counted here another way."""

from pathlib import Path

import numpy as np
import pytest

from ecgbench.ecg.leads import LIMB_FROM_I_II
from ecgbench.prepared.facts import facts, lines, residual
from ecgbench.prepared.prepare import Prepared, prepare


@pytest.fixture(scope="module")
def demo(copies: Path) -> Prepared:
    return prepare("demo", None, copies)


def test_counts_are_those_of_the_index(demo: Prepared) -> None:
    told, index = facts(demo), demo.index
    assert told["splits"] == {"train": 120, "val": 20, "test": 40}
    assert told["patients"]["train"] == index[index["split"] == "train"]["patient"].nunique()
    positives = told["tasks"]["demo"]["positives"]
    for split in told["splits"]:
        for label, count in positives[split].items():
            has = (index["split"] == split) & (index[f"demo:{label}"] == 1)
            assert count == has.sum()
    assert told["limb_leads"]["records"] == len(index)
    assert told["limb_leads"]["largest"] <= 0.003
    text = "\n".join(lines(told))
    assert "train: 120 records" in text
    assert "0 beyond 10" in text


def test_each_identity_counts() -> None:
    draw = np.random.default_rng(0)
    signal = np.zeros((12, 50), np.float32)
    signal[:6] = LIMB_FROM_I_II @ draw.normal(size=(2, 50))
    assert residual(signal) < 1e-6
    exchanged = signal[[0, 1, 2, 5, 4, 3, *range(6, 12)]]
    assert residual(exchanged) > 0.5
    for row, factor in ((2, 1), (3, 2), (5, 2)):
        off = signal.copy()
        off[row, 7] += 0.25
        assert residual(off) == pytest.approx(0.25 * factor, abs=1e-5)
    inverted = signal * np.array([-1, *[1] * 11], np.float32)[:, None]
    assert residual(inverted) > 0.5
