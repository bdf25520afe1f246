"""Whether two leads hold the same samples."""

import numpy as np

from ecgbench.ecg.checks.finding import Finding
from ecgbench.ecg.leads import LEADS, LIMB
from ecgbench.ecg.recording import Recording

THINNED = 61
"""Every so many samples are compared first, which spares the rest of nearly all pairs."""


def check(recording: Recording) -> list[Finding]:
    """Leads that are another one, or its negative, to the last bit.

    Leads without variation do not count; nor do two limb leads where a third does not vary, from
    which it follows (I = 0 makes II, III and aVF one).
    """
    flat = {*recording.flat()}
    names = [n for n in LEADS if n in recording.leads and n not in flat]
    signal = dict(zip(recording.leads, recording.signal))
    thin = recording.signal[:, ::THINNED][[recording.leads.index(n) for n in names]]
    said = []
    for what, sign in (("equals", 1), ("is the negative of", -1)):
        for i, j in np.argwhere((thin[:, None] == sign * thin[None]).all(axis=2)):
            follows = {names[i], names[j]} <= {*LIMB} and flat & {*LIMB}
            if j < i and not follows and np.array_equal(signal[names[i]], sign * signal[names[j]]):
                said.append(f"{names[i]} {what} {names[j]}")
    if not said:
        return []
    return [Finding("copies", f"{', '.join(said)} in all {recording.signal.shape[1]:,} samples")]
