"""Where the twelve leads lie on the body, for drawings."""

from math import cos, radians, sin

from ecgbench.ecg.leads import LEADS

LIMB_ANGLES = {"I": 0, "II": 60, "III": 120, "aVF": 90, "aVL": -30, "aVR": -150}
"""Degrees in the frontal plane, clockwise from the patient's left, where a lead is positive."""
CHEST = {
    "V1": (-0.17, 0.4),
    "V2": (0.17, 0.4),
    "V3": (0.36, 0.14),
    "V4": (0.55, -0.12),
    "V5": (0.77, -0.12),
    "V6": (0.99, -0.12),
}
"""Places of the electrodes on a trunk that is 2 wide, seen from the front: the patient's left is
on the right.
"""
ROUND = 1.45
"""How far from the middle limb leads are drawn."""


def places() -> dict[str, tuple[float, float]]:
    """Lead -> (right, up) as seen from the front: chest leads at their electrode, limb leads at
    their angle in the frontal plane.

    >>> places()["I"]
    (1.45, 0.0)
    """
    limbs = {
        lead: (ROUND * cos(radians(angle)), ROUND * sin(radians(-angle)))
        for lead, angle in LIMB_ANGLES.items()
    }
    return {lead: CHEST.get(lead) or limbs[lead] for lead in LEADS}
