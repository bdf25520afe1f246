"""The numbers of this package stay what they are: features of its models and policies, what fits
predict, and scores, against tests/data/numbers.json.

Keys of results hold three integers of `ecgbench.cards.cell` in place of this package's code.
Where a number here moves, raise the right one and run
`WRITE_NUMBERS=1 pytest tests/test_numbers.py`, which writes the file anew,
but nothing that moved without that.

Numbers are compared to 1e-4 of the largest beside it: the last bits differ between processors.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecgbench import models, policies
from ecgbench.cards import cell
from ecgbench.datasets import demo
from ecgbench.ecg import preprocess
from ecgbench.ecg.leads import ALL, LeadSubset
from ecgbench.evaluate import network
from ecgbench.evaluate.encode import Encoder
from ecgbench.policies.hide import Policy
from ecgbench.results.study import read

FILE = Path(__file__).parent / "data" / "numbers.json"
NUMBERS = {name: getattr(cell, name) for name in ("FEATURES", "FITS", "SCORES")}
OURS = [name for name in models.names() if models.ROOM.built_in(name)]
POLICIES = [name for name in policies.names() if policies.ROOM.built_in(name)]
NEAR = 1e-4


def few(values: Any) -> list[float]:
    """Mean, spread and largest, and some of the values themselves."""
    flat = np.asarray(values, np.float64).ravel()
    chosen = flat[:: max(1, len(flat) // 8)][:8]
    return [float(f"{v:.7g}") for v in (flat.mean(), flat.std(), np.abs(flat).max(), *chosen)]


def features(name: str) -> list[float]:
    """Of the first window of a recording, at one lead and at all, from random weights."""
    built = network.build(name, "random")
    contract = built.card.contract("paper")
    recording = demo.recording(1)
    seen = preprocess.view(recording.signal, recording.fs, contract.preparation)
    encoder = Encoder(built.encoder, contract, Policy.of(contract.policy, taught))
    masks = [LeadSubset.of(contract.leads[-1]).bits, ALL.bits]
    own = encoder(seen, {m: np.zeros(1, np.int64) for m in masks})
    return [v for m in masks for v in few(own[m])]


def taught() -> Iterator[np.ndarray]:
    """Ten recordings of the demo."""
    return (demo.recording(n).signal for n in range(2, 12))


def filled(name: str) -> list[float]:
    """What a policy makes of leads II and V2."""
    signal, measured = demo.recording(1).signal, LeadSubset.of("II", "V2").mask
    policy = Policy.of(name, taught)
    assert policy.fill is not None
    hidden = np.where(measured[:, None], signal, np.float32(np.nan))
    return few(policy.fill(hidden, measured, policy.state))


def fitted(protocol: str, typed: Callable[..., int], folder: Path) -> dict[str, list[float]]:
    """Of a run of tests/tiny.py: what its fit predicts, and what is predicted and scored of it."""
    epochs = () if protocol == "probe" else ("--set", "training.epochs=2")
    assert typed(folder, "--protocol", protocol, *epochs, "--leads", "2,12") == 0
    results = read(folder).results
    table = results[0].validation()
    own = table[[c for c in table.columns if c.startswith("probability:")]]
    tables = [(r.predictions(), r.scores()) for r in results]
    later = [few(p.filter(like="probability:")) + few(s["value"]) for p, s in tables]
    return {"FITS": few(own), "SCORES": [v for values in later for v in values]}


def check(number: str, name: str, now: list[float]) -> None:
    """Against what is stored; writes it where that is asked for and the number was raised."""
    stored = json.loads(FILE.read_text())
    before = stored[number].get(name)
    raised = stored["numbers"].get(number) != NUMBERS[number]
    near = before is not None and np.allclose(now, before, rtol=0, atol=NEAR * np.abs(before).max())
    if os.environ.get("WRITE_NUMBERS") and (raised or before is None):
        stored[number][name] = now
        FILE.write_text(json.dumps(stored, indent=1) + "\n")
        return
    assert near, (
        f"{name} moved: raise {number} in ecgbench/cards/cell.py, then see the head of this file"
    )
    assert not raised, f"{number} was raised: see the head of this file"


@pytest.mark.parametrize("name", OURS)
def test_features_of_models(name: str) -> None:
    check("FEATURES", f"model {name}", features(name))


@pytest.mark.parametrize("name", POLICIES)
def test_policies(name: str) -> None:
    check("FEATURES", f"policy {name}", filled(name))


@pytest.mark.parametrize("protocol", ["probe", "linear", "finetune"])
def test_fits_and_scores(protocol: str, typed: Callable[..., int], tmp_path: Path) -> None:
    for number, now in fitted(protocol, typed, tmp_path / "run").items():
        check(number, protocol, now)
