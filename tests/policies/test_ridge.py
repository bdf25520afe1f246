"""Ridge against scikit-learn on stacked samples, its laws, and genuine recordings."""

from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from ecgbench.data.source import rows
from ecgbench.datasets import ptbxl
from ecgbench.ecg.leads import ALL, LEADS, LIMB, LIMB_FROM_I_II, LeadSubset, rows_of
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.evaluate.rows import Record
from ecgbench.policies import mean, ridge, zero

NAMED = ("I", "V4", "I+II", "II+V2", "I+II+III+aVR", "I+aVL+V3", "V1+V2+V3+V4+V5+V6")
SUBSETS = [LeadSubset.parse(t) for t in NAMED]


def ecg(seed: int, samples: int = 200, offset: float = 0.0, scale: float = 0.3) -> np.ndarray:
    """(12, time) mV, float32, rounded to 1 uV: limb leads in one plane, chest leads that share a
    source with them.
    """
    random = np.random.default_rng(seed)
    heart = random.normal(0, scale, (3, samples)) * np.array([[1.0], [0.6], [0.3]])
    chest = (
        np.random.default_rng(9).normal(0, 1, (6, 3)) @ heart
        + random.normal(0, 0.05, (6, samples))
        + offset
    )
    return np.round(np.vstack([LIMB_FROM_I_II @ heart[:2], chest]), 3).astype(np.float32)


RECORDS = [ecg(s, samples=120 + 40 * s, offset=0.1 * s) for s in range(6)]
STATE = ridge.fit(RECORDS, LEADS)
STACKED = np.concatenate(RECORDS, axis=1).astype(np.float64)


def filled(policy: Any, signal: np.ndarray, mask: np.ndarray, state: Any) -> np.ndarray:
    return policy.fill(np.where(mask[:, None], signal, np.nan).astype(signal.dtype), mask, state)


def test_statistics_are_those_of_the_stacked_samples() -> None:
    assert STATE["samples"].tolist() == [STACKED.shape[1]]
    np.testing.assert_allclose(STATE["mean"], STACKED.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(STATE["covariance"], np.cov(STACKED, bias=True), rtol=0, atol=1e-14)


@pytest.mark.parametrize("subset", SUBSETS, ids=str)
def test_agrees_with_scikit_learn_on_stacked_samples(subset: LeadSubset) -> None:
    mask, fresh = subset.mask, ecg(77).astype(np.float64)
    alpha = ridge.PENALTY * STACKED.var(axis=1).mean() * STACKED.shape[1]
    reference = Ridge(alpha=alpha, solver="svd").fit(STACKED[mask].T, STACKED[~mask].T)
    np.testing.assert_allclose(
        filled(ridge, fresh, mask, STATE)[~mask],
        reference.predict(fresh[mask].T).T,
        rtol=0,
        atol=1e-9,
    )


@pytest.mark.parametrize("pair", list(combinations(LIMB, 2)), ids="+".join)
def test_two_limb_leads_give_the_six_within_microvolts(pair: tuple[str, ...]) -> None:
    fresh = ecg(78, scale=1.5)  # larger than anything in training
    out = filled(ridge, fresh, LeadSubset.of(*pair).mask, STATE)
    assert np.abs(out - fresh)[rows_of(LIMB)].max() < 0.003


def test_a_lead_flat_throughout_training_says_nothing_and_is_filled_with_its_level() -> None:
    flat = [np.vstack([r[:7], np.full((1, r.shape[1]), np.float32(0.3)), r[8:]]) for r in RECORDS]
    state, fresh = ridge.fit(flat, LEADS), ecg(80)
    out = filled(ridge, fresh, LeadSubset.of("V2").mask, state)
    np.testing.assert_allclose(out[0], state["mean"][0], atol=1e-6)
    np.testing.assert_allclose(
        filled(ridge, fresh, LeadSubset.of("I", "V1").mask, state)[7], 0.3, atol=1e-6
    )
    beside, alone = (filled(ridge, fresh, LeadSubset.parse(t).mask, state) for t in ("I+V2", "I"))
    np.testing.assert_allclose(beside[8], alone[8], atol=1e-6)


@pytest.mark.parametrize("name", ["mean", "ridge"])
def test_a_run_learns_from_complete_training_records_alone(name: str) -> None:
    nothing: Any = SimpleNamespace(name="none")
    made = Evaluation(nothing, nothing, nothing, nothing, Path(), Path(), nothing)
    learned_from: list[str] = []

    def get(record: str) -> np.ndarray:
        learned_from.append(record)
        return ecg(ord(record))

    made.__dict__["view"] = SimpleNamespace(get=get)
    made.__dict__["records"] = {
        split: [Record(i, r, 1, ALL.bits if r != "c" else 1) for i, r in enumerate(names)]
        for split, names in (("train", "abc"), ("val", "v"), ("test", "t"))
    }
    assert made.policy(name).state is not None
    assert learned_from == ["a", "b"]


@pytest.mark.long
@pytest.mark.real
def test_v2_from_four_leads_on_genuine_recordings(real_ptbxl: Path) -> None:
    """Ridge is nearer than the others, and two limb leads give the six."""
    index = ptbxl.index(real_ptbxl / "ptbxl")
    chosen = {s: index[index["split"] == s][:n] for s, n in (("train", 200), ("test", 120))}
    learnt, unseen = (
        [ptbxl.read(real_ptbxl / "ptbxl", r).signal[:, ::5] for r in rows(chosen[s])]
        for s in ("train", "test")
    )
    mask, v2 = LeadSubset.of("I", "II", "V1", "V5").mask, LEADS.index("V2")
    rms = {}
    for policy in (zero, mean, ridge):
        state = policy.fit(learnt, LEADS) if hasattr(policy, "fit") else None
        off = [(filled(policy, x, mask, state)[v2] - x[v2]) ** 2 for x in unseen]
        rms[policy] = np.sqrt([one.mean() for one in off])
    for other in (zero, mean):
        assert np.median(rms[ridge]) < 0.75 * np.median(rms[other])
        assert np.mean(rms[ridge] ** 2) < 0.9 * np.mean(rms[other] ** 2)
    state, two = ridge.fit(learnt, LEADS), LeadSubset.of("I", "II").mask
    worst = [np.abs(filled(ridge, x, two, state) - x)[:6].max() for x in unseen]
    assert np.quantile(worst, 0.95) < 0.005
