"""Limb6-rhythm against arrays of onnxruntime on the authors' file, with the weights that are
shipped.
"""

from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file

from ecgbench.datasets import demo
from ecgbench.ecg.leads import LEADS, LIMB_FROM_I_II, LeadSubset
from ecgbench.ecg.preprocess import view
from ecgbench.models import limb6_rhythm
from ecgbench.policies.hide import Policy, adapt, cut

ROOT = Path(__file__).parents[2]
GOLDEN = dict(np.load(ROOT / "tests" / "data" / "parity" / "limb6_rhythm" / "golden.npz"))


def test_features_and_probabilities_are_those_of_the_authors_file() -> None:
    made = limb6_rhythm.build("released").eval()
    assert sum(p.numel() for p in made.parameters()) == limb6_rhythm.CARD.parameters
    x = torch.from_numpy(GOLDEN["signal"].astype(np.float32))
    with torch.no_grad():
        found = made(x, torch.ones(2, 6, dtype=torch.bool))
    np.testing.assert_allclose(found.pooled, GOLDEN["features"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.sequence.mean(1), GOLDEN["features"], rtol=0, atol=1e-5)
    head = load_file(ROOT / limb6_rhythm.CARD.weights[0].url)
    logits = found.pooled.numpy() @ head["classifier.weight"].T + head["classifier.bias"]
    each = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        each / each.sum(axis=1, keepdims=True), GOLDEN["probabilities"], rtol=0, atol=1e-5
    )


def received(*leads: str) -> np.ndarray:
    """Of a synthetic recording that has a wandering offset and these leads: (6, 1000)."""
    recording, fed = demo.recording(1), limb6_rhythm.CARD.contract("paper")
    seen = view(recording.signal + 0.3, recording.fs, fed.preparation)
    policy = Policy.of(fed.policy, list)
    signal, measured = adapt(seen, LeadSubset.of(*leads).mask, fed, policy)
    return cut(signal, measured, fed, np.zeros(1, int))[0]


def test_two_leads_give_six_on_the_scale_of_i_and_ii() -> None:
    whole = received(*LEADS)
    np.testing.assert_allclose(received("I", "II"), received("I", "III"), atol=2e-2)
    assert np.percentile(np.abs(whole[:2]), 95) == 1
    np.testing.assert_allclose(whole, LIMB_FROM_I_II @ whole[:2], atol=0.2)


def test_one_lead_has_a_scale_of_its_own_and_zeros_beside_it() -> None:
    alone = received("II")
    assert np.percentile(np.abs(alone[1]), 95) == 1
    assert (np.median(alone[1]), np.abs(np.delete(alone, 1, 0)).max()) == (0, 0)
