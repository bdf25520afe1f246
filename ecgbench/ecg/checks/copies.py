"""Whether two leads hold the same samples."""

import numpy as np

from ecgbench.ecg.checks.finding import Finding
from ecgbench.ecg.leads import LEADS, LIMB
from ecgbench.ecg.recording import Recording


def check(recording: Recording) -> list[Finding]:
    """Leads that are another one, or its negative, to the last bit.

    Leads without variation do not count; nor do two limb leads where a third does not vary, from
    which it follows (I = 0 makes II, III and aVF one).
    """
    flat, extremes = {*recording.flat()}, recording.extremes
    names = [n for n in LEADS if n in recording.leads and n not in flat]
    signal = dict(zip(recording.leads, recording.signal))
    ends = {n: (a, b) for n, a, b in zip(recording.leads, *map(np.ndarray.tolist, extremes))}
    mirrored = {n: (-b, -a) for n, (a, b) in ends.items()}
    pairs = [(one, other) for i, other in enumerate(names) for one in names[:i]]
    said = []
    for what, sign, wanted in (("equals", 1, ends), ("is the negative of", -1, mirrored)):
        for one, other in pairs:
            # the extremes spare the samples of nearly all pairs
            if ends[other] != wanted[one] or ({one, other} <= {*LIMB} and flat & {*LIMB}):
                continue
            if np.array_equal(signal[other], sign * signal[one]):
                said.append(f"{other} {what} {one}")
    if not said:
        return []
    return [Finding("copies", f"{', '.join(said)} in all {recording.signal.shape[1]:,} samples")]
