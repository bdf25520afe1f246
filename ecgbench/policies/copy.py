"""Copy: a missing lead copies the nearest measured one of its kind.

A limb lead: the nearest in frontal angle, inverted where the angle between the two exceeds 90
degrees. A chest lead: the nearest by number. Ties go to the first in clinical order. None of its
kind measured: 0 mV.
"""

import numpy as np

from ecgbench.ecg.leads import ANGLE, LEADS, LIMB
from ecgbench.policies.hide import State


def fill(signal: np.ndarray, measured: np.ndarray, state: State | None = None) -> np.ndarray:
    """signal (12, time) mV with NaN in hidden rows, measured (12,) bool -> (12, time) mV."""
    filled = signal.copy()
    for row in np.flatnonzero(~measured):
        source, sign = nearest(LEADS[row], [n for n, m in zip(LEADS, measured, strict=True) if m])
        filled[row] = 0 if source is None else sign * signal[LEADS.index(source)]
    return filled


def nearest(lead: str, measured: list[str]) -> tuple[str | None, int]:
    """The measured lead to copy and its sign.

    >>> nearest("aVR", ["I", "V1"]), nearest("V3", ["II", "V1", "V5"]), nearest("V3", ["II"])
    (('I', -1), ('V1', 1), (None, 1))
    """
    kin = [n for n in measured if (n in LIMB) == (lead in LIMB)]
    if not kin:
        return None, 1
    source = min(kin, key=lambda n: _distance(lead, n))
    return source, -1 if lead in LIMB and _distance(lead, source) > 90 else 1


def _distance(a: str, b: str) -> float:
    if a in LIMB:
        turn = abs(ANGLE[a] - ANGLE[b]) % 360
        return min(turn, 360 - turn)
    return abs(int(a[1]) - int(b[1]))
