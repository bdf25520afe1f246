"""Leads lie where physics and the clinic have them."""

import numpy as np

from ecgbench.ecg.places import LIMB_ANGLES, places


def test_limb_leads_lie_where_einthoven_has_them() -> None:
    """II = I + III, aVF between II and III, and so on: directions add up."""
    at = {lead: np.array(places()[lead]) for lead in LIMB_ANGLES}
    np.testing.assert_allclose(at["II"], at["I"] + at["III"], atol=1e-12)
    np.testing.assert_allclose(at["aVR"] + at["aVL"] + at["aVF"], 0, atol=1e-12)
    np.testing.assert_allclose(at["aVR"] * np.sqrt(3), -(at["I"] + at["II"]), atol=1e-12)
    chest = [places()[f"V{i}"][0] for i in range(1, 7)]
    assert chest == sorted(chest)
